// A step of training in its steady state asks for no memory: every allocation of the process is counted while steps
// run.
//
// Allocations that are known and not petaflow's:
// - oneDNN makes a few small objects in each dnnl_primitive_execute (its context and tables of the arguments, 8 to 136
//   bytes each in 3.2), and its matrix product for AVX2 (gemm:jit) takes room for what it packs (16,704 bytes for 4 x
//   128 times 128 x 4): bounded here.
// - libgomp makes a new team for each parallel region where teams have one thread; larger ones are kept.
// - MPI keeps its own account of operations under way, and Open MPI sums into buffers of its own.
// - Kokkos 4 and later make strings for the names of fences and copies.
// - Threads of the loader read files ahead, with the allocations of the libraries that read them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include "comm/communicator.hpp"
#include "cosmoflow/model.hpp"
#include "hep/model.hpp"
#include "measure/synthetic_data.hpp"
#include "nn/layers/counts.hpp"
#include "program/options.hpp"
#include "train/train_step.hpp"
#include "train/trainer.hpp"

#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__)
TEST(Allocations, AreCounted) { GTEST_SKIP() << "SKIPPED: only with glibc and without AddressSanitizer"; }
#else

#include "count_allocations.hpp"

namespace petaflow {
namespace {

constexpr int kSteps = 2;  // counted, and before them as many to warm up
#ifdef __AVX512F__
constexpr std::size_t kLargestOfOnednn = 256;  // bytes
#else
constexpr std::size_t kLargestOfOnednn = 20 << 10;
#endif
constexpr std::size_t kOnednnPerStep = 1 << 20;
constexpr std::size_t kLargestOfKokkos = KOKKOS_VERSION < 40000 ? 0 : 256;

/// Samples whose reading, by the loader's threads, is not counted.
class Uncounted final : public Dataset {
 public:
  explicit Uncounted(const Dataset& data) : data_(data) {}
  std::int64_t size() const override { return data_.size(); }
  std::array<std::int64_t, 4> sample_dims() const override { return data_.sample_dims(); }
  DType type() const override { return data_.type(); }
  std::vector<TargetSpec> targets() const override { return data_.targets(); }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    allocations::ignored = true;
    return data_.read(index, sample);
  }

