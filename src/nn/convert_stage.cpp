#include "nn/convert_stage.hpp"

#include "base/error.hpp"
#include "kernels/launch.hpp"

namespace petaflow {

namespace {

constexpr std::int64_t kRun = 4096;  // elements of a work item

template <class From, class To>
struct Convert {
  const From* from;
  To* to;
  std::int64_t count;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t run) const {
    const std::int64_t end = (run + 1) * kRun < count ? (run + 1) * kRun : count;
    for (std::int64_t i = run * kRun; i < end; ++i) to[i] = static_cast<To>(static_cast<float>(from[i]));
  }
};

template <class From, class To>
void convert_typed(const Context& context, const std::string& label, const Tensor& from, const Tensor& to) {
  const std::int64_t count = from.shape.elements();
  launch(context, label, (count + kRun - 1) / kRun, Convert<From, To>{from.as<From>(), to.as<To>(), count});
}

void convert(const Context& context, const std::string& label, const Tensor& from, const Tensor& to) {
  if (to.type == DType::kBf16) {
    convert_typed<float, Bf16>(context, label, from, to);
  } else {
    convert_typed<Bf16, float>(context, label, from, to);
  }
}

}  // namespace

ConvertStage::ConvertStage(const std::string& name)
    : forward_label_(fmt::format("petaflow::{}::forward[kokkos]", name)),
      backward_label_(fmt::format("petaflow::{}::backward[kokkos]", name)) {}

void ConvertStage::forward(const Context& context) { convert(context, forward_label_, buffers.x[0], buffers.y[0]); }

void ConvertStage::backward(const Context& context, float* /*gradient*/) {
  if (buffers.dx[0].data != nullptr) convert(context, backward_label_, buffers.dy[0], buffers.dx[0]);
}

}  // namespace petaflow
