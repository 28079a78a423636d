// Batch normalisation: each channel brought to mean 0 and variance 1 over a batch, then scaled and shifted.
// Source: Ioffe & Szegedy 2015 (arXiv:1502.03167); conventions of torch.nn.BatchNorm1d, 2d and 3d.
#pragma once

#include <memory>
#include <string>

#include "base/error.hpp"
#include "kernels/batch_norm.hpp"
#include "nn/lowering.hpp"
#include "nn/parallel.hpp"

namespace petaflow {

/// What the mean and variance of training are over.
enum class BatchNormScope {
  kPass,   // the real samples of one pass: a shard in deterministic mode, otherwise a rank's share of the batch
  kGlobal  // all real samples of the global batch (torch.nn.SyncBatchNorm): two small sums over ranks per layer and
           // step
};

struct BatchNormOptions {
  BatchNormScope scope = BatchNormScope::kPass;
  float epsilon = 1e-5F;
  double momentum = 0.1;  // of the running statistics: in (0, 1], their way to those of a batch
  bool affine = true;     // with weight and bias to train
};

/// y = weight (x - mean) / sqrt(variance + epsilon) + bias per channel: x (N, C, D, H, W) -> y likewise; without
/// `affine` the weight is 1 and the bias 0.
/// Evaluation uses running_mean and running_var, which has the unbiased variances of training.  Padded slots count for
/// nothing.  One pixel gives a variance of 0, and y = bias.
class BatchNorm final : public Layer {
 public:
  explicit BatchNorm(const BatchNormOptions& options = {}) : options_(options) {
    if (!(options.momentum > 0 && options.momentum <= 1)) {
      user_error("the momentum of a batch norm must lie above 0 and not above 1, found {}", options.momentum);
    }
    if (!(options.epsilon > 0)) user_error("epsilon of a batch norm must be positive, found {}", options.epsilon);
  }

