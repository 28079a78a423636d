#include "nn/copy_stage.hpp"

#include <utility>

#include <fmt/format.h>

#include "kernels/copy.hpp"

namespace petaflow {

CopyStage::CopyStage(const std::string& name, std::string reason)
    : forward_label_(fmt::format("petaflow::{}::forward[kokkos]", name)),
      backward_label_(fmt::format("petaflow::{}::backward[kokkos]", name)),
      reason_(std::move(reason)) {}

void CopyStage::forward(const Context& context) {
  copy_tensor(context, forward_label_, buffers.x[0], buffers.y[0], false);
}

void CopyStage::backward(const Context& context, float* /*gradient*/) {
  if (buffers.dx[0].data != nullptr) {
    copy_tensor(context, backward_label_, buffers.dy[0], buffers.dx[0], buffers.adds[0]);
  }
}

std::vector<std::string> CopyStage::refusals() const {
  return reason_.empty() ? std::vector<std::string>{} : std::vector{reason_};
}

}  // namespace petaflow
