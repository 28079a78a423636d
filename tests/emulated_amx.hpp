// The convolution by shifts on AMX tiles with the instructions in plain C++, for processors without AMX.
#pragma once

#include <cstring>
#include <span>

#include "kernels/conv.hpp"
#include "kernels/lanes.hpp"
#if PETAFLOW_NATIVE_LANES
#include "kernels/conv_shifts.hpp"
#endif

namespace petaflow::testing_support {

#if PETAFLOW_NATIVE_LANES
/// AmxTiles of kernels/amx.hpp; sums in the order of TDPBF16PS (Intel SDM, volume 2).
class EmulatedAmx {
 public:
  EmulatedAmx() {
    std::memset(tiles_, 0xFF, sizeof tiles_);  // NaN
  }
  template <int kTile>
  void load(const void* from, std::int64_t stride) {
    for (int i = 0; i < 16; ++i)
      std::memcpy(tiles_[kTile] + i * 64, static_cast<const std::byte*>(from) + i * stride, 64);
  }
  template <int kTile>
  void store(void* to, std::int64_t stride) {
    for (int i = 0; i < 16; ++i) std::memcpy(static_cast<std::byte*>(to) + i * stride, tiles_[kTile] + i * 64, 64);
  }
  template <int kSum, int kA, int kB>
  void multiply_add() {
    for (int i = 0; i < 16; ++i) {
      float even[16] = {}, odd[16] = {};
      for (int p = 0; p < 16; ++p) {
        const float a0 = bf16<kA>(i, 2 * p), a1 = bf16<kA>(i, 2 * p + 1);
        for (int j = 0; j < 16; ++j) {
          even[j] += a0 * bf16<kB>(p, 2 * j);
          odd[j] += a1 * bf16<kB>(p, 2 * j + 1);
        }
      }
      float sums[16];
      std::memcpy(sums, tiles_[kSum] + i * 64, sizeof sums);
      for (int j = 0; j < 16; ++j) sums[j] += even[j] + odd[j];
      std::memcpy(tiles_[kSum] + i * 64, sums, sizeof sums);
    }
  }

 private:
  template <int kTile>
  float bf16(int row, int column) const {
    Bf16 number;
    std::memcpy(static_cast<void*>(&number), tiles_[kTile] + row * 64 + column * 2, sizeof number);
    return static_cast<float>(number);
  }
  std::byte tiles_[8][1024];
};
#endif

/// With blocks as they are, and with such small ones that tiles are cut in all directions; dot products, which lower
/// levels emulate, for any channels.  None where kernels run on a device.
inline std::span<const ConvImpl* const> emulated_impls() {
#if PETAFLOW_NATIVE_LANES
  constexpr auto kSome = ConvScope::kSome;
  static const ConvImpl amx{"emulated_amx", shifts::why_not, shifts::make<shifts::AmxProducts<EmulatedAmx>>, kSome},
      dots{"emulated_dots", shifts::why_not, shifts::make<shifts::DotProducts>, kSome},
      cut{"emulated_amx_cut", shifts::why_not, shifts::make<shifts::AmxProducts<EmulatedAmx>, 6144>, kSome};
  static const ConvImpl* const impls[] = {&amx, &dots, &cut};
  return impls;
#else
  return {};
#endif
}

}  // namespace petaflow::testing_support
