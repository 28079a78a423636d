#include "nn/epilogue_stage.hpp"

#include "base/error.hpp"
#include "nn/parallel.hpp"

namespace petaflow {

EpilogueStage::EpilogueStage(const std::string& name, const EpilogueDesc& desc, bool backward)
    : desc_(desc),
      keeps_(backward && desc.saves()),
      forward_label_(fmt::format("petaflow::{}::forward[kokkos]", name)),
      backward_label_(fmt::format("petaflow::{}::backward[kokkos]", name)) {}

std::size_t EpilogueStage::saved_bytes() const {
  return keeps_ ? static_cast<std::size_t>(desc_.v.n * desc_.saved_bytes_per_sample()) : 0;
}

RowRange EpilogueStage::all(const Shape& shape) const { return {0, shape.n, 0, desc_.v.d > 1 ? shape.d : shape.h}; }

void EpilogueStage::forward(const Context& context) {
  auto* saved = saved_bytes() > 0 ? reinterpret_cast<std::uint8_t*>(buffers.saved) : nullptr;
  const Epilogue epilogue(desc_, nullptr, buffers.y, buffers.dy, saved);
  const RowRange v = all(desc_.v);
  parallel_rows(context, forward_label_, all(desc_.y),
                [&](const RowRange& y) { epilogue.forward(context, y, v, buffers.x.data); });
}

void EpilogueStage::backward(const Context& context, float* /*gradient*/) {
  if (buffers.dx.data == nullptr) return;
  auto* saved = saved_bytes() > 0 ? reinterpret_cast<std::uint8_t*>(buffers.saved) : nullptr;
  const Epilogue epilogue(desc_, nullptr, buffers.y, buffers.dy, saved);
  const RowRange v = all(desc_.v);
  const std::size_t row_bytes = buffers.dx.size_bytes() / static_cast<std::size_t>(v.samples() * v.rows());
  parallel_rows(context, backward_label_, v, [&](const RowRange& row) {
    const auto index = static_cast<std::size_t>(row.sample_begin * v.rows() + row.begin);
    epilogue.backward(context, row, static_cast<std::byte*>(buffers.dx.data) + index * row_bytes, nullptr);
  });
}

}  // namespace petaflow
