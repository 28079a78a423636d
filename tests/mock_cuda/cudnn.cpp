// cuDNN without a GPU, beside the mock CUDA runtime.  The real library makes and loads plans, of an H200's published
// figures; its calls that reach for a device are here: a handle, and a convolution, which computes nothing, but whose
// tensors and workspace must lie in allocations, where the plan wants them, and its stream must exist.
#include <dlfcn.h>

#include <cudnn.h>
#include <nlohmann/json.hpp>

#include "kernels/card_cudnn.hpp"
#include "state.hpp"

using namespace mock_cuda;

namespace {

using Descriptor = cudnnBackendDescriptor_t;

/// A tensor of a plan: bytes from its first element to the end of its last one.
struct Operand {
  std::size_t bytes, alignment;
};
struct LoadedPlan {
  std::map<std::int64_t, Operand> operands;  // by the numbers that the plan knows them by
  std::int64_t workspace = 0;
};
struct Pack {
  std::vector<std::int64_t> ids;
  std::vector<const void*> addresses;
  const void* workspace = nullptr;
};

struct Cudnn {
  std::map<Descriptor, LoadedPlan> plans;
  std::map<Descriptor, Pack> packs;
  std::set<cudnnHandle_t> handles;
  cudaStream_t stream = nullptr;
};
Cudnn& all() {
  static auto* const cudnn = new Cudnn;
  return *cudnn;
}

/// cuDNN's own function of that name.
template <class Function>
Function* real(const char* name) {
  void* const found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) complain("cuDNN has no %s", name);
  return reinterpret_cast<Function*>(found);
}

const petaflow::Card& card() {
  for (const petaflow::Card& each : petaflow::kCards) {
    if (std::string("H200") == each.name) return each;
  }
  complain("no H200 among the cards");
}

LoadedPlan read_plan(const std::string& text) {
  LoadedPlan plan;
  const nlohmann::json json = nlohmann::json::parse(text);
  for (const nlohmann::json& tensor : json.at("operationGraph").at("tensors")) {
    const auto size = tensor.at("dim").get<std::vector<std::int64_t>>();
    const auto stride = tensor.at("stride").get<std::vector<std::int64_t>>();
    std::int64_t last = 0;
    for (std::size_t i = 0; i < size.size(); ++i) last += (size[i] - 1) * stride[i];
    const auto element = tensor.at("dataType").get<std::string>() == "CUDNN_DATA_FLOAT" ? 4 : 2;
    if (!tensor.at("isVirtual").get<bool>()) {
      plan.operands[std::stoll(tensor.at("name").get<std::string>())] = {static_cast<std::size_t>((last + 1) * element),
                                                                         tensor.at("ptrAlignment").get<std::size_t>()};
    }
  }
  return plan;
}

/// A finished description of the device for the plan, which holds on to it.
void set_device(Descriptor plan) {
  const std::string properties = petaflow::cudnn::properties(card());
  Descriptor device = nullptr;
  const bool good =
      cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &device) == CUDNN_STATUS_SUCCESS &&
      cudnnBackendSetAttribute(device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                               static_cast<std::int64_t>(properties.size()),
                               properties.data()) == CUDNN_STATUS_SUCCESS &&
      cudnnBackendFinalize(device) == CUDNN_STATUS_SUCCESS &&
      cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device) ==
          CUDNN_STATUS_SUCCESS;
  if (!good) complain("cuDNN does not take the figures of a device");
}

void check_operand(std::int64_t id, const void* address, const Operand& operand) {
  const char* const call = "cudnnBackendExecute";
  if (!memory_at(call, address, operand.bytes).on_device) complain("%s: %p is not on the device", call, address);
  if (reinterpret_cast<std::uintptr_t>(address) % operand.alignment != 0)
    complain("%s: tensor %ld begins at %p, no multiple of %zu", call, static_cast<long>(id), address,
             operand.alignment);
}

}  // namespace

