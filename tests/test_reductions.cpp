// Every reduction on virtual ranks, in a thousand orders of arrival: sums against f64, bits against a serial tree.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "comm/communicator.hpp"
#include "comm/gradient_sum.hpp"
#include "comm/reduction.hpp"
#include "simulate/virtual_world.hpp"

namespace petaflow {
namespace {

RandomSequence numbers(std::uint64_t seed, std::uint64_t index = 0) {
  return {random_stream(seed, RandomPurpose::kGenerate), index};
}

/// Messages take between no time and a second.
class AnyOrder final : public FixedArrivals {
 public:
  explicit AnyOrder(std::uint64_t seed) : random_(numbers(seed, 1)) {}
  double arrival_s(int, int, std::size_t, double start_s) override { return start_s + random_.uniform(); }

 private:
  RandomSequence random_;
};

/// Values of very different size and both signs, so that the order of additions shows.
std::vector<float> vector_of(std::uint64_t seed, int number, std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  RandomSequence random = numbers(seed, 2 + static_cast<std::uint64_t>(number));
  for (float& value : values) {  // normal numbers would take most of the test's time
    value = static_cast<float>(random.uniform() - 0.5) * std::exp2(static_cast<float>(random.bits() % 12));
  }
  return values;
}

/// Values whose roundings are as bad as can be: one rank has a number a little below the middle between 1 and the next
/// one, and the others as much as a sum with it loses, or a multiple of that.
std::vector<float> worst_of(std::uint64_t seed, int number, int ranks, std::int64_t elements, double unit) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  RandomSequence random = numbers(seed, 2 + static_cast<std::uint64_t>(number));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool is_large = static_cast<int>(i % static_cast<std::size_t>(ranks)) == number;
    const double lost = unit * (1 - 1.0 / 64);
    values[i] = static_cast<float>(is_large ? 1 + lost : lost * (random.bits() % 3));
  }
  return values;
}

struct Case {
  int ranks = 1;
  std::int64_t elements = 0;
  std::size_t eager_bytes = 0;
  int ranks_per_node = 1;
  std::uint64_t seed = 0;
  double unit = 0;  // of narrow numbers, for worst_of()
  std::vector<float> vector(int rank) const {
    return unit > 0 ? worst_of(seed, rank, ranks, elements, unit) : vector_of(seed, rank, elements);
  }
  std::string text() const {
    return fmt::format("{} ranks, {} on a node, {} elements, eager up to {}, seed {}", ranks, ranks_per_node, elements,
                       eager_bytes, seed);
  }
};

