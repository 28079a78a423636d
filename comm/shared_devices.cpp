#include "comm/shared_devices.hpp"

#include <map>

#include "base/device.hpp"

namespace petaflow {

#ifdef KOKKOS_ENABLE_CUDA
std::string shared_devices(Communicator& comm) {
  const DeviceIdentity mine = device_identity();
  const std::vector<std::string> devices = gather_text(comm, mine.uuid);
  std::map<std::string, std::size_t> owners;
  std::string text;
  for (std::size_t rank = 0; rank < devices.size() && text.empty(); ++rank) {
    const auto [owner, is_new] = owners.emplace(devices[rank], rank);
    if (!is_new) text = fmt::format("ranks {} and {} have the same GPU ({})", owner->second, rank, mine.name);
  }
  return broadcast_text(comm, text);
}
#else
std::string shared_devices(Communicator& /*comm*/) { return ""; }
#endif

}  // namespace petaflow
