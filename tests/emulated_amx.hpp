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
  /// Without sanitizers, whose checks of each element of its arrays take half of test_ops_conv's time.
  template <int kSum, int kA, int kB>
  [[gnu::no_sanitize("address", "undefined")]] void multiply_add() {
    Bf16 a[16][32], b[16][32];
    float b_even[16][16], b_odd[16][16], sums[16][16];
    std::memcpy(static_cast<void*>(a), tiles_[kA], sizeof a);
    std::memcpy(static_cast<void*>(b), tiles_[kB], sizeof b);
    std::memcpy(sums, tiles_[kSum], sizeof sums);
    for (int p = 0; p < 16; ++p)
      for (int j = 0; j < 16; ++j) {
        b_even[p][j] = static_cast<float>(b[p][2 * j]);
        b_odd[p][j] = static_cast<float>(b[p][2 * j + 1]);
      }
    for (int i = 0; i < 16; ++i) {
      float even[16] = {}, odd[16] = {};
      for (int p = 0; p < 16; ++p) {
        const auto a0 = static_cast<float>(a[i][2 * p]), a1 = static_cast<float>(a[i][2 * p + 1]);
        for (int j = 0; j < 16; ++j) {
          even[j] += a0 * b_even[p][j];
          odd[j] += a1 * b_odd[p][j];
        }
      }
      for (int j = 0; j < 16; ++j) sums[i][j] += even[j] + odd[j];
    }
    std::memcpy(tiles_[kSum], sums, sizeof sums);
  }

 private:
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