/// Random cases: for each number of ranks and eager limit so many.
template <class F>
void for_each_case(int seeds, const F& test) {
  std::vector<int> ranks = {32};
  for (int p = 17; p >= 1; --p) ranks.push_back(p);
  for (const int p : ranks) {
    std::uint64_t first_seed = 1000 * static_cast<std::uint64_t>(p);
    for (const std::size_t eager : {std::size_t{0}, std::size_t{4096}, std::numeric_limits<std::size_t>::max()}) {
      first_seed += 100;
      for (int s = 0; s < seeds; ++s) {
        Case c{p, 0, eager, 1, first_seed + static_cast<std::uint64_t>(s)};
        RandomSequence random = numbers(c.seed);
        c.elements = static_cast<std::int64_t>(std::pow(1e5, random.uniform())) - 1;
        if (s == 0) c.elements = 0;
        if (s == 1) c.elements = 100000;
        for (const int per_node : {2, 3, 4}) {
          if (p % per_node == 0 && random.bits() % 2 == 0) c.ranks_per_node = per_node;
        }
        test(c);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

/// Runs on all ranks of a case; what they return, by rank.
template <class F>
std::vector<std::vector<float>> run(const Case& c, const F& of_rank) {
  AnyOrder network(c.seed);
  VirtualOptions options;
  options.eager_bytes = c.eager_bytes;
  options.ranks_per_node = c.ranks_per_node;
  options.seed = c.seed;
  VirtualWorld world(c.ranks, network, options);
  std::vector<std::vector<float>> results(static_cast<std::size_t>(c.ranks));
  world.run([&](std::unique_ptr<Transport> transport) {
    const int rank = transport->rank();
    transport->work(numbers(c.seed, 1000 + static_cast<std::uint64_t>(rank)).uniform());
    Communicator comm(std::move(transport));
    results[static_cast<std::size_t>(rank)] = of_rank(comm);
  });
  EXPECT_EQ(world.messages_left(), 0) << c.text();
  return results;
}

void expect_same_bits(const std::vector<std::vector<float>>& results, const std::vector<float>& expected,
                      const Case& c) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    ASSERT_EQ(results[rank].size(), expected.size());
    ASSERT_TRUE(expected.empty() ||
                std::memcmp(results[rank].data(), expected.data(), expected.size() * sizeof(float)) == 0)
        << c.text() << ", rank " << rank;
  }
}

class AnyReduction : public testing::TestWithParam<const ReductionImpl*> {
 protected:
  /// One or two sums of the same object; the results of the last.
  static std::vector<std::vector<float>> sums(const Case& c, Wire wire) {
    return run(c, [&](Communicator& comm) {
      Transport& transport = comm.transport();
      Reduction<float> sum(transport, GetParam()->plan(transport, c.elements), comm.new_tag(), ReduceOp::kSum, wire);
      std::vector<float> values;
      for (std::uint64_t time = 0; time < 1 + c.seed % 2; ++time) {
        values = c.vector(comm.rank());
        sum.start(std::array{values.data()});
        transport.wait([&] { return sum.advance(); }, "test");
      }
      return values;
    });
  }
  /// Largest error of any element, in units of the sum of its absolute values.
  static void expect_sum(const std::vector<std::vector<float>>& results, const Case& c, double bound) {
    std::vector<double> sum(static_cast<std::size_t>(c.elements)), size(sum.size());
    for (int rank = 0; rank < c.ranks; ++rank) {
      const std::vector<float> values = c.vector(rank);
      for (std::size_t i = 0; i < values.size(); ++i) {
        sum[i] += values[i];
        size[i] += std::fabs(values[i]);
      }
    }
    for (std::size_t i = 0; i < sum.size(); ++i) {
      ASSERT_LE(std::fabs(results[0][i] - sum[i]), bound * size[i]) << c.text() << ", element " << i;
    }
    expect_same_bits(results, results[0], c);
  }
};

std::vector<const ReductionImpl*> own_reductions() {
  std::vector<const ReductionImpl*> own;
  for (const ReductionImpl* impl : reduction_impls()) {
    if (impl->plan != nullptr) own.push_back(impl);
  }
  return own;
}
INSTANTIATE_TEST_SUITE_P(All, AnyReduction, testing::ValuesIn(own_reductions()),
                         [](const auto& impl) { return std::string(impl.param->name); });

TEST_P(AnyReduction, SumsInAnyOrderOfArrival) {
  for_each_case(19, [&](const Case& c) {
    const auto results = sums(c, Wire::kF32);
    expect_sum(results, c, c.ranks * static_cast<double>(std::numeric_limits<float>::epsilon()));
  });
}

// One rounding to 8 bits for each message on the way, half a unit each, and one of the sum.
TEST_P(AnyReduction, NarrowMessagesRoundOnceEach) {
  for_each_case(4, [&](const Case& c) {
    for (const Wire wire : {Wire::kBf16, Wire::kFp16}) {
      std::optional<std::string> refused;
      const auto results = run({c.ranks, 0, c.eager_bytes, c.ranks_per_node, c.seed}, [&](Communicator& comm) {
        refused = GetParam()->why_not(comm.transport(), wire);
        return std::vector<float>();
      });
      if (!refused->empty()) {
        EXPECT_STREQ(GetParam()->name, "ring");
        continue;
      }
      const double unit = wire == Wire::kBf16 ? 0x1p-8 : 0x1p-11;
      const double bound = (std::log2(c.ranks) + 1) * unit;
      expect_sum(sums(c, wire), c, bound);
      Case worst = c;
      worst.unit = unit;
      expect_sum(sums(worst, wire), worst, bound);
    }
  });
}

// ---- Fixed order ----

/// The definition, recursively: the node of this level and number.
std::vector<float> node(const std::vector<std::vector<float>>& shards, int level, int number) {
  if (level == 0) return shards[static_cast<std::size_t>(number)];
  std::vector<float> left = node(shards, level - 1, 2 * number);
  if (((2 * number + 1) << (level - 1)) < static_cast<int>(shards.size())) {
    const std::vector<float> right = node(shards, level - 1, 2 * number + 1);
    for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  }
  return left;
}

std::vector<float> whole_tree(const std::vector<std::vector<float>>& shards) {
  int levels = 0;
  while ((1 << levels) < static_cast<int>(shards.size())) ++levels;
  return node(shards, levels, 0);
}

/// Shards dealt evenly, or anyhow: some ranks but the first may have none.
std::vector<ShardRange> dealt(int ranks, int shards, RandomSequence& random) {
  std::vector<int> ends = {shards};
  if (random.bits() % 2 == 0) {
    std::vector<ShardRange> even;
    for (int rank = 0; rank < ranks; ++rank) even.push_back(shards_of(rank, ranks, shards));
    if (even.front().count() > 0) return even;
  }
  for (int rank = 1; rank < ranks; ++rank) {
    ends.push_back(1 + static_cast<int>(random.bits() % static_cast<std::uint32_t>(shards)));
  }
  std::ranges::sort(ends);
  std::vector<ShardRange> ranges;
  for (const int end : ends) ranges.push_back({ranges.empty() ? 0 : ranges.back().end, end});
  return ranges;
}

TEST(FixedOrder, HasTheBitsOfTheTreeWhoeverHoldsTheShards) {
  for_each_case(19, [&](const Case& c) {
    RandomSequence random = numbers(c.seed, 500);
    const int count = 1 + static_cast<int>(random.bits() % 40);
    const std::vector<ShardRange> ranges = dealt(c.ranks, count, random);
    const std::int64_t elements = c.elements;
    std::vector<std::vector<float>> shards;
    for (int s = 0; s < count; ++s) shards.push_back(vector_of(c.seed, s, elements));
    // Gradients of three arrays, the last one first.
    const std::vector<std::int64_t> ends = {elements / 3, elements / 2, elements};
    GradientSumOptions options;
    options.bucket = 1 + elements / 4;
    options.overlap = c.seed % 3 != 0;
    const auto results = run(c, [&](Communicator& comm) {
      GradientSum sum(comm, ends, options, ranges);
      std::vector<float> gradient(static_cast<std::size_t>(elements));
      const ShardRange mine = ranges[static_cast<std::size_t>(comm.rank())];
      for (int time = 0; time < 2; ++time) {
        sum.begin(gradient.data());
        for (int s = mine.begin; s < mine.end; ++s) {
          gradient = shards[static_cast<std::size_t>(s)];
          comm.transport().work(0.3);
          sum.ready_from(ends[1]);
          comm.transport().work(0.3);
          sum.ready_from(ends[0]);
          sum.end_micro_batch();
        }
        sum.finish([](std::int64_t, std::int64_t) {});
      }
      return gradient;
    });
    expect_same_bits(results, whole_tree(shards), c);
  });
}

TEST(FixedOrder, TheOrderShowsInTheseNumbers) {
  std::vector<std::vector<float>> shards;
  std::vector<float> serial(1000, 0);
  for (int s = 0; s < 16; ++s) {
    shards.push_back(vector_of(1, s, 1000));
    for (std::size_t i = 0; i < serial.size(); ++i) serial[i] += shards.back()[i];
  }
  EXPECT_NE(serial, whole_tree(shards));
}

// With a shard on each of 2^n ranks nobody sends or adds more than the others: twice (1 - 1 / P) of the vector.
TEST(FixedOrder, SharesTheWork) {
  constexpr int kRanks = 16;
  constexpr std::int64_t kElements = 160000;
  std::vector<ShardRange> shards;
  for (int rank = 0; rank < kRanks; ++rank) shards.push_back({rank, rank + 1});
  for (int rank = 0; rank < kRanks; ++rank) {
    std::int64_t sent = 0, added = 0;
    for (const Step& step : tree_plan(rank, shards, kElements)) {
      if (step.kind == Step::Kind::kSend) sent += step.slice.size();
      if (step.kind == Step::Kind::kCombine) added += step.slice.size();
    }
    EXPECT_EQ(added, kElements - kElements / kRanks);
    EXPECT_EQ(sent, 2 * (kElements - kElements / kRanks));
  }
}

// Halves of the same tree: the slices of all owners are the vector, and after the second half every rank has all of it.
TEST(Owners, HaveTheBitsOfTheTreeAndShareTheVector) {
  for_each_case(4, [&](const Case& c) {
    std::vector<ShardRange> ranges;
    std::vector<std::vector<float>> shards;
    for (int rank = 0; rank < c.ranks; ++rank) {
      ranges.push_back({rank, rank + 1});
      shards.push_back(vector_of(c.seed, rank, c.elements));
    }
    std::vector<std::int64_t> cuts;
    for (std::int64_t cut = 0; c.seed % 2 == 0 && cut < c.elements; cut += 1 + c.elements / 40) cuts.push_back(cut);
    std::vector<int> owners(static_cast<std::size_t>(c.elements));
    for (int rank = 0; rank < c.ranks; ++rank) {
      std::int64_t last = 0, sum = 0;
      for (const Slice& slice : owner_plans(rank, ranges, c.elements, cuts).own) {
        EXPECT_LE(last, slice.begin);
        last = slice.end;
        sum += slice.size();
        EXPECT_TRUE(cuts.empty() || std::ranges::binary_search(cuts, slice.begin)) << slice.begin;
        for (std::int64_t i = slice.begin; i < slice.end; ++i) owners[static_cast<std::size_t>(i)] += 1;
      }
      const bool even = std::has_single_bit(static_cast<unsigned>(c.ranks)) && cuts.empty() && c.elements >= 1 << 14;
      EXPECT_TRUE(!even || sum <= c.elements / c.ranks + 1) << c.text();
    }
    EXPECT_EQ(std::ranges::count(owners, 1), c.elements) << c.text();
    const auto results = run(c, [&](Communicator& comm) {
      Transport& transport = comm.transport();
      const OwnerPlans plans = owner_plans(comm.rank(), ranges, c.elements, cuts);
      Reduction<float> sum(transport, plans.sum, comm.new_tag()), spread(transport, plans.spread, comm.new_tag());
      std::vector<float> gradient = shards[static_cast<std::size_t>(comm.rank())];
      sum.start(std::array{gradient.data()});
      transport.wait([&] { return sum.advance(); }, "test");
      std::vector<float> values(gradient.size(), 0.5F);
      for (const Slice& slice : plans.own) {
        for (auto i = static_cast<std::size_t>(slice.begin); i < static_cast<std::size_t>(slice.end); ++i) {
          values[i] = gradient[i];
        }
      }
      spread.start(std::array{values.data()});
      transport.wait([&] { return spread.advance(); }, "test");
      return values;
    });
    expect_same_bits(results, whole_tree(shards), c);
  });
}

// ---- Communicators ----

TEST(VirtualRanks, ReduceBroadcastGatherAndSplit) {
  for_each_case(2, [&](const Case& c) {
    run(c, [&](Communicator& comm) {
      std::vector<double> values = {1, static_cast<double>(comm.rank())};
      comm.all_reduce_sum(std::span<double>(values));
      EXPECT_EQ(values[1], c.ranks * (c.ranks - 1) / 2.0);
      comm.all_reduce_max(std::span<double>(values));
      EXPECT_EQ(values[0], c.ranks);
      const int root = c.ranks / 2;
      std::vector<std::byte> bytes(static_cast<std::size_t>(c.elements), std::byte(comm.rank()));
      comm.broadcast(bytes, root);
      EXPECT_EQ(std::ranges::count(bytes, std::byte(root)), c.elements);
      const auto texts = gather_text(comm, std::string(static_cast<std::size_t>(comm.rank()), 'x'));
      EXPECT_EQ(texts.size(), comm.rank() == 0 ? static_cast<std::size_t>(c.ranks) : 0);
      for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i].size(), i);
      EXPECT_LE(comm.node_size(), c.ranks_per_node);
      const auto odd = comm.split(comm.rank() % 2);
      double ranks = comm.rank();
      odd->all_reduce_max(std::span(&ranks, 1));
      EXPECT_EQ(ranks, (c.ranks - 1) % 2 == comm.rank() % 2 ? c.ranks - 1 : c.ranks - 2);
      return std::vector<float>();
    });
  });
}

}  // namespace
}  // namespace petaflow