 private:
  const Dataset& data_;
};

/// Steps ask for nothing but what libraries are known to.
/// @param onednn_per_step  bytes
void expect_none(const CommonOptions& options, const Graph& graph, const Objective& objective,
                 std::size_t onednn_per_step = kOnednnPerStep) {
  if (!kOnHost) GTEST_SKIP() << "SKIPPED: what CUDA asks for is its own";
  const auto comm = make_communicator();
  TrainStep step(*comm, Context(), step_options(options), graph, objective);
  const SyntheticData made_up(2 * kSteps * options.train.batch, graph, step.targets());
  const Uncounted data(made_up);
  Loader loader(data, loader_options(options.train, options.data, step.share()));
  loader.start_epoch(0);
  const auto run = [&] {
    for (int s = 0; s < kSteps; ++s) step.run(loader, 1e-4F);
  };
  run();
  std::size_t onednn = 0;
  for (const allocations::Allocation& allocation : allocations::during(run)) {
    if (allocation.is_by("libgomp") || allocation.is_below("libmpi")) continue;
    if (allocation.is_below("libdnnl")) {
      onednn += allocation.times * allocation.bytes;
      EXPECT_LE(allocation.bytes, kLargestOfOnednn);
      if (allocation.bytes > kLargestOfOnednn) allocation.print();
    } else if (allocation.bytes > kLargestOfKokkos) {
      ADD_FAILURE() << allocation.times << " times " << allocation.bytes << " bytes (rank " << comm->rank()
                    << "), the callers are";
      allocation.print();
    }
  }
  EXPECT_LE(allocations::count, std::size(allocations::seen));
  EXPECT_LE(onednn, kSteps * onednn_per_step);
}

Graph cosmoflow(const char* kind, std::int64_t channels, std::int64_t edge, CountScale scale,
                const char* batch_norm = "") {
  Graph graph(Shape{1, channels, edge, edge, edge}, DType::kI16);
  graph.add<Counts>("counts", scale);
  cosmoflow::ModelOptions model;
  model.kind = kind;
  model.batch_norm = batch_norm;
  cosmoflow::add_network(graph, model, 4);
  return graph;
}

bool one_rank() { return make_communicator()->size() == 1; }

/// In tiles and by whole tensors, in f32 and bf16; the networks at their own sizes.
class Allocations : public testing::TestWithParam<std::tuple<bool, std::string>> {
 protected:
  static CommonOptions options(std::int64_t batch) {
    CommonOptions options;
    options.train.batch = batch;
    std::tie(options.kernels.tiles, options.precision) = GetParam();
    return options;
  }
};

TEST_P(Allocations, HepAsksForNone) {
  if (!one_rank()) GTEST_SKIP() << "on one rank";
  expect_none(options(1), hep::model({}, Shape{1, 3, 1, 224, 224}), {"class", std::make_shared<SoftmaxLoss>()});
}

TEST_P(Allocations, CosmoFlowAsksForNone) {
  if (!one_rank()) GTEST_SKIP() << "on one rank";
  expect_none(options(1), cosmoflow("sc18", 1, 128, CountScale::kMean),
              {"parameters", std::make_shared<RegressionLoss>(RegressionError::kSquared)});
}

// Without Winograd's transforms oneDNN sums the gradients of weights in thousands of pieces of tiles.
TEST_P(Allocations, CosmoFlowAsksForNoneDirectly) {
  if (!one_rank()) GTEST_SKIP() << "on one rank";
  CommonOptions direct = options(1);
  direct.kernels.conv.rule = ConvRequest::Rule::kDirect;
  expect_none(direct, cosmoflow("sc18", 1, 128, CountScale::kMean),
              {"parameters", std::make_shared<RegressionLoss>(RegressionError::kSquared)}, 32 * kOnednnPerStep);
}

TEST_P(Allocations, CosmoFlowOfMlperfAsksForNone) {
  if (!one_rank()) GTEST_SKIP() << "on one rank";
  expect_none(options(1), cosmoflow("mlperf", 4, 64, CountScale::kLog1p),
              {"parameters", std::make_shared<RegressionLoss>(RegressionError::kSquared)});
}

TEST_P(Allocations, BatchNormAsksForNone) {
  CommonOptions common = options(4);
  common.optimizer.clip_norm = 1;
  common.optimizer.larc = 0.01;
  expect_none(common, cosmoflow("quick", 4, 32, CountScale::kLog1p, "global"),
              {"parameters", std::make_shared<RegressionLoss>(RegressionError::kSquared)});
}

TEST_P(Allocations, DeterministicTrainingAsksForNone) {
  CommonOptions deterministic = options(4);
  deterministic.train.deterministic = true;
  expect_none(deterministic, hep::model({}, Shape{1, 3, 1, 64, 64}), {"class", std::make_shared<SoftmaxLoss>()});
}

INSTANTIATE_TEST_SUITE_P(Kernels, Allocations, testing::Combine(testing::Bool(), testing::Values("f32", "bf16")),
                         [](const auto& kernels) {
                           return (std::get<0>(kernels.param) ? "Tiles_" : "WholeTensors_") +
                                  std::get<1>(kernels.param);
                         });

/// Proof that the test sees a vector that a thread of a kernel makes.
TEST(Allocations, AreSeenInAllThreads) {
  const int threads = Context().threads;
  std::vector<std::unique_ptr<std::array<char, 12345>>> made(static_cast<std::size_t>(threads));
  const auto found = allocations::during([&] {
    Kokkos::parallel_for(
        "petaflow::test", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, threads),
        [&](int i) { made[static_cast<std::size_t>(i)] = std::make_unique<std::array<char, 12345>>(); });
  });
  std::size_t ours = 0;
  for (const allocations::Allocation& a : found) ours += a.bytes == 12345 ? a.times : 0;
  EXPECT_EQ(ours, static_cast<std::size_t>(threads));
}

}  // namespace
}  // namespace petaflow

#endif
