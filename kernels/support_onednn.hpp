// What the oneDNN files share: engine, streams, numbers of threads, errors.
#pragma once

#include <omp.h>
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
