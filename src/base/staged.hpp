// An array in the memory of the execution space and its twin in the host's, with copies that nobody waits for.
#pragma once

#include <cstddef>
#include <string>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"

namespace petaflow {

template <class T>
class Staged {
 public:
  /// What is made here is zeros.
  /// @param array  in MemorySpace, of that size, which must outlive this; null: it is made here
  Staged(const std::string& label, std::size_t size, T* array = nullptr)
      : device_(array != nullptr ? decltype(device_)(array, size) : decltype(device_)(label, size)) {
    if constexpr (!kOnHost) host_ = decltype(host_)(label, size);
  }

  /// In MemorySpace.
  T* device() const { return device_.data(); }
  /// The twin; the array itself where the host may touch it.
  T* host() const {
    if constexpr (kOnHost) return device_.data();
    return host_.data();
  }
  /// Copies host() to device(), behind what the context's space was given before; host() may be written again once the
  /// space is idle.
  void upload(const Context& context) const {
    if constexpr (!kOnHost) Kokkos::deep_copy(context.space, device_, host_);
  }
  /// Likewise to host(), which has it once the space is idle.
  void download(const Context& context) const {
    if constexpr (!kOnHost) Kokkos::deep_copy(context.space, host_, device_);
  }

 private:
  Kokkos::View<T*, MemorySpace> device_;
  Kokkos::View<T*, StagingSpace> host_;  // empty where device() is its own
};

}  // namespace petaflow
