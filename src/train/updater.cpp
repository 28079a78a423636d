#include "train/updater.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>

#include <Kokkos_Core.hpp>

#include "base/error.hpp"
#include "train/averaging.hpp"
#include "train/other_optimizer.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

std::int64_t elements_in(std::span<const Slice> slices) {
  std::int64_t elements = 0;
  for (const Slice& slice : slices) elements += slice.size();
  return elements;
}

const std::string kTuner = "optimizer/tuner";
std::string prefix_of(const OptimizerState& state) { return fmt::format("optimizer/{}/", state.name); }

}  // namespace

Updater::Updater(Communicator& comm, const Context& context, Network& network, const GradientExchange& exchange,
                 const OptimizerOptions& optimizer, const UpdateOptions& update)
    : comm_(comm),
      context_(context),
      network_(network),
      divided_(update.sharded || update.servers > 0),
      divided_by_host_(divided_ && !exchange.by_devices()),
      served_(update.servers > 0) {
  OptimizerOptions options = optimizer;
  options.ranks = comm.size();
  optimizer_ = std::make_unique<Optimizer>(options, network.parameters(),
                                           divided_ ? std::optional(exchange.own()) : std::nullopt);
}

std::string Updater::describe() const {
  if (!divided_) return "";
  return fmt::format("; every rank updates its own weights (update.sharded): rank 0 {} of {}",
                     elements_in(optimizer_->own()), network_.parameter_elements());
}

void Updater::update(GradientExchange& exchange, bool summed, std::int64_t /*step*/, float /*learning_rate*/,
                     StepClock& clock) {
  // Bucket by bucket, while others are still being summed, where the optimizer needs to know no more.
  const bool by_bucket = !summed && !optimizer_->needs_whole_gradient();
  if (!summed) {
    const auto step_of_bucket = [&](std::int64_t begin, std::int64_t end) {
      if (!by_bucket) return;
      const TimedRegion watch("petaflow::optimizer"_label, context_, clock, &StepTimes::optimizer);
      optimizer_->step(context_, begin, end, exchange.gradient(), network_.weights());
    };
    // A reference fits into std::function without memory.
    exchange.finish(std::ref(step_of_bucket), by_bucket ? network_.weights() : nullptr);
  }
  if (!by_bucket) update_at_once(exchange, clock);
}

// By a gradient that is summed as a whole.
void Updater::update_at_once(GradientExchange& exchange, StepClock& clock) {
  const TimedRegion watch("petaflow::optimizer"_label, context_, clock, &StepTimes::optimizer);
  float* const weights = network_.weights();
  if (!divided_) {
    optimizer_->step(context_, 0, network_.parameter_elements(), exchange.gradient(), weights);
    return;
  }
  optimizer_->share_factors(context_, exchange.gradient(), weights,
                            [this](std::span<double> values) { comm_.all_reduce_sum(values); });
  for (const Slice& slice : optimizer_->own()) {
    optimizer_->step(context_, slice.begin, slice.end, exchange.gradient(), weights);
  }
  exchange.spread(weights);
}

void Updater::average_over(Communicator& across, const CountWait& waits) {
  average(across, network_.weights(), network_.parameter_elements(), waits);
  for (const OptimizerState& state : optimizer_->states())
    average(across, state.values, elements_in(optimizer_->own()), waits);
  const std::span<float> tuner = optimizer_->tuner_numbers();
  average(across, tuner.data(), std::ssize(tuner), waits);
}

void Updater::settle(GradientExchange& /*exchange*/) {
  if (divided_) gather_states();
}

void Updater::gather_states() {
  const std::vector<Slice>& own = optimizer_->own();
  const std::vector<std::vector<std::byte>> slices = comm_.gather(std::as_bytes(std::span(own)));
  gathered_.clear();
  for (const OptimizerState& state : optimizer_->states()) {
    const Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged> mine(
        state.values, static_cast<std::size_t>(elements_in(own)));
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), mine);
    const std::vector<std::vector<std::byte>> all = comm_.gather(std::as_bytes(std::span(host.data(), host.size())));
    if (comm_.rank() != 0) continue;
    std::vector<float>& whole = gathered_.emplace_back(static_cast<std::size_t>(network_.parameter_elements()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const std::byte* next = all[rank].data();
      for (std::size_t i = 0; i < slices[rank].size() / sizeof(Slice); ++i) {
        Slice slice;
        std::memcpy(&slice, slices[rank].data() + i * sizeof slice, sizeof slice);
        const std::size_t bytes = static_cast<std::size_t>(slice.size()) * sizeof(float);
        if (bytes > 0) std::memcpy(whole.data() + slice.begin, next, bytes);
        next += bytes;
      }
    }
  }
}

