// Dense pixels written or added to pixels that may be a slice of wider ones.
#pragma once

#include "kernels/conv.hpp"

namespace petaflow {

/// Pixels of `to` = those of a dense `from`, or += where kAdds.  An item is a row of pixels on the host, some channels
/// of a pixel on a device.
template <class T, bool kAdds>
struct PutRows {
  const T* from;
  T* to;            // the first pixel
  Strides strides;  // of `to`
  Extent extent;
  std::int64_t channels;

  static constexpr std::int64_t kChannels = 4;
  KOKKOS_INLINE_FUNCTION std::int64_t chunks() const { return (channels + kChannels - 1) / kChannels; }
  std::int64_t items(std::int64_t rows) const { return kOnHost ? rows : rows * extent.w * chunks(); }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    if constexpr (kOnHost) {
      const T* a = from + item * extent.w * channels;
      T* b = row(item);
      for (std::int64_t w = 0; w < extent.w; ++w, a += channels, b += strides.w) put(a, b, 0, channels);
    } else {
      const std::int64_t c = item % chunks() * kChannels, pixel = item / chunks();
      const std::int64_t end = c + kChannels < channels ? c + kChannels : channels;
      put(from + pixel * channels, row(pixel / extent.w) + pixel % extent.w * strides.w, c, end);
    }
  }

 private:
  KOKKOS_INLINE_FUNCTION T* row(std::int64_t row) const {
    return to + row / extent.h / extent.d * strides.n + row / extent.h % extent.d * strides.d +
           row % extent.h * strides.h;
  }
  static KOKKOS_INLINE_FUNCTION void put(const T* a, T* b, std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      if constexpr (kAdds) {
        b[c] = static_cast<T>(static_cast<float>(b[c]) + static_cast<float>(a[c]));
      } else {
        b[c] = a[c];
      }
    }
  }
};

}  // namespace petaflow
