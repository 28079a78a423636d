// The parallel loops of the stages on the host.
#pragma once

#include <string>
#include <vector>

#include "base/context.hpp"
#include "kernels/epilogue.hpp"

namespace petaflow {

using HostSpace = Kokkos::DefaultHostExecutionSpace;

/// f(i) for i in [0, count), several threads.
template <class F>
void parallel_elements(const Context&, const std::string& label, std::int64_t count, const F& f) {
  Kokkos::parallel_for(label, Kokkos::RangePolicy<HostSpace>(0, count), f);
}

/// f(slot) for slot in [0, slots), each on a thread of its own.
template <class F>
void parallel_slots(const Context&, const std::string& label, int slots, const F& f) {
  using Policy = Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Static>>;
  Kokkos::parallel_for(label, Policy(0, slots), [&](int slot) { f(slot); });
}

/// f(thread, i) for i in [0, count), handed out one by one; calls that run at the same time have different threads,
/// 0 <= thread < context.threads.
template <class F>
void parallel_boxes(const Context&, const std::string& label, std::size_t count, const F& f) {
  using Policy = Kokkos::RangePolicy<HostSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
  const Kokkos::Experimental::UniqueToken<HostSpace> tokens;
  Kokkos::parallel_for(label, Policy(0, static_cast<std::int64_t>(count), Kokkos::ChunkSize(1)), [&](std::int64_t i) {
    const int thread = tokens.acquire();
    f(thread, static_cast<std::size_t>(i));
    tokens.release(thread);
  });
}

/// f(range) for every single row of every sample of `rows`.
template <class F>
void parallel_rows(const Context& context, const std::string& label, const RowRange& rows, const F& f) {
  parallel_elements(context, label, rows.samples() * rows.rows(), [&](std::int64_t i) {
    const std::int64_t sample = rows.sample_begin + i / rows.rows(), row = rows.begin + i % rows.rows();
    f(RowRange{sample, sample + 1, row, row + 1});
  });
}

/// sum[c] += the sum over all pixels of v (pixels, channels), in an order that depends on context.threads only.
inline void add_channel_sums(const Context& context, const void* v, DType type, std::int64_t pixels,
                             std::int64_t channels, float* sum) {
  std::vector<float> partial(static_cast<std::size_t>(context.threads * channels), 0.0F);
  parallel_slots(context, "petaflow::bias::sum", context.threads, [&](int slot) {
    float* mine = partial.data() + slot * channels;
    for (std::int64_t p = pixels * slot / context.threads; p < pixels * (slot + 1) / context.threads; ++p) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t i = p * channels + c;
        mine[c] +=
            type == DType::kF32 ? static_cast<const float*>(v)[i] : static_cast<float>(static_cast<const Bf16*>(v)[i]);
      }
    }
  });
  for (int slot = 0; slot < context.threads; ++slot) {
    for (std::int64_t c = 0; c < channels; ++c) sum[c] += partial[static_cast<std::size_t>(slot * channels + c)];
  }
}

}  // namespace petaflow
