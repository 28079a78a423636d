// The parallel loops over tiles and parts of sums, on the host, and how sums are divided among them.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"

namespace petaflow {

using HostSpace = Kokkos::DefaultHostExecutionSpace;

/// Carries the first exception out of a parallel loop: one that leaves a thread would end the program.
class FirstError {
 public:
  template <class F>
  void guard(const F& f) noexcept {
    try {
      f();
    } catch (...) {
      if (!taken_.test_and_set()) error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::atomic_flag taken_;
  std::exception_ptr error_;
};

/// Context::poll between pieces of a parallel loop, on the thread that began the loop: MPI wants no other one
/// (MPI_THREAD_FUNNELED).
class Poll {
 public:
  explicit Poll(const Context& context) : poll_(context.poll) {}
  void operator()() const {
    if (poll_ != nullptr && std::this_thread::get_id() == caller_) (*poll_)(true);
  }

 private:
  const std::function<void(bool)>* poll_;
  std::thread::id caller_ = std::this_thread::get_id();
};

/// f(part) for part in [0, parts).
template <class F>
void parallel_parts(const std::string& label, int parts, const F& f) {
  using Policy = Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Static>>;
  FirstError error;
  Kokkos::parallel_for(label, Policy(0, parts), [&](int part) { error.guard([&] { f(part); }); });
  error.rethrow();
}

/// f(thread, i) for i in [0, count), handed out one by one; calls that run at the same time have different threads,
/// 0 <= thread < the threads of the host.
template <class F>
void parallel_items(const std::string& label, std::size_t count, const F& f) {
  using Policy = Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  const Kokkos::Experimental::UniqueToken<HostSpace> tokens;
  FirstError error;
  Kokkos::parallel_for(label, Policy(0, static_cast<std::int64_t>(count), Kokkos::ChunkSize(1)), [&](std::int64_t i) {
    const int thread = tokens.acquire();
    error.guard([&] { f(thread, static_cast<std::size_t>(i)); });
    tokens.release(thread);
  });
  error.rethrow();
}

/// How the sums of a stage are cut, and by how many threads its kernels on whole tensors may run.
struct Division {
  int parts;          // partial sums of a gradient
  int whole_threads;  // 1: such kernels run on one thread, in their own serial order

  Division(const Context& context, bool fixed_order)
      : parts(fixed_order ? 16 : context.threads), whole_threads(fixed_order ? 1 : context.threads) {}

  /// f() as a kernel made for whole_threads expects it: one made for one thread must not find several.
  template <class F>
  void run_whole(const std::string& label, const F& f) const {
    if (kOnHost && whole_threads == 1) {
      parallel_parts(label, 1, [&](int) { f(); });
    } else {
      f();
    }
  }
};

}  // namespace petaflow
