// GPUs by their published figures: for plans that are made where there is none.
#pragma once

#include <array>
#include <cstdint>

namespace petaflow {

struct Card {
  const char* name;
  int capability, multiprocessors;  // 90: 9.0
  std::int64_t block_shared_kib, level2_mib, memory_gib, clock_mhz, memory_clock_mhz;
};

/// What petaflow's cuDNN has engines for.
inline constexpr std::array kCards = {
    Card{"A100", 80, 108, 163, 40, 80, 1410, 1593},
    Card{"H100", 90, 132, 227, 50, 80, 1980, 2619},
    Card{"H200", 90, 132, 227, 50, 141, 1980, 3201},
};

}  // namespace petaflow
