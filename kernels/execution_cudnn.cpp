// Properties of the device, and plans on it, through cuDNN's frontend.
#include "kernels/execution_cudnn.hpp"

#include <array>

#include <cuda_runtime_api.h>

#include "base/error.hpp"
#include "kernels/frontend_cudnn.hpp"

namespace petaflow::cudnn {
namespace {

namespace fe = cudnn_frontend;

void check(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) failure("cuDNN: {}: {}", what, cudnnGetErrorString(status));
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
  explicit Loaded(const Plan& from) : plan(fe::ExecutionPlanBuilder().setHandle(handle()).loadFromJson(from.json)) {}

  fe::ExecutionPlan plan;
  std::int64_t workspace = 0;
};

// Not by the frontend's Graph: it would run the plan at once, recording on a stream of its own that others wait for.
Execution::Execution(const Plan& plan) {
  try {
    loaded_ = std::make_unique<Loaded>(plan);
  } catch (const fe::cudnnException& error) {
    failure("cuDNN: a plan cannot be loaded: {}", error.what());
  }
  check(loaded_->plan.get_status(), "a plan cannot be loaded");
  std::int64_t count = 0;
  check(cudnnBackendGetAttribute(loaded_->plan.get_raw_desc(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                 CUDNN_TYPE_INT64, 1, &count, &loaded_->workspace),
        "a plan does not say its workspace");
}
Execution::~Execution() = default;
Execution::Execution(Execution&&) noexcept = default;
Execution& Execution::operator=(Execution&&) noexcept = default;

std::int64_t Execution::workspace() const { return loaded_->workspace; }

void Execution::run(void* stream, void* x, void* w, void* y, void* workspace) const {
  check(cudnnSetStream(handle(), static_cast<cudaStream_t>(stream)), "its stream cannot be set");
  std::array<std::int64_t, 3> ids = {kX, kW, kY};
  std::array<void*, 3> tensors = {x, w, y};
  const auto pack = fe::VariantPackBuilder()
                        .setDataPointers(3, tensors.data())
                        .setUids(3, ids.data())
                        .setWorkspacePointer(workspace)
                        .build();
  check(pack.get_status(), "the operands of a convolution are refused");
  check(cudnnBackendExecute(handle(), loaded_->plan.get_raw_desc(), pack.get_raw_desc()), "a convolution fails");
}

}  // namespace petaflow::cudnn
