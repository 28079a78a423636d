// The best that the processor could do, as a yardstick for rates.
#pragma once

#include <string>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"

namespace petaflow {

/// GFLOP/s (2 per multiply-add) of independent products in registers, all threads of the host; 0: the processor or this
/// build has no such instruction.
struct Peaks {
  double f32_fma = 0;
  double bf16_dot = 0;   // VDPBF16PS (AVX512_BF16): products of pairs of bf16, sums in f32
  double bf16_tile = 0;  // TDPBF16PS (AMX), the same on tiles

  /// The fastest way to compute in a precision, "f32" or "bf16"; bf16 may be widened to f32, too.
  double of(const std::string& precision) const;
  /// "236 GFLOP/s by f32 multiply-adds, ...": those that there are.
  std::string describe() const;
};

/// Best of several short runs: about 50 ms for each peak.
Peaks measure_peaks(const Context& context);

/// a[i] = b[i] + s c[i] over f32 arrays much larger than the caches, all threads of the host; a, b and c count once
/// each (McCalpin's STREAM).  Holds 48 MiB per thread or four times the last-level cache, whichever is more.
class Triad {
 public:
  explicit Triad(const Context& context);
  /// GB/s of the best of several runs: about 50 ms.
  double measure_gbs() const;

 private:
  using Array = Kokkos::View<float*, Kokkos::HostSpace>;
  Array a_, b_, c_;
};

}  // namespace petaflow
