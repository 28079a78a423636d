// What a step keeps for checkpoints and for groups that go back to an earlier state.
#include <iterator>

#include "base/error.hpp"
#include "io/progress.hpp"
#include "train/other_optimizer.hpp"
#include "train/train_step.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

const std::string kEma = "ema/";
std::string lag_prefix(std::int64_t i) { return fmt::format("lag/{}/", i); }

}  // namespace

TrainStep::Kept TrainStep::keep() const {
  const auto elements = static_cast<std::size_t>(network().parameter_elements());
  const Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged> weights(network().weights(), elements);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), weights);
  return {step_, {host.data(), host.data() + elements}, updater_->states()};
}

void TrainStep::go_back_to(const Kept& kept) {
  step_ = kept.step;
  const Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(kept.weights.data(),
                                                                                    kept.weights.size());
  Kokkos::deep_copy(
      Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>(network().weights(), kept.weights.size()), host);
  updater_->set_states(kept.states);
  network().refresh(runner_.context());
}

std::optional<LossScaleState> TrainStep::loss_scale() const {
  return loss_scale_.scales() ? std::optional(loss_scale_.state()) : std::nullopt;
}

// The steps whose gradients are still to be used: the last `lag`, or as many as there were.
std::vector<NamedArray> TrainStep::arrays() const {
  std::vector<NamedArray> all = updater_->arrays();
  std::ranges::move(average_.arrays(network(), kEma), std::back_inserter(all));
  for (std::int64_t step = first_lagged(); step < step_; ++step) {
    const Flight& flight = flight_of(step);
    PETAFLOW_REQUIRE(flight.summed, "the gradient of step {} is under way", step);
    std::ranges::move(arrays_of(network().parameters(), flight.exchange->gradient(), lag_prefix(step - first_lagged())),
                      std::back_inserter(all));
  }
  return all;
}

std::vector<LaggedStep> TrainStep::lagged() const {
  std::vector<LaggedStep> lagged;
  for (std::int64_t step = first_lagged(); step < step_; ++step)
    lagged.push_back({flight_of(step).loss(), flight_of(step).noise, flight_of(step).scale});
  return lagged;
}

void TrainStep::restore(std::int64_t step, const std::vector<NamedArray>& arrays, const std::vector<LaggedStep>& lagged,
                        const std::optional<LossScaleState>& loss_scale, const std::string& path) {
  step_ = step;
  if (loss_scale_.scales() && loss_scale) loss_scale_.restore(*loss_scale);
  std::size_t used = updater_->restore(arrays, path) + average_.restore(network(), arrays, kEma, path);
  if (average_.wanted() && !average_.exists() && first_lagged() > loss_scale_.state().skipped) {
    user_error("{} has no {}: it is of a run without optimizer.ema; set that to 0", path, kEma);
  }
  const auto wanted = static_cast<std::size_t>(step_ - first_lagged());
  const auto other_lag = [&] {
    user_error("{} keeps {} still to be used; go on with update.lag = {}", path,
               format_count(std::ssize(lagged), "gradient"), lagged.size());
  };
  if (lagged.size() != wanted) other_lag();
  for (std::int64_t i = 0; i < std::ssize(lagged); ++i) {
    Flight& flight = flight_of(first_lagged() + i);
    const std::size_t taken =
        take_arrays(network().parameters(), arrays, lag_prefix(i), path, flight.exchange->gradient());
    if (taken == 0) other_lag();
    used += taken;
    flight.agreement->set_loss(lagged[static_cast<std::size_t>(i)].loss);
    flight.noise = lagged[static_cast<std::size_t>(i)].noise;
    flight.scale = lagged[static_cast<std::size_t>(i)].scale;
    if (loss_scale_.scales()) {
      loss_scale_.divide(runner_.context(), {{{0, network().parameter_elements()}}}, 1, flight.exchange->gradient());
      runner_.context().space.fence();
      flight.finite = loss_scale_.finite();
    }
    flight.samples = 1;
    flight.step = first_lagged() + i;
    flight.summed = true;
  }
  if (used != arrays.size()) user_error("{} is {}", path, kOtherOptimizer);
}

}  // namespace petaflow
