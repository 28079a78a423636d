// The GPU that this process is to use.
#pragma once

#include <string>

#include <Kokkos_Macros.hpp>

namespace petaflow {

#ifdef KOKKOS_ENABLE_CUDA
/// Throws a user error where Kokkos would find no GPU, none that this program was built for, or a driver that is too
/// old.
void check_device();
/// What no other GPU is called, and its name for messages: of that in use, once Kokkos is initialised.
struct DeviceIdentity {
  std::string uuid, name;
};
DeviceIdentity device_identity();
/// " of a GPU's memory, of whose 131.3 GiB 1.2 are free"
std::string free_device_memory();
#else
inline void check_device() {}
inline std::string free_device_memory() { return ""; }
#endif

}  // namespace petaflow