extern "C" {
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  const auto lock = enter_uncaptured("cudnnCreate");
  petaflow::cudnn::need_driver();
  *handle = reinterpret_cast<cudnnHandle_t>(new char);
  all().handles.insert(*handle);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  const auto lock = enter_uncaptured("cudnnDestroy");
  if (all().handles.erase(handle) == 0) complain("cudnnDestroy of a handle that does not exist");
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  if (!all().handles.contains(handle)) complain("cudnnSetStream of a handle that does not exist");
  all().stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(Descriptor descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  static auto* const real_call = real<decltype(cudnnBackendSetAttribute)>("cudnnBackendSetAttribute");
  switch (name) {
    case CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION:
      all().plans[descriptor] = read_plan({static_cast<const char*>(values), static_cast<std::size_t>(count)});
      break;
    case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
      if (!all().handles.contains(*static_cast<const cudnnHandle_t*>(values)))
        complain("a plan for a handle that does not exist");
      set_device(descriptor);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_DEVICEPROP_DEVICE_ID: {
      petaflow::cudnn::need_driver();
      const std::string properties = petaflow::cudnn::properties(card());
      return real_call(descriptor, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                       static_cast<std::int64_t>(properties.size()), properties.data());
    }
    case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS: {
      const auto* const ids = static_cast<const std::int64_t*>(values);
      all().packs[descriptor].ids.assign(ids, ids + count);
      break;
    }
    case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS: {
      const auto* const addresses = static_cast<const void* const*>(values);
      all().packs[descriptor].addresses.assign(addresses, addresses + count);
      break;
    }
    case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
      all().packs[descriptor].workspace = *static_cast<const void* const*>(values);
      break;
    default:
      break;
  }
  return real_call(descriptor, name, type, count, values);
}
// A plan that is loaded asks for more workspace than was planned, as they do on a device.
cudnnStatus_t cudnnBackendGetAttribute(Descriptor const descriptor, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t room, std::int64_t* count,
                                       void* values) {
  static auto* const real_call = real<decltype(cudnnBackendGetAttribute)>("cudnnBackendGetAttribute");
  const cudnnStatus_t status = real_call(descriptor, name, type, room, count, values);
  const auto found = all().plans.find(descriptor);
  if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || found == all().plans.end()) return status;
  constexpr std::int64_t kMore = 100'003;
  auto* const workspace = static_cast<std::int64_t*>(values);
  *workspace = found->second.workspace = *workspace + kMore;
  return status;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(Descriptor descriptor) {
  static auto* const real_call = real<decltype(cudnnBackendDestroyDescriptor)>("cudnnBackendDestroyDescriptor");
  all().plans.erase(descriptor);
  all().packs.erase(descriptor);
  return real_call(descriptor);
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, Descriptor plan, Descriptor pack) {
  const auto lock = enter(state().captured == nullptr ? "convolutions" : "captured convolutions");
  if (!all().handles.contains(handle)) complain("cudnnBackendExecute of a handle that does not exist");
  check_stream("cudnnBackendExecute", all().stream);
  const LoadedPlan& loaded = all().plans.at(plan);
  const Pack& given = all().packs.at(pack);
  if (given.ids.size() != loaded.operands.size()) {
    complain("cudnnBackendExecute of %zu tensors, where the plan has %zu", given.ids.size(), loaded.operands.size());
  }
  for (std::size_t i = 0; i < given.ids.size(); ++i) {
    const auto operand = loaded.operands.find(given.ids[i]);
    if (operand == loaded.operands.end()) complain("cudnnBackendExecute: the plan has no such tensor");
    check_operand(given.ids[i], given.addresses.at(i), operand->second);
  }
  if (loaded.workspace > 0) check_operand(0, given.workspace, {static_cast<std::size_t>(loaded.workspace), 256});
  return CUDNN_STATUS_SUCCESS;
}
}
