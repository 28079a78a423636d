// First layer of networks on counts: whole numbers of 16 bits become the network's.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>

#include <Kokkos_Core.hpp>

#include "base/element.hpp"
#include "kernels/launch.hpp"
#include "kernels/launch_sum.hpp"
#include "nn/lowering.hpp"

namespace petaflow {

enum class CountScale {
  kLog1p,  // y = log(1 + x): MLPerf HPC CosmoFlow (apply_log)
  kMean    // y = x / mean of the sample, all channels together: CosmoFlow (SC18), MLPerf HPC without apply_log; 0
           // where that is 0
};

/// x (N, C, D, H, W) i16, not negative -> y of the same shape in the network's precision.  Without gradient: it must be
/// the first layer.
class Counts final : public Layer {
 public:
  explicit Counts(CountScale scale) : scale_(scale) {}

  Shape output(const Shape& x) const override { return x; }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<CountStage>(scale_)}); }
  PytorchLayer pytorch(const std::string& /*self*/, std::span<const PytorchValue> x) const override {
    if (scale_ == CountScale::kLog1p) return {"", fmt::format("torch.log1p({}.float())", x[0].text)};
    return {"",
            fmt::format("({0} / {0}.float().mean(tuple(range(1, {0}.dim())), keepdim=True)).nan_to_num()", x[0].text)};
  }

  class CountStage final : public Stage {
   public:
    explicit CountStage(CountScale scale) : scale_(scale) {}

    void setup(const StageSetup& setup) override { type_ = setup.options.precision; }
    DType output_type() const override { return type_; }

    // Memory is asked for where the stage is to run; plans for a GPU that is not there are made without.
    void refresh(const Context& /*context*/) override {
      if (logs_.size() > 0) return;
      logs_ = Logs("petaflow::counts::logs", 1024);
      total_ = Total("petaflow::counts::total");
      const auto logs = Kokkos::create_mirror_view(logs_);
      for (std::size_t n = 0; n < logs.extent(0); ++n) logs(n) = std::log1p(static_cast<float>(n));
      Kokkos::deep_copy(logs_, logs);
    }

    void forward(const Context& context) override {
      with_element(type_, [&]<class T>(T) { scale_into<T>(context); });
    }
    void backward(const Context& /*context*/, float* /*gradient*/) override {}
    std::string describe_backward_data() const override { return "-"; }

    template <class T>
    void scale_into(const Context& context) const {
      auto* y = buffers.y[0].as<T>();
      if (scale_ == CountScale::kLog1p) return take_logs(context, y);
      const std::int64_t size = buffers.x[0].shape.sample_size();
      for (std::int64_t n = 0; n < buffers.x[0].shape.n; ++n) {
        divide(context, buffers.x[0].as<std::int16_t>() + n * size, y + n * size, size);
      }
    }

    // Public: kernels of CUDA may not be in private functions.
    template <class T>
    void take_logs(const Context& context, T* y) const {
      const std::int64_t count = buffers.x[0].shape.elements();
      const auto* x = buffers.x[0].as<std::int16_t>();
      const float* logs = logs_.data();
      const std::size_t known = logs_.extent(0);
      launch(
          context, "petaflow::counts::log1p[kokkos]"_label, (count + kRun - 1) / kRun, KOKKOS_LAMBDA(std::int64_t run) {
            for (std::int64_t i = run * kRun; i < (run + 1) * kRun && i < count; ++i) {
              const auto n = static_cast<std::size_t>(x[i]);
              y[i] = static_cast<T>(n < known ? logs[n] : std::log1p(static_cast<float>(x[i])));
            }
          });
    }

    template <class T>
    void divide(const Context& context, const std::int16_t* x, T* y, std::int64_t size) const {
      launch_sum(
          context, "petaflow::counts::sum[kokkos]"_label, size,
          KOKKOS_LAMBDA(std::int64_t i, std::int64_t& sum) { sum += x[i]; }, total_);
      const std::int64_t* const total = total_.data();
      launch(
          context, "petaflow::counts::divide[kokkos]"_label, size, KOKKOS_LAMBDA(std::int64_t i) {
            const auto counted = static_cast<double>(*total);
            const float scale = counted > 0 ? static_cast<float>(static_cast<double>(size) / counted) : 0.0F;
            y[i] = static_cast<T>(static_cast<float>(x[i]) * scale);
          });
    }

   private:
    using Logs = Kokkos::View<float*, MemorySpace>;
    using Total = Kokkos::View<std::int64_t, MemorySpace>;
    // Numbers of a work item; threads of a GPU read side by side.
    static constexpr std::int64_t kRun = kOnHost ? 4096 : 4;

    CountScale scale_;
    DType type_ = DType::kF32;
    Logs logs_;  // of 0, 1, 2, ...: most counts are small
    // Sum of a sample's counts, exact in whatever order.  It stays where kernels are: the host need not wait for it.
    Total total_;
  };

 private:
  CountScale scale_;
};

}  // namespace petaflow
