// Every scheme of updates on real ranks, again and again, where a send is over only when its receive has begun
// (MPI_Ssend's semantics): what waits for a buffer of MPI in one order of events hangs in another.
#include <chrono>
#include <cstdlib>
#include <thread>

#include <gtest/gtest.h>
#include <mpi.h>

#include "comm/mpi.hpp"
#include "servers/optimized_layer.hpp"
#include "servers/served_rank.hpp"
#include "tiny_training.hpp"
#include "train/trainer.hpp"

namespace {
std::int64_t sends = 0;
}

// In the place of MPI's own, for all of petaflow in this program.
extern "C" int MPI_Isend(const void* buffer, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
                         MPI_Request* request) {
  sends += 1;
  return PMPI_Issend(buffer, count, type, to, tag, comm, request);
}

namespace petaflow {
namespace {

struct Scheme {
  const char* name;
  CommonOptions options;
  bool same_bits;  // in every run
};

/// 20 steps of all groups together, on `ranks` ranks.
std::vector<Scheme> schemes(int ranks) {
  CommonOptions plain;
  plain.train.batch = 16;
  plain.train.shards = 16;
  plain.train.seed = 5;
  plain.train.steps = 20;
  plain.optimizer.lr = 0.01;
  plain.checkpoint.interval = 0;
  plain.log.interval = 1000;
  plain.comm.bucket_mb = 1e-4;
  std::vector<Scheme> all;
  const auto add = [&](const char* name, bool same_bits, const auto& change) {
    all.push_back({name, plain, same_bits});
    change(all.back().options);
  };
  for (const char* reduction : {"ring", "doubling", "halving", "two_level"}) {
    add(reduction, true, [&](CommonOptions& o) { o.comm.reduction = reduction; });
  }
  add("bf16", true, [](CommonOptions& o) {
    o.comm.reduction = "halving";
    o.comm.wire = Wire::kBf16;
  });
  add("fixed order", true, [](CommonOptions& o) { o.train.deterministic = true; });
  add("lag 2", true, [](CommonOptions& o) {
    o.train.deterministic = true;
    o.update.lag = 2;
  });
  add("sharded", true, [](CommonOptions& o) {
    o.comm.fixed_order = true;
    o.update.sharded = true;
  });
  if (ranks % 2 == 0) {
    add("averages", true, [](CommonOptions& o) {
      o.comm.fixed_order = true;
      o.update.groups = 2;
      o.update.average_every = 3;
    });
    add("late averages", true, [](CommonOptions& o) {
      o.comm.fixed_order = true;
      o.update.groups = 2;
      o.update.average_every = 2;
      o.update.average_late = 1;
    });
  }
  const auto served = [&](const char* name, bool same_bits, bool inside, int groups, int servers, const auto& change) {
    const int workers = inside ? ranks : ranks - servers;
    if (workers < std::max(inside ? servers : 1, groups) || workers % groups != 0) return;
    add(name, same_bits, [&](CommonOptions& o) {
      o.train.batch = 8 * groups;
      o.comm.fixed_order = true;
      o.update.groups = groups;
      o.update.servers = servers;
      o.update.colocate_servers = inside;
      change(o);
    });
  };
  const auto with_servers = [&](const char* name, bool same_bits, int groups, int servers, const auto& change) {
    served(name, same_bits, false, groups, servers, change);
  };
  const auto with_servers_inside = [&](const char* name, bool same_bits, int groups, int servers, const auto& change) {
    served(name, same_bits, true, groups, servers, change);
  };
  with_servers("hybrid", false, 2, ranks % 2 == 0 ? 2 : 1, [](CommonOptions&) {});
  with_servers("hybrid, bounded", false, 2, ranks % 2 == 0 ? 2 : 1,
               [](CommonOptions& o) { o.update.max_staleness = 1; });
  with_servers("hybrid by ticket", true, 2, ranks % 2 == 0 ? 2 : 1,
               [](CommonOptions& o) { o.update.order = UpdateOrder::kTicket; });
  with_servers("asynchronous", false, ranks - 1, 1, [](CommonOptions&) {});
  with_servers_inside("one group, a server inside", true, 1, 1, [](CommonOptions&) {});
  with_servers_inside("hybrid, servers inside", false, 2, 2, [](CommonOptions&) {});
  with_servers_inside("hybrid by ticket, servers inside", true, 2, 1,
                      [](CommonOptions& o) { o.update.order = UpdateOrder::kTicket; });
  with_servers_inside("asynchronous, servers inside", false, ranks, std::min(ranks, 3),
                      [](CommonOptions& o) { o.update.max_staleness = o.update.groups; });
  return all;
}

/// Samples that take up to a quarter of a millisecond more to read.
class SlowData final : public Dataset {
 public:
  std::int64_t size() const override { return data_.size(); }
  std::array<std::int64_t, 4> sample_dims() const override { return data_.sample_dims(); }
  std::vector<TargetSpec> targets() const override { return data_.targets(); }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    std::this_thread::sleep_for(std::chrono::microseconds(std::rand() % 250));
    return data_.read(index, sample);
  }

 private:
  tiny::Data data_{91};
};

/// The weights that all ranks that train have in the end; empty on servers.
std::vector<float> train(const Scheme& scheme) {
  const CommonOptions& options = scheme.options;
  const auto comm = make_mpi_communicator();
  HangOptions hangs;
  hangs.limit_s = 60;
  hangs.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
  const auto all = comm->split(0);
  all->watch_hangs(hangs);
  const ServerLayout layout = server_layout(options, all->size());
  ServeOptions serving{optimized_layers(options.optimizer, layout.groups), serving_order(options)};
  serving.hangs = hangs;
  ServedRank rank(*all, layout, serving);
  if (!rank.works()) {
    EXPECT_EQ(rank.serve(), 0);
    return {};
  }
  Communicator &workers = rank.workers(), &group = rank.group();
  const auto across = group.size() == workers.size() ? nullptr : workers.split(group.rank());
  tiny::Training training(group, options, 91, 0.5F, true);
  const SlowData data;
  Trainer trainer(trainer_options(options, "loss"), workers, Context(), training.step, data,
                  DetectorAugment(data.sample_dims(), AugmentOptions{}), nullptr);
  if (layout.servers > 0) trainer.connect(rank.session());
  if (options.update.average_every > 0) trainer.average_over(*across);
  TrainingListener nobody;
  const FitResult result = trainer.fit(nobody);
  EXPECT_EQ(result.steps, options.train.steps) << scheme.name;
  if (layout.servers > 0) rank.session().end(0);
  const std::vector<float> weights = training.weights();
  const auto everybody = workers.gather(std::as_bytes(std::span(weights)));
  for (const std::vector<std::byte>& theirs : everybody) {
    EXPECT_TRUE(std::ranges::equal(theirs, everybody[0])) << scheme.name;
  }
  for (const float weight : weights) EXPECT_TRUE(std::isfinite(weight)) << scheme.name;
  return weights;
}

TEST(Schemes, EndOnRealRanksWithSynchronousSends) {
  const char* const asked = std::getenv("PETAFLOW_RUNS");
  const int runs = asked == nullptr ? 3 : std::atoi(asked);
  const int ranks = make_mpi_communicator()->size();
  for (const Scheme& scheme : schemes(ranks)) {
    std::vector<float> expected;
    for (int run = 0; run < runs; ++run) {
      const std::vector<float> weights = train(scheme);
      if (run == 0) expected = weights;
      EXPECT_TRUE(!scheme.same_bits || weights == expected) << scheme.name << ", run " << run;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(sends, 0);  // one rank sends to the server inside it
}

}  // namespace
}  // namespace petaflow
