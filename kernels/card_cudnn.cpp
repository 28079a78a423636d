#include "kernels/card_cudnn.hpp"

#include <dlfcn.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "kernels/driver_for_plans.hpp"

namespace petaflow::cudnn {

std::string properties(const Card& card) {
  const nlohmann::json json = {{"cudaDeviceId", 0},
                               {"deviceName", card.name},
                               {"deviceVer", card.capability * 10},
                               {"driverVer", 13000},
                               {"isTccDriver", 0},
                               {"l2CacheSize", card.level2_mib << 20},
                               {"maxBlockSize", {1024, 1024, 64}},
                               {"maxCtasPerSM", 32},
                               {"maxGridSize", {2147483647, 65535, 65535}},
                               {"maxRegistersPerSM", 65536},
                               {"maxSharedMemoryPerBlock", 48 << 10},
                               {"maxSharedMemoryPerBlockOptin", card.block_shared_kib << 10},
                               {"maxThreadsPerBlock", 1024},
                               {"maxThreadsPerSM", 2048},
                               {"memClockRateKHz", card.memory_clock_mhz * 1000},
                               {"multiProcessorCount", card.multiprocessors},
                               {"pciDeviceId", 0},
                               {"regsPerBlock", 65536},
                               {"reservedSharedMemoryPerBlock", card.capability < 80 ? 0 : 1024},
                               {"smClockRateKHz", card.clock_mhz * 1000},
                               {"supportCoopLaunch", 1},
                               {"totalGlobalMem", card.memory_gib << 30},
                               {"warpSize", 32}};
  return json.dump();
}

void need_driver() {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
  if (dlopen(kDriverForPlans, RTLD_NOW | RTLD_GLOBAL) == nullptr) failure("{}", dlerror());
}

}  // namespace petaflow::cudnn
