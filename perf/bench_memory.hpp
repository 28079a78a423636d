// Memory of what bench times, and the loop over tiles in which it is used.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/dtype.hpp"
#include "nn/parallel.hpp"
#include "nn/tiles.hpp"

namespace petaflow::perf {

/// Numbers in [0.5, 1), written first by all threads.  64-byte aligned.
class Array {
 public:
  Array(DType type, std::int64_t elements)
      : bytes_(Kokkos::view_alloc(std::string("petaflow::bench"), Kokkos::WithoutInitializing),
               static_cast<std::size_t>(elements) * size_of(type)) {
    std::byte* const to = bytes_.data();
    using Policy = Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Static>, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for("petaflow::bench::fill", Policy(0, elements), [=](std::int64_t i) {
      const float value = 0.5F + static_cast<float>(i * 37 % 64) / 128;
      if (type == DType::kF32) {
        reinterpret_cast<float*>(to)[i] = value;
      } else {
        reinterpret_cast<Bf16*>(to)[i] = Bf16(value);
      }
    });
  }

  std::byte* data() const { return bytes_.data(); }
  float* floats() const { return reinterpret_cast<float*>(bytes_.data()); }

 private:
  Kokkos::View<std::byte*, Kokkos::HostSpace> bytes_;
};

/// An array of `bytes` or more for each thread.
class Buffers {
 public:
  Buffers(DType type, int count, std::size_t bytes)
      : stride_((bytes + 4095) / 4096 * 4096),
        memory_(type, static_cast<std::int64_t>(stride_ / size_of(type)) * count) {}
  std::byte* operator[](int index) const { return memory_.data() + static_cast<std::size_t>(index) * stride_; }

 private:
  std::size_t stride_;
  Array memory_;
};

/// f(part, index) for every tile, on all threads.  Fixed: in `threads` parts, each of which always has the same tiles,
/// as sums of weights' gradients need it.
template <class F>
void for_tiles(const Tiling& tiling, int threads, bool fixed, const F& f) {
  const std::size_t tiles = tiling.tiles.size();
  if (!fixed) {
    parallel_items("petaflow::bench", tiles, f);
    return;
  }
  const auto parts = std::min(static_cast<std::size_t>(threads), tiles);
  parallel_parts("petaflow::bench", static_cast<int>(parts), [&](int part) {
    const auto p = static_cast<std::size_t>(part);
    for (std::size_t i = tiles * p / parts; i < tiles * (p + 1) / parts; ++i) f(part, i);
  });
}

}  // namespace petaflow::perf
