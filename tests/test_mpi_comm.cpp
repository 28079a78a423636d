// Communicators against closed forms, on any number of ranks; the sum of shards against a serial replay, bit for bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>
#include <type_traits>

#include <gtest/gtest.h>
#include <mpi.h>
#include <unistd.h>

#include "base/error.hpp"
#include "base/random.hpp"
#include "comm/communicator.hpp"
#include "comm/gradient_sum.hpp"
#include "comm/mpi.hpp"
#include "comm/reduction_plan.hpp"

namespace petaflow {
namespace {

bool probe_fails = false;

}  // namespace
}  // namespace petaflow

/// In the place of MPI's own, as its profiling interface allows (MPI 3.1, section 14.2): nothing else probes.
extern "C" int MPI_Iprobe(int source, int tag, MPI_Comm comm, int* flag, MPI_Status* status) {
  return petaflow::probe_fails ? MPI_ERR_INTERN : PMPI_Iprobe(source, tag, comm, flag, status);
}

namespace petaflow {
namespace {

std::unique_ptr<Communicator> make(const std::string& transport) {
  if (transport == "mpi") return make_mpi_communicator();
  if (transport == "self") return std::make_unique<Communicator>();
  return make_communicator();
}

class AnyCommunicator : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Communicator> comm = make(GetParam());
  float rank = static_cast<float>(comm->rank()), size = static_cast<float>(comm->size());
};
INSTANTIATE_TEST_SUITE_P(Transports, AnyCommunicator, testing::Values("mpi", "self", "auto"),
                         [](const auto& name) { return std::string(name.param); });

// A rank and a tag in each other's place do not compile.
template <class T>
concept IsTag = requires(Transport& transport, std::span<const std::byte> sent, std::span<std::byte> received, T tag) {
  transport.send(sent, 0, tag);
  transport.receive(received, 0, tag);
};
static_assert(IsTag<Tag> && !IsTag<int> && !std::is_convertible_v<Tag, int>);

TEST(Tag, IsOneThatEveryMpiTakes) {
  EXPECT_EQ((Tag(3) + 4).number(), 7);
  EXPECT_NO_THROW(Tag(0) + Tag::kMost);
  EXPECT_THROW(Tag(1) + Tag::kMost, Error);
  EXPECT_THROW(Tag(-1), Error);
  Communicator comm;
  std::set<int> numbers = {Communicator::kWaitingTag.number()};
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(numbers.insert(comm.new_tag().number()).second);
}

TEST_P(AnyCommunicator, ReducesToClosedForms) {
  std::vector<double> values(1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = (rank + 1) * static_cast<double>(i % 7);
  comm->all_reduce_sum(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], size * (size + 1) / 2 * static_cast<double>(i % 7));
  }
  double high = rank, sum = 0.5;
  comm->all_reduce_max(std::span(&high, 1));
  comm->all_reduce_sum(std::span<double>(&sum, 1));
  EXPECT_EQ(high, size - 1);
  EXPECT_EQ(sum, size / 2);
  EXPECT_GE(comm->node_size(), 1);
  EXPECT_LE(comm->node_size(), comm->size());
  comm->barrier();
}

TEST_P(AnyCommunicator, CarriesTexts) {
  EXPECT_EQ(broadcast_text(*comm, comm->rank() == 0 ? "from the root" : "something longer than that"), "from the root");
  EXPECT_EQ(broadcast_text(*comm, ""), "");
  const std::vector<std::string> texts = gather_text(*comm, std::string(static_cast<std::size_t>(comm->rank()), 'x'));
  if (comm->rank() == 0) {
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(comm->size()));
    for (std::size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(texts[i].size(), i);
  } else {
    EXPECT_TRUE(texts.empty());
  }
}

TEST_P(AnyCommunicator, BucketsEqualThePlainSum) {
  const std::vector<std::int64_t> ends = {700, 710, 2000, 2050, 5000, 5003};
  for (const char* reduction : {"auto", "ring", "doubling", "halving", "two_level"}) {
    for (const std::int64_t bucket : {1, 60, 3000, 100000}) {
      GradientSumOptions options;
      options.bucket = bucket;
      options.reduction = reduction;
      GradientSum sum(*comm, ends, options);
      std::vector<float> gradient(5003);
      std::iota(gradient.begin(), gradient.end(), 0.0F);
      comm->barrier();
      if (comm->rank() > 0 && comm->rank() == comm->size() - 1) usleep(20000);  // until then nothing is summed
      sum.begin(gradient.data());
      for (std::size_t i = ends.size(); i-- > 1;) sum.ready_from(ends[i - 1]);
      sum.end_micro_batch();
      std::vector<Slice> summed;
      sum.finish([&](std::int64_t begin, std::int64_t end) {
        summed.push_back({begin, end});
        for (std::int64_t i = begin; i < end; ++i) {
          ASSERT_EQ(gradient[static_cast<std::size_t>(i)], size * static_cast<float>(i)) << reduction;
        }
      });
      EXPECT_EQ(summed, sum.buckets());
    }
  }
}

