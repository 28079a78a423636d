// The parallel loop of portable kernels, which may also be called from inside a parallel region; zeros and copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string>

#include "base/context.hpp"
#include "base/label.hpp"

namespace petaflow {

using Site = std::source_location;  // of a launch, for messages

// What Kokkos hands to a kernel on CUDA: the functor, and so many bytes at most beside it, for its policy above all
// (64-bit builds of Kokkos 3 and 4).  Where both together have less than kLaunchBytes, they are arguments of the
// kernel. Else they go through constant memory, of which there is one for all streams: the host waits until the kernel
// before has read its own.
inline constexpr std::size_t kLaunchBytes = 512, kBesideLoop = 56, kBesideSum = 128, kBesideTeams = 128;

/// Rules for every functor that is launched.
/// @tparam kBeside  bytes beside it
template <std::size_t kBeside, class Functor>
void check_launch([[maybe_unused]] const std::string& label, [[maybe_unused]] const Functor& functor,
                  [[maybe_unused]] const Site& where) {
  static_assert(sizeof(Functor) + kBeside < kLaunchBytes);
#ifdef PETAFLOW_GUARDED
  guard::check_functor(label, functor, where);
#endif
}

/// functor(item) for every item in [0, items), as a kernel on the context's instance.
template <class Functor>
void launch(const Context& context, const std::string& label, std::int64_t items, const Functor& functor,
            const Site& where = Site::current()) {
  check_launch<kBesideLoop>(label, functor, where);
  using Range = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  Kokkos::parallel_for(label, Range(context.space, 0, items), functor);
}

/// The same; threads 1 on the host: a loop in the calling thread, which may itself be one of a parallel region.
template <class Functor>
void launch(const Context& context, int threads, const std::string& label, std::int64_t items, const Functor& functor,
            const Site& where = Site::current()) {
  if constexpr (kOnHost) {
    if (threads == 1) {
      for (std::int64_t item = 0; item < items; ++item) functor(item);
      return;
    }
  }
  launch(context, label, items, functor, where);
}

using TeamPolicy = Kokkos::TeamPolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
using Team = TeamPolicy::member_type;

/// functor(team) for `teams` teams, as a kernel on the context's instance.
/// @param size  threads of a team, or Kokkos::AUTO
template <class Functor, class Size>
void launch_teams(const Context& context, const std::string& label, std::int64_t teams, const Size& size,
                  const Functor& functor, const Site& where = Site::current()) {
  check_launch<kBesideTeams>(label, functor, where);
  Kokkos::parallel_for(label, TeamPolicy(context.space, static_cast<int>(teams), size), functor);
}

// Kernels, because Kokkos::deep_copy asks for memory for its labels.
struct Zero {
  float* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[i] = 0; }
};
template <class T>
struct Copy {
  const T* from;
  T* to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { to[i] = from[i]; }
};

/// to[0, count) = 0.
inline void zero(const Context& context, float* to, std::int64_t count) {
  launch(context, "petaflow::zero[kokkos]"_label, count, Zero{to});
}

/// to[0, count) = from[0, count).
template <class T>
void copy(const Context& context, const T* from, T* to, std::int64_t count) {
  launch(context, "petaflow::copy[kokkos]"_label, count, Copy<T>{from, to});
}

}  // namespace petaflow
