// The parallel sum of portable kernels.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/launch.hpp"

namespace petaflow {

/// *sum = what functor(item, part) adds to parts that begin at 0, over all items in [0, items), in any order.  A kernel
/// on the context's instance: the host does not wait for it.
template <class T, class Functor>
void launch_sum(const Context& context, const std::string& label, std::int64_t items, const Functor& functor,
                const Kokkos::View<T, MemorySpace>& sum, const Site& where = Site::current()) {
  check_launch<kBesideSum>(label, functor, where);
  using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_reduce(label, Range(context.space, 0, items), functor, sum);
}

}  // namespace petaflow
