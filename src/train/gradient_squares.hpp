// Squared norms of gradients, piece by piece as these become final.
#pragma once

#include <cstdint>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/slice.hpp"
#include "nn/network.hpp"

namespace petaflow {

class GradientSquares {
 public:
  /// Of elements that are trained: in the place of others gradients have statistics.
  /// @param context  must outlive the object
  GradientSquares(const Context& context, const std::vector<Parameter>& parameters);

  /// Adds the squares of elements [begin, end).
  /// @param gradient  flat, in MemorySpace
  void add(const float* gradient, std::int64_t begin, std::int64_t end);
  /// Their sum since the last call, in an order that does not depend on the pieces as long as these end where
  /// parameters do.
  double take();

 private:
  const Context& context_;
  std::vector<Slice> host_parts_;
  Kokkos::View<Slice*, MemorySpace> parts_;     // whose squares are summed together
  Kokkos::View<double*, MemorySpace> squares_;  // of each
  decltype(squares_)::HostMirror host_squares_;
};

}  // namespace petaflow
