// Properties of the device, and plans on it, through cuDNN's frontend.
#include "kernels/execution_cudnn.hpp"

#include <unordered_map>

#include <cuda_runtime_api.h>

#include "base/error.hpp"
#include "kernels/frontend_cudnn.hpp"

namespace petaflow::cudnn {
namespace {

namespace fe = cudnn_frontend;

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) failure("cuDNN: {}: {}", what, cudnnGetErrorString(status));
}
void check(fe::error_t error, const char* what) {
  if (error.is_bad()) failure("cuDNN: {}: {}", what, error.get_message());
}

// One for the process, which works on one device: its stream is set at each call.
cudnnHandle_t handle() {
  static const cudnnHandle_t created = [] {
    cudnnHandle_t made = nullptr;
    check(cudnnCreate(&made), "the library does not start on this device");
    return made;
  }();
  return created;
}

}  // namespace

std::string device_properties(std::string& why) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device); error != cudaSuccess) {
    why = cudaGetErrorString(error);
    return {};
  }
  fe::DeviceProperties properties;
  std::vector<std::uint8_t> text;
  fe::error_t error = properties.set_device_id(device).build();
  if (error.is_good()) error = properties.serialize(text);
  if (error.is_bad()) {
    why = error.get_message().substr(0, error.get_message().find('\n'));
    return {};
  }
  return {text.begin(), text.end()};
}

struct Execution::Loaded {
  fe::graph::Graph graph;
};

Execution::Execution(const Plan& plan) : loaded_(std::make_unique<Loaded>()) {
  check(loaded_->graph.deserialize(handle(), plan.bytes), "a plan cannot be loaded");
}
Execution::~Execution() = default;
Execution::Execution(Execution&&) noexcept = default;
Execution& Execution::operator=(Execution&&) noexcept = default;

void Execution::run(void* stream, void* x, void* w, void* y, void* workspace) const {
  check(cudnnSetStream(handle(), static_cast<cudaStream_t>(stream)), "its stream cannot be set");
  std::unordered_map<std::int64_t, void*> tensors = {{kX, x}, {kW, w}, {kY, y}};
  check(loaded_->graph.execute(handle(), tensors, workspace), "a convolution fails");
}

}  // namespace petaflow::cudnn
