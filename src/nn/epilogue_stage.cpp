#include "nn/epilogue_stage.hpp"

#include "base/error.hpp"

namespace petaflow {

EpilogueStage::EpilogueStage(const std::string& name, const EpilogueDesc& desc, bool backward)
    : desc_(desc),
      keeps_(backward && desc.saves()),
      forward_label_(fmt::format("petaflow::{}::forward[kokkos]", name)),
      backward_label_(fmt::format("petaflow::{}::backward[kokkos]", name)) {}

std::size_t EpilogueStage::saved_bytes() const {
  return keeps_ ? static_cast<std::size_t>(desc_.v.n * desc_.saved_bytes_per_sample()) : 0;
}

void EpilogueStage::forward(const Context& context) {
  auto* saved = saved_bytes() > 0 ? reinterpret_cast<std::uint8_t*>(buffers.saved) : nullptr;
  const Epilogue epilogue(desc_, nullptr, buffers.y[0], buffers.dy[0], saved);
  epilogue.forward_all(context, forward_label_, buffers.x[0].data, buffers.x[0].pixel_stride);
}

void EpilogueStage::backward(const Context& context, float* /*gradient*/) {
  if (buffers.dx[0].data == nullptr) return;
  auto* saved = saved_bytes() > 0 ? reinterpret_cast<std::uint8_t*>(buffers.saved) : nullptr;
  const Epilogue epilogue(desc_, nullptr, buffers.y[0], buffers.dy[0], saved);
  epilogue.backward_all(context, backward_label_, buffers.dx[0].data, buffers.dx[0].pixel_stride);
}

}  // namespace petaflow
