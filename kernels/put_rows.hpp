// Dense pixels written or added to pixels that may be a slice of wider ones.
#pragma once

#include "kernels/conv.hpp"

namespace petaflow {

/// A row of pixels of `to` = one of a dense `from`, or += where kAdds; an item for each row of all samples and planes.
template <class T, bool kAdds>
struct PutRows {
  const T* from;
  T* to;            // the first pixel
  Strides strides;  // of `to`
  Extent extent;
  std::int64_t channels;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    const T* a = from + row * extent.w * channels;
    T* b =
        to + row / extent.h / extent.d * strides.n + row / extent.h % extent.d * strides.d + row % extent.h * strides.h;
    for (std::int64_t w = 0; w < extent.w; ++w, a += channels, b += strides.w) {
      for (std::int64_t c = 0; c < channels; ++c) {
        if constexpr (kAdds) {
          b[c] = static_cast<T>(static_cast<float>(b[c]) + static_cast<float>(a[c]));
        } else {
          b[c] = a[c];
        }
      }
    }
  }
};

}  // namespace petaflow
