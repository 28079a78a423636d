#include "kernels/amx.hpp"

#ifdef PETAFLOW_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace petaflow {

#ifdef PETAFLOW_AMX
const AmxTiles::Config AmxTiles::kConfig;

bool may_use_amx() {
  // A process has to ask (Linux, Documentation/arch/x86/xstate.rst).
  static const bool may = [] {
    constexpr unsigned kHasBf16 = 1U << 22, kHasTiles = 1U << 24;  // CPUID, leaf 7, EDX
    constexpr long kRequestPermission = 0x1023, kTileData = 18;    // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
    return (edx & kHasBf16) != 0 && (edx & kHasTiles) != 0 &&
           syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  }();
  return may;
}
#else
bool may_use_amx() { return false; }
#endif

}  // namespace petaflow
