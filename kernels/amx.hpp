// Tiles (Intel AMX): whether this process may use them, and their instructions.
#pragma once

#include <array>
#include <cstdint>

#if defined(__x86_64__) && defined(__linux__) && !defined(__CUDACC__)
#define PETAFLOW_AMX 1
#endif

namespace petaflow {

/// True where there are tiles that multiply bf16 and Linux lets this process use them.
bool may_use_amx();

#ifdef PETAFLOW_AMX
/// The tiles 0 to 7 of the calling thread, each of 16 rows of 64 bytes (Intel SDM, volume 1, chapter 18), for as long
/// as the object lives.  Assembler: the intrinsics of GCC do not say which memory they read and write, and are for
/// functions compiled for tiles alone, which others cannot inline.
class AmxTiles {
 public:
  AmxTiles() { asm volatile("ldtilecfg %0" : : "m"(kConfig)); }
  ~AmxTiles() { asm volatile("tilerelease"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int kTile>
  void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// Rows lie `stride` bytes apart, at any address.
  template <int kTile>
  void load(const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  void store(void* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  /// sum(i, j) += sum_p a(i, p) b(p, j), 16 x 16 sums in f32 over p < 32 in bf16; b in rows of pairs (p / 2, j, p % 2).
  template <int kSum, int kA, int kB>
  void multiply_add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSum), "i"(kA), "i"(kB));
  }

 private:
  struct alignas(64) Config {
    std::uint8_t palette = 1, start_row = 0;
    std::array<std::uint8_t, 14> reserved = {};
    std::array<std::uint16_t, 16> row_bytes = {64, 64, 64, 64, 64, 64, 64, 64};
    std::array<std::uint8_t, 16> rows = {16, 16, 16, 16, 16, 16, 16, 16};
  };
  static_assert(sizeof(Config) == 64);
  static const Config kConfig;
};
#endif

}  // namespace petaflow
