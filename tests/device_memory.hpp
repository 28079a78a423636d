// Memory of kernels, seen from the host by explicit copies: a GPU's memory must not be touched in any other way.
#pragma once

#include <cstdint>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/tensor.hpp"

namespace petaflow::testing_support {

/// device[0, values) = values.
template <class T>
void to_device(const std::vector<T>& values, T* device) {
  const Kokkos::View<const T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(values.data(), values.size());
  Kokkos::deep_copy(Kokkos::View<T*, MemorySpace, Kokkos::MemoryUnmanaged>(device, values.size()), host);
}

/// device[0, count), behind all kernels launched so far.
template <class T>
std::vector<T> to_host(const T* device, std::int64_t count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  Kokkos::fence();
  const Kokkos::View<const T*, MemorySpace, Kokkos::MemoryUnmanaged> from(device, values.size());
  Kokkos::deep_copy(Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(values.data(), values.size()), from);
  return values;
}

/// A dense tensor's elements in the order of its memory, (N, D, H, W, C).
template <class T = float>
std::vector<T> to_host(const Tensor& tensor) {
  return to_host<T>(tensor.as<T>(), tensor.shape.elements());
}
template <class T>
void to_device(const std::vector<T>& values, const Tensor& tensor) {
  PETAFLOW_REQUIRE(static_cast<std::int64_t>(values.size()) == tensor.shape.elements(), "{} values for {}",
                   values.size(), to_string(tensor.shape));
  to_device(values, tensor.as<T>());
}

/// An array in the memory of the execution space, zero or filled from the host.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : view_("test", size) {}
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) { set(host); }

  T* data() const { return view_.data(); }
  void set(const std::vector<T>& host) { to_device(host, data()); }
  std::vector<T> get() const { return to_host(static_cast<const T*>(data()), static_cast<std::int64_t>(view_.size())); }

 private:
  Kokkos::View<T*, MemorySpace> view_;
};

/// The state of a step where kernels read it; its pointers must be to such memory too.
class DeviceState {
 public:
  DeviceState() : state_(1) {}
  explicit DeviceState(const StepState& state) : DeviceState() { set(state); }
  void set(const StepState& state) { state_.set({state}); }
  const StepState* data() const { return state_.data(); }

 private:
  DeviceArray<StepState> state_;
};

}  // namespace petaflow::testing_support