  Shape output(const Shape& x) const override { return x; }
  std::vector<ParamSpec> parameters(const Shape& x) const override {
    ParamSpec weight{"weight", {x.c}}, bias{"bias", {x.c}}, mean{"running_mean", {x.c}}, variance{"running_var", {x.c}};
    weight.init_mean = variance.init_mean = 1;
    mean.running_momentum = variance.running_momentum = options_.momentum;
    for (ParamSpec* spec : {&weight, &bias, &mean, &variance}) spec->decays = false;
    if (!options_.affine) return {mean, variance};
    return {weight, bias, mean, variance};
  }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<BatchNormStage>(options_)}); }

  class BatchNormStage final : public Stage {
   public:
    explicit BatchNormStage(const BatchNormOptions& options) : options_(options) {}

    void setup(const StageSetup& setup, const Context& context) override {
      x_ = setup.x.front();
      backward_ = setup.options.backward;
      if (backward_ && x_.n * x_.pixels() == 1 && options_.scope == BatchNormScope::kPass) {
        user_error(
            "layer {}: batch norm over one pixel of one sample has nothing to train on; use a larger train.batch, or "
            "with train.deterministic fewer train.shards",
            setup.name);
      }
      slots_ = Division(context, setup.options.fixed_order).slots;
      for (std::size_t i = 0; i < setup.parameters.size(); ++i) {
        offsets_[i + (options_.affine ? kWeight : kMean)] = setup.parameters[i].offset;
      }
      forward_label_ = fmt::format("petaflow::{}::forward[kokkos]", setup.name);
      backward_label_ = fmt::format("petaflow::{}::backward[kokkos]", setup.name);
    }

    std::size_t saved_bytes() const override {
      return backward_ ? sizeof(float) * static_cast<std::size_t>(BatchStatistics::elements(x_.c)) : 0;
    }
    // Sums, then the map, then partial sums.
    std::size_t forward_scratch_bytes() const override {
      return sums_bytes() + map_bytes() + batch_norm_scratch_bytes(slots_, x_);
    }
    std::size_t backward_scratch_bytes() const override { return forward_scratch_bytes(); }
    bool backward_needs_input() const override { return true; }
    std::int64_t forward_rank_sum() const override { return is_global() ? batch_norm_sums(x_.c) : 0; }
    std::int64_t backward_rank_sum() const override {
      return is_global() && buffers.dx[0].data != nullptr ? batch_norm_sums(x_.c) : 0;
    }

    void forward(const Context& context) override {
      const auto [sums, map, partial] = scratch(buffers.forward_scratch);
      if (context.training) {
        PETAFLOW_REQUIRE(backward_, "a network made for inference");
        sum_moments(context, slots_, buffers.x[0], sums, partial);
        if (is_global()) sum_over_ranks(context, sums);
        map_batch(context, x_.c, options_.epsilon, sums, parameter(kWeight), parameter(kBias), statistics(), map);
      } else {
        map_running(context, x_.c, options_.epsilon, parameter(kMean), parameter(kVariance), parameter(kWeight),
                    parameter(kBias), map);
      }
      apply_map(context, forward_label_, map, buffers.x[0], buffers.y[0]);
    }

    void backward(const Context& context, float* gradient) override {
      const auto [sums, map, partial] = scratch(buffers.backward_scratch);
      const bool has_dx = buffers.dx[0].data != nullptr;
      if (options_.affine || has_dx) {
        sum_gradients(context, slots_, buffers.x[0], buffers.dy[0], statistics().mean, sums, partial);
      }
      write_running_statistics(context, x_, statistics(), gradient + offsets_[kMean], gradient + offsets_[kVariance]);
      if (options_.affine) {
        write_gradients(context, x_.c, sums, statistics(), gradient + offsets_[kWeight], gradient + offsets_[kBias]);
      }
      if (!has_dx) return;
      if (is_global()) sum_over_ranks(context, sums);
      map_gradient(context, x_.c, sums, parameter(kWeight), statistics(), map);
      apply_map(context, backward_label_, map, buffers.dy[0], buffers.x[0], buffers.dx[0]);
    }

    std::string describe_backward_weights() const override { return "kokkos"; }

   private:
    enum : std::size_t { kWeight, kBias, kMean, kVariance };  // in the order of parameters()
    struct Scratch {
      double* sums;
      ChannelMap map;
      std::byte* partial;
    };

    std::size_t sums_bytes() const { return padded(sizeof(double) * static_cast<std::size_t>(batch_norm_sums(x_.c))); }
    std::size_t map_bytes() const {
      return padded(sizeof(float) * static_cast<std::size_t>(ChannelMap::elements(x_.c)));
    }
    Scratch scratch(std::byte* memory) const {
      return {reinterpret_cast<double*>(memory), ChannelMap::in(reinterpret_cast<float*>(memory + sums_bytes()), x_.c),
              memory + sums_bytes() + map_bytes()};
    }
    BatchStatistics statistics() const { return BatchStatistics::in(reinterpret_cast<float*>(buffers.saved), x_.c); }
    /// Null where there is none.
    const float* parameter(std::size_t which) const {
      return options_.affine || which >= kMean ? buffers.weights + offsets_[which] : nullptr;
    }
    bool is_global() const { return options_.scope == BatchNormScope::kGlobal; }

    void sum_over_ranks(const Context& context, double* sums) const {
      if (context.sum_over_ranks == nullptr) return;
      const Kokkos::View<double*, MemorySpace, Kokkos::MemoryUnmanaged> device(
          sums, static_cast<std::size_t>(batch_norm_sums(x_.c)));
      context.space.fence();
      const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
      (*context.sum_over_ranks)({host.data(), host.extent(0)});
      Kokkos::deep_copy(device, host);
    }

    BatchNormOptions options_;
    Shape x_;  // with the batch
    bool backward_ = true;
    int slots_ = 1;
    std::int64_t offsets_[4] = {};  // into the flat weights
    std::string forward_label_, backward_label_;
  };

 private:
  BatchNormOptions options_;
};

}  // namespace petaflow
