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
class Slots {
 public:
  Slots(DType type, int slots, std::size_t bytes)
      : stride_((bytes + 4095) / 4096 * 4096),
        memory_(type, static_cast<std::int64_t>(stride_ / size_of(type)) * slots) {}
  std::byte* operator[](int slot) const { return memory_.data() + static_cast<std::size_t>(slot) * stride_; }

 private:
  std::size_t stride_;
  Array memory_;
};

/// f(slot, index) for every tile, on all threads.  Fixed: by `threads` slots, each of which always has the same tiles,
/// as sums of weights' gradients need it.
template <class F>
void for_tiles(const Tiling& tiling, int threads, bool fixed, const F& f) {
  const std::size_t tiles = tiling.tiles.size();
  if (!fixed) {
    parallel_items("petaflow::bench", tiles, f);
    return;
  }
  const auto slots = std::min(static_cast<std::size_t>(threads), tiles);
  parallel_slots("petaflow::bench", static_cast<int>(slots), [&](int slot) {
    const auto s = static_cast<std::size_t>(slot);
    for (std::size_t i = tiles * s / slots; i < tiles * (s + 1) / slots; ++i) f(slot, i);
  });
}

}  // namespace petaflow::perf