std::vector<std::vector<float>> Updater::states() const {
  std::vector<std::vector<float>> all;
  const auto elements = static_cast<std::size_t>(elements_in(optimizer_->own()));
  for (const OptimizerState& state : optimizer_->states()) {
    const Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged> device(state.values, elements);
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
    all.emplace_back(host.data(), host.data() + elements);
  }
  return all;
}

void Updater::set_states(const std::vector<std::vector<float>>& states) {
  const std::vector<OptimizerState> all = optimizer_->states();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::vector<float>& from = states.at(i);
    const Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(from.data(), from.size());
    Kokkos::deep_copy(Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>(all[i].values, from.size()), host);
  }
}

std::vector<float> Updater::tuner() const {
  const std::span<float> numbers = optimizer_->tuner_numbers();
  const Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged> device(numbers.data(), numbers.size());
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
  return {host.data(), host.data() + host.size()};
}

void Updater::set_tuner(std::span<const float> numbers) {
  const Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(numbers.data(), numbers.size());
  Kokkos::deep_copy(
      Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>(optimizer_->tuner_numbers().data(), numbers.size()),
      host);
}

std::vector<NamedArray> Updater::arrays() const {
  std::vector<NamedArray> all;
  const std::vector<OptimizerState> states = optimizer_->states();
  const std::vector<Parameter> parameters = trained(network_.parameters());
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::string prefix = prefix_of(states[i]);
    std::ranges::move(divided_ ? host_arrays_of(parameters, gathered_.at(i), prefix)
                               : arrays_of(parameters, states[i].values, prefix),
                      std::back_inserter(all));
  }
  if (std::vector<float> numbers = tuner(); !numbers.empty()) {
    const std::int64_t each = std::ssize(optimizer_->tuner_numbers());
    std::vector<std::int64_t> dims = {each};
    if (served_) dims.insert(dims.begin(), std::ssize(numbers) / each);
    all.push_back({kTuner, std::move(dims), std::move(numbers)});
  }
  return all;
}

std::size_t Updater::restore(const std::vector<NamedArray>& arrays, const std::string& path) {
  std::size_t used = 0;
  for (const OptimizerState& state : optimizer_->states()) {
    const std::string prefix = prefix_of(state);
    // Arrays of all parameters, of which the own slices are kept.
    const Kokkos::View<float*, MemorySpace> whole("petaflow::optimizer::restored",
                                                  static_cast<std::size_t>(network_.parameter_elements()));
    const std::size_t taken = take_arrays(trained(network_.parameters()), arrays, prefix, path, whole.data());
    if (taken == 0) user_error("{} has no {}: it is {}", path, prefix, kOtherOptimizer);
    used += taken;
    float* to = state.values;
    for (const Slice& slice : optimizer_->own()) {
      const auto size = static_cast<std::size_t>(slice.size());
      using Part = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;
      Kokkos::deep_copy(Part(to, size), Part(whole.data() + slice.begin, size));
      to += size;
    }
  }
  if (const std::size_t numbers = tuner().size(); numbers > 0) {
    const auto kept = std::ranges::find(arrays, kTuner, &NamedArray::name);
    if (kept == arrays.end()) user_error("{} has no {}: it is {}", path, kTuner, kOtherOptimizer);
    if (kept->values.size() != numbers) {
      user_error(
          "{} keeps {} numbers that yellowfin measured, here are {}: servers measure every layer by itself, ranks "
          "without them the whole gradient; go on {} update.servers, or start a new run from its weights (train.init)",
          path, kept->values.size(), numbers, served_ ? "without" : "with");
    }
    set_tuner(kept->values);
    used += 1;
  }
  return used;
}

}  // namespace petaflow
