// Networks with branches on several ranks against one rank: parameters lie in another order than stages run, so that a
// gradient may be final long before those behind it, and buckets must wait for all of theirs.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "comm/communicator.hpp"
#include "comm/mpi.hpp"
#include "nn/layers/add.hpp"
#include "tiny_training.hpp"

namespace petaflow {
namespace {

/// Two ways from the first convolution to the end.  `late` stands in front of the long way and its gradient is final
/// before that one's.
Graph two_ways(const tiny::Norm& norm) {
  Graph graph(tiny::kSample);
  const auto convolution = [&](const char* name, std::int64_t filters, std::int64_t edge) {
    graph.add<Conv>(name, ConvOptions::same_2d(filters, edge));
    if (norm) graph.add<BatchNorm>(fmt::format("{}_norm", name), BatchNormOptions{.scope = *norm});
    return graph.add<Relu>(fmt::format("{}_relu", name)).value();
  };
  const GraphValue start = convolution("start", 4, 3);
  convolution("late", 4, 1);
  const GraphValue late = graph.value();
  graph.at(start);
  convolution("long1", 5, 3);
  convolution("long2", 4, 3);
  graph.join<Add>("sum", {graph.value(), start});
  convolution("end", 4, 3);
  graph.join<Add>("last_sum", {late, graph.value()});
  graph.add<GlobalPool>("pool", PoolKind::kAverage).add<Dense>("fc", 2);
  return graph;
}

struct Trained {
  Trained(Communicator& comm, const CommonOptions& options, const tiny::Norm& norm)
      : step(comm, Context(), step_options(options), two_ways(norm), loss), loader(data, loader_options(options)) {
    const std::int64_t per_epoch = loader.steps_per_epoch();
    for (std::int64_t s = 0; s < 6; ++s) {
      if (s % per_epoch == 0) loader.start_epoch(s / per_epoch);
      step.run(loader, 0.05F);
    }
    const std::int64_t elements = step.network().parameter_elements();
    weights = testing_support::to_host<float>(step.network().weights(), elements);
    gradient = testing_support::to_host(step.gradient(), elements);
  }
  LoaderOptions loader_options(const CommonOptions& options) const {
    LoaderOptions result;
    result.global_batch = options.train.batch;
    result.begin = step.share().begin, result.end = step.share().end;
    return result;
  }

  tiny::Data data{43};  // the last batch of an epoch has empty slots
  Objective loss{"class", std::make_shared<SoftmaxLoss>()};
  TrainStep step;
  Loader loader;
  std::vector<float> weights, gradient;
};

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::abs(a[i] - b[i]));
  return difference;
}

CommonOptions options() {
  CommonOptions options;
  options.train.batch = 12;
  options.train.seed = 5;
  options.comm.bucket_mb = 1e-5;  // a bucket for each array
  options.optimizer.name = "sgd";
  return options;
}

TEST(Branches, GradientsAreSummedWhenTheyAreFinal) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  const Trained together(*all, options(), {}), single(alone, options(), {});
  EXPECT_LT(largest_difference(together.gradient, single.gradient), 4e-6F);
  EXPECT_LT(largest_difference(together.weights, single.weights), 4e-6F);
}

// Sums over ranks in forward passes, which are made again between sums of gradients.
TEST(Branches, RecomputationWithBatchNormOverAllRanks) {
  const auto all = make_mpi_communicator();
  Communicator alone;
  const Trained single(alone, options(), BatchNormScope::kMicroBatch);
  for (const std::int64_t recompute : {0, 2, 4}) {
    CommonOptions again = options();
    again.train.recompute = recompute;
    const Trained together(*all, again, BatchNormScope::kRanks);
    const auto stages = together.step.network().report();
    EXPECT_TRUE(std::ranges::any_of(stages, &StageReport::again));
    EXPECT_LT(largest_difference(together.gradient, single.gradient), 4e-6F) << recompute;
    EXPECT_LT(largest_difference(together.weights, single.weights), 4e-6F) << recompute;
  }
}

}  // namespace
}  // namespace petaflow
