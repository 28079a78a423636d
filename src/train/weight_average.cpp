#include "train/weight_average.hpp"

#include "kernels/launch.hpp"
#include "train/averaging.hpp"
#include "train/weights.hpp"

namespace petaflow {

WeightAverage::WeightAverage(const Network& network, double decay)
    : decay_(decay),
      values_("petaflow::weights::ema", decay > 0 ? static_cast<std::size_t>(network.parameter_elements()) : 0) {}

namespace {

/// An item is a run of numbers; threads of a GPU read side by side.
struct Average {
  static constexpr std::int64_t kRun = kOnHost ? 4096 : 4;
  const StepState* step;
  double decay;
  std::int64_t count;
  const float* weights;
  float* values;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t run) const {
    const auto before = static_cast<double>(step->step);
    const double early = before / (before + 9), kept = early < decay ? early : decay;
    const auto share = static_cast<float>(1 - kept);
    for (std::int64_t i = run * kRun; i < (run + 1) * kRun && i < count; ++i)
      values[i] += share * (weights[i] - values[i]);
  }
};

}  // namespace

// With few updates the average forgets sooner, so that the first weights count for nothing.
void WeightAverage::update(const Context& context, const Network& network) {
  if (!wanted()) return;
  const std::int64_t count = network.parameter_elements();
  launch(context, "petaflow::weights::ema[kokkos]"_label, (count + Average::kRun - 1) / Average::kRun,
         Average{context.step, decay_, count, network.weights(), values_.data()});
  exists_ = true;
}

void WeightAverage::average_over(const Context& context, const Network& network, Communicator& across,
                                 const CountWait& waits) {
  if (!wanted()) return;
  if (!exists_) copy(context, network.weights(), values_.data(), network.parameter_elements());
  average(across, values_.data(), network.parameter_elements(), waits);
  exists_ = true;
}

void WeightAverage::swap(const Context& context, Network& network) {
  float *const a = network.weights(), *const b = values_.data();
  launch(
      context, "petaflow::swap[kokkos]"_label, network.parameter_elements(), KOKKOS_LAMBDA(std::int64_t i) {
        const float value = a[i];
        a[i] = b[i];
        b[i] = value;
      });
  network.refresh(context);
}

std::vector<NamedArray> WeightAverage::arrays(const Network& network, const std::string& prefix) const {
  return exists_ ? arrays_of(network.parameters(), values_.data(), prefix) : std::vector<NamedArray>();
}

std::size_t WeightAverage::restore(const Network& network, const std::vector<NamedArray>& arrays,
                                   const std::string& prefix, const std::string& path) {
  const std::size_t taken = wanted() ? take_arrays(network.parameters(), arrays, prefix, path, values_.data()) : 0;
  exists_ = taken > 0;
  return taken;
}

}  // namespace petaflow
