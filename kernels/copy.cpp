#include "kernels/copy.hpp"

#include "base/error.hpp"
#include "kernels/launch.hpp"

namespace petaflow {

namespace {

// Runs of elements that are neighbours in both tensors: pixels, or, where both are dense, more of them at once.
struct Runs {
  std::int64_t count, length, last, from_step, to_step;  // `last`: of the last run

  Runs(const Tensor& from, const Tensor& to) {
    const std::int64_t channels = from.shape.c, elements = from.shape.elements();
    const bool dense = from.pixel_stride == channels && to.pixel_stride == channels;
    constexpr std::int64_t kRun = 4096;  // enough to hide what a work item costs, few enough to divide
    length = dense ? kRun : channels;
    count = (elements + length - 1) / length;
    last = elements - (count - 1) * length;
    from_step = dense ? kRun : from.pixel_stride;
    to_step = dense ? kRun : to.pixel_stride;
  }
};

template <class From, class To, bool kAdds>
struct CopyRuns {
  Runs runs;
  const From* from;
  To* to;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t run) const {
    const From* x = from + run * runs.from_step;
    To* y = to + run * runs.to_step;
    const std::int64_t end = run + 1 < runs.count ? runs.length : runs.last;
    for (std::int64_t i = 0; i < end; ++i) {
      const auto value = static_cast<float>(x[i]);
      y[i] = static_cast<To>(kAdds ? static_cast<float>(y[i]) + value : value);
    }
  }
};

template <class From, class To>
void copy_typed(const Context& context, const std::string& label, const Tensor& from, const Tensor& to, bool adds) {
  const Runs runs(from, to);
  if (adds) {
    launch(context, label, runs.count, CopyRuns<From, To, true>{runs, from.as<From>(), to.as<To>()});
  } else {
    launch(context, label, runs.count, CopyRuns<From, To, false>{runs, from.as<From>(), to.as<To>()});
  }
}

template <class T>
struct ZeroPixels {
  T* to;
  std::int64_t channels, step;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t pixel) const {
    for (std::int64_t c = 0; c < channels; ++c) to[pixel * step + c] = static_cast<T>(0.0F);
  }
};

}  // namespace

void copy_tensor(const Context& context, const std::string& label, const Tensor& from, const Tensor& to, bool adds) {
  PETAFLOW_REQUIRE(from.shape == to.shape, "a copy of {} to {}", to_string(from.shape), to_string(to.shape));
  const bool from_f32 = from.type == DType::kF32, to_f32 = to.type == DType::kF32;
  if (from_f32) {
    to_f32 ? copy_typed<float, float>(context, label, from, to, adds)
           : copy_typed<float, Bf16>(context, label, from, to, adds);
  } else {
    to_f32 ? copy_typed<Bf16, float>(context, label, from, to, adds)
           : copy_typed<Bf16, Bf16>(context, label, from, to, adds);
  }
}

void zero_tensor(const Context& context, const std::string& label, const Tensor& tensor) {
  const std::int64_t channels = tensor.shape.c, step = tensor.pixel_stride;
  if (tensor.type == DType::kF32) {
    launch(context, label, tensor.pixels(), ZeroPixels<float>{tensor.as<float>(), channels, step});
  } else {
    launch(context, label, tensor.pixels(), ZeroPixels<Bf16>{tensor.as<Bf16>(), channels, step});
  }
}

}  // namespace petaflow
