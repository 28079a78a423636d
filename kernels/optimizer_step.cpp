#include "kernels/optimizer_step.hpp"

#include "kernels/launch.hpp"

namespace petaflow {

void running_step(const Context& context, float momentum, std::int64_t begin, std::int64_t end, const float* batch,
                  float* running) {
  launch(
      context, "petaflow::running_statistics[kokkos]"_label, end - begin,
      KOKKOS_LAMBDA(std::int64_t i) { running[begin + i] += momentum * (batch[begin + i] - running[begin + i]); });
}

}  // namespace petaflow
