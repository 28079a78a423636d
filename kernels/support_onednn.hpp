// The base of the oneDNN files: engine, streams, numbers of threads, errors.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include <omp.h>
#include <Kokkos_Core.hpp>
#include <oneapi/dnnl/dnnl.hpp>

#include "base/error.hpp"

namespace petaflow::onednn {

inline const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

inline dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

/// Primitives bake in the number of threads of the moment when they are made.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) : before_(omp_get_max_threads()) { omp_set_num_threads(threads); }
  ~ThreadScope() { omp_set_num_threads(before_); }
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

/// A primitive with descriptions of its operands; a call brings their addresses only.  oneDNN's C++ interface makes a
/// table of operands in each call, a dozen allocations; here only those inside the library remain.
class Call {
 public:
  struct Operand {
    int argument = 0;  // DNNL_ARG_SRC, ...
    dnnl::memory::desc desc;
  };

  Call() = default;
  /// @param threads  of the primitive; 1: several threads of a parallel region may call at the same time
  Call(dnnl::primitive primitive, int threads, std::initializer_list<Operand> operands)
      : primitive_(std::move(primitive)), count_(operands.size()) {
    PETAFLOW_REQUIRE(count_ <= kMost, "{} operands", count_);
    memories_.resize(threads == 1 ? static_cast<std::size_t>(Kokkos::DefaultHostExecutionSpace().concurrency()) : 1);
    std::size_t i = 0;
    for (const Operand& operand : operands) {
      arguments_[i] = operand.argument;
      for (auto& own : memories_) own[i] = dnnl::memory(operand.desc, engine(), nullptr);
      ++i;
    }
  }

  /// Starts it on the calling thread's stream; addresses in the order of the operands.
  void operator()(std::initializer_list<const void*> addresses) const {
    PETAFLOW_REQUIRE(addresses.size() == count_, "{} addresses of {}", addresses.size(), count_);
    const auto& own = memories_[memories_.size() == 1 ? 0 : static_cast<std::size_t>(omp_get_thread_num())];
    std::array<dnnl_exec_arg_t, kMost> arguments{};
    std::size_t i = 0;
    for (const void* address : addresses) {
      own[i].set_data_handle(const_cast<void*>(address));
      arguments[i] = {arguments_[i], own[i].get()};
      ++i;
    }
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive_.get(), stream().get(), static_cast<int>(count_), arguments.data()),
        "could not execute a primitive");
  }

 private:
  static constexpr std::size_t kMost = 4;

  dnnl::primitive primitive_;
  std::size_t count_ = 0;
  std::array<int, kMost> arguments_{};
  std::vector<std::array<dnnl::memory, kMost>> memories_;  // of each thread
};

/// f(); an error of the library becomes a failure that names `what` was computed.
template <class F>
auto guarded(const std::string& what, const F& f) {
  try {
    return f();
  } catch (const dnnl::error& error) {
    failure("oneDNN: {}: {}", what, error.what());
  }
}

}  // namespace petaflow::onednn
