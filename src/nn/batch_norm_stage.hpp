// The stage of a batch normalisation and what follows it: residual, pooling, activation and dropout, as one map.
#pragma once

#include <optional>
#include <string>

#include "kernels/batch_norm.hpp"
#include "nn/stage.hpp"

namespace petaflow {

/// The samples that the mean and variance of training are over.
enum class BatchNormScope {
  kMicroBatch,  // the real samples of one: a shard in deterministic mode, otherwise a rank's share of the batch
  kRanks        // those of all ranks that Context::sum_over_ranks sums over, the global batch or that of a group
                // (torch.nn.SyncBatchNorm): two small sums per layer and step
};

struct BatchNormOptions {
  BatchNormScope scope = BatchNormScope::kMicroBatch;
  float epsilon = 1e-5F;
  double momentum = 0.1;  // of the running statistics: in (0, 1], their way to those of a batch
  bool affine = true;     // with weight and bias to train
};

/// y = epilogue(weight (x - mean) / sqrt(variance + epsilon) + bias + residual), one pass over x for the statistics and
/// one over x, the residual and y; backward likewise.  x and y are f32 or bf16, statistics f64.
class BatchNormStage final : public Stage {
 public:
  struct Options {
    std::string name;
    EpilogueDesc epilogue;  // what follows; v: x's shape
    BatchNormOptions batch_norm;
    std::optional<StageParameter> weight, bias;  // nothing: 1 and 0
    StageParameter running_mean, running_variance;
    bool residual = false;  // x[1], of x's shape, is added before activation and pooling
    bool backward = true, fixed_order = false;
  };
  BatchNormStage(const Options& options, const Context& context);

  std::size_t saved_bytes() const override;
  std::size_t forward_scratch_bytes() const override;
  std::size_t backward_scratch_bytes() const override;
  bool backward_needs_input(std::size_t input) const override { return input == 0; }
  bool can_overwrite(std::size_t input) const override { return input == 0; }  // number by number
  bool can_add(std::size_t /*input*/) const override { return true; }
  bool takes_slices() const override { return true; }
  std::int64_t forward_rank_sum() const override;
  std::int64_t backward_rank_sum() const override;
  void forward(const Context& context) override;
  /// By the map of forward: no second pass for the statistics, nor a sum over ranks.
  void forward_again(const Context& context) override { apply(context, saved_map()); }
  bool keeps_saved() const override { return true; }
  void backward(const Context& context, float* gradient) override;
  std::string describe_backward_weights() const override { return "kokkos"; }

 private:
  /// Memory of a micro-batch: sums, then the map, then the partial sums and rows of its kernels.
  struct Scratch {
    double* sums;
    ChannelMap map;
    std::byte* kernels;
  };
  Scratch scratch(std::byte* memory) const;
  std::size_t sums_bytes() const;
  std::size_t map_bytes() const;
  std::size_t statistics_bytes() const;
  BatchStatistics statistics() const;
  ChannelMap saved_map() const;
  Epilogue epilogue(const ChannelMap& map) const;
  const float* parameter(const std::optional<StageParameter>& which) const;
  bool has_dx(std::size_t input) const;
  /// y = epilogue(map of x).
  void apply(const Context& context, const ChannelMap& map) const;
  bool sums_over_ranks() const { return options_.batch_norm.scope == BatchNormScope::kRanks; }
  void sum_over_ranks(const Context& context, double* sums) const;

  Options options_;
  std::int64_t channels_;
  int parts_;
  std::string forward_label_, backward_label_;
};

}  // namespace petaflow