TEST(Buckets, EndAtArraysAndAreNotSmallerThanAsked) {
  const auto comm = make("self");
  const std::vector<std::int64_t> ends = {700, 710, 2000, 2050};
  const auto buckets = [&](std::int64_t bucket) {
    GradientSumOptions options;
    options.bucket = bucket;
    return GradientSum(*comm, ends, options).buckets();
  };
  EXPECT_EQ(buckets(60), (std::vector<Slice>{{710, 2050}, {0, 710}}));
  EXPECT_EQ(buckets(1), (std::vector<Slice>{{2000, 2050}, {710, 2000}, {700, 710}, {0, 700}}));
  EXPECT_EQ(buckets(9999), (std::vector<Slice>{{0, 2050}}));
}

// ---- Sum of shards ----

constexpr std::int64_t kElements = 3000;

/// Values of very different size, so that the order of additions shows.
std::vector<float> shard(int number) {
  std::vector<float> values(kElements);
  RandomSequence random(random_stream(7, RandomPurpose::kInit), static_cast<std::uint64_t>(number));
  for (float& value : values) value = static_cast<float>(random.normal() * std::exp(4 * random.normal()));
  return values;
}

/// The definition, recursively: the node of this level and number.
std::vector<float> replay(int level, int number, int shards) {
  if (level == 0) return shard(number);
  std::vector<float> left = replay(level - 1, 2 * number, shards);
  if (((2 * number + 1) << (level - 1)) < shards) {
    const std::vector<float> right = replay(level - 1, 2 * number + 1, shards);
    for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  }
  return left;
}

void expect_tree(Communicator& comm, const std::vector<ShardRange>& ranges) {
  GradientSumOptions options;
  options.bucket = 30;
  GradientSum sum(comm, std::vector<std::int64_t>{1100, 1170, kElements}, options, ranges);
  const int shards = ranges.back().end;
  int levels = 0;
  while ((1 << levels) < shards) ++levels;
  const std::vector<float> expected = replay(levels, 0, shards);
  for (int step = 0; step < 2; ++step) {
    const ShardRange mine = ranges[static_cast<std::size_t>(comm.rank())];
    std::vector<float> gradient(kElements);
    sum.begin(gradient.data());
    for (int s = mine.begin; s < mine.end; ++s) {
      std::ranges::copy(shard(s), gradient.begin());
      sum.ready_from(1155);
      sum.end_micro_batch();
    }
    std::vector<Slice> summed;
    sum.finish([&](std::int64_t begin, std::int64_t end) { summed.push_back({begin, end}); });
    EXPECT_EQ(summed, sum.buckets());
    ASSERT_EQ(std::memcmp(gradient.data(), expected.data(), kElements * sizeof(float)), 0) << shards << " shards";
  }
}

TEST(FixedOrder, IsTheSameForAnyDistribution) {
  const auto comm = make("mpi");
  const int ranks = comm->size();
  for (int shards = ranks; shards <= 17; ++shards) {
    std::vector<ShardRange> even, front, back;  // even, all but one on the first rank, all but one on the last rank
    for (int r = 0; r < ranks; ++r) {
      even.push_back(shards_of(r, ranks, shards));
      EXPECT_GE(even.back().count(), shards / ranks);
      EXPECT_LE(even.back().count(), shards / ranks + 1);
      front.push_back({r == 0 ? 0 : shards - ranks + r, shards - ranks + r + 1});
      back.push_back({r, r == ranks - 1 ? shards : r + 1});
    }
    expect_tree(*comm, even);
    expect_tree(*comm, front);
    expect_tree(*comm, back);
  }
}

TEST(FixedOrder, TheOrderOfAdditionsShowsInTheseNumbers) {
  std::vector<float> serial(kElements, 0);
  for (int s = 0; s < 16; ++s) {
    const std::vector<float> values = shard(s);
    for (std::size_t i = 0; i < values.size(); ++i) serial[i] += values[i];
  }
  EXPECT_NE(serial, replay(4, 0, 16));  // otherwise the test above proves nothing
}

TEST(Communicator, AProbeThatFailsEndsTheWait) {
  const auto comm = make("mpi");
  if (comm->size() == 1) return;  // nobody to wait for
  if (comm->rank() == 0) {
    probe_fails = true;
    try {
      comm->barrier();
      ADD_FAILURE() << "waited on";
    } catch (const CommError& error) {
      EXPECT_EQ(std::string(error.what()).substr(0, 17), "MPI_Iprobe failed");
    }
    probe_fails = false;
  } else {
    usleep(700000);
    comm->barrier();
  }
  MPI_Barrier(MPI_COMM_WORLD);  // moves on what rank 0 has begun
}

}  // namespace
}  // namespace petaflow
