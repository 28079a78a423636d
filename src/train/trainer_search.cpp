// The search for momentum, learning rate and number of groups (update.tune_groups), where all ranks have the same
// weights: trials that all begin with these and take the same samples.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "base/activity.hpp"
#include "comm/agree.hpp"
#include "io/log.hpp"
#include "train/trainer.hpp"

namespace petaflow {
namespace {

std::string text_of(const GroupTrial& trial, double rate) {
  return fmt::format("{}, momentum {}, learning rate {:.3g}", format_count(trial.groups, "group"), trial.momentum,
                     rate);
}

}  // namespace

// At the beginning of an epoch, of which there are enough steps left.
bool Trainer::search_due() const {
  if (!state_.search || state_.validation_due || state_.epoch_step > 0 || state_.epoch < state_.search_epoch) {
    return false;
  }
  return options_.update.tune_groups <= std::min(steps_per_epoch(), total_steps_ - state_.step);
}

// Servers and workers are at a settled point again, with these settings.
void Trainer::go_on_from(const TrainStep::Kept& kept, const GroupTrial& settings) {
  step_.go_back_to(kept);
  rate_factor_ = settings.rate;
  step_.connect(*servers_, comm_, settings.momentum);
  step_.settle();
}

// Mean over the second half of a trial's steps; infinity where they failed, as they do where the loss is not finite;
// none where a stop was requested.
std::optional<double> Trainer::loss_of(const GroupTrial& trial, const TrainStep::Kept& from, StopRequest& stop) {
  go_on_from(from, trial);
  std::vector<double> losses;
  std::array<double, 1> loss = {INFINITY}, refused{};
  try {
    const ServerSession::Lease lease =
        work_with_servers(state_.step + options_.update.tune_groups,
                          [&](std::span<const double> more) { losses.insert(losses.end(), more.begin(), more.end()); });
    stop = static_cast<StopRequest>(lease.stop);
    if (!losses.empty()) {
      const auto half = losses.begin() + std::ssize(losses) / 2;
      loss[0] = std::accumulate(half, losses.end(), 0.0) / static_cast<double>(losses.end() - half);
    }
  } catch (const AgreedError& error) {
    step_.finish_sums();
    failed_ = error;
    refused[0] = error.kind() == ErrorKind::kUser ? 1 : 0;
  }
  comm_.all_reduce_max(refused);  // groups may have failed for several reasons
  if (refused[0] != 0) throw AgreedError(*failed_);
  if (stop != StopRequest::kNone) return std::nullopt;
  comm_.broadcast(std::as_writable_bytes(std::span(loss)), 0);
  return loss[0];
}

StopRequest Trainer::search_groups() {
  using Decision = GroupSearch::Decision;
  const Activity activity("tuning groups", state_.step);
  GroupSearch& search = *state_.search;
  const TrainStep::Kept kept = step_.keep();
  const std::optional<NoiseScale> noise = state_.noise;
  const std::int64_t own_steps = result_.rates.own_steps;
  StopRequest stop = StopRequest::kNone;
  Decision decision = Decision::kNone;
  while (decision == Decision::kNone && stop == StopRequest::kNone) {
    const GroupTrial trial = search.next();
    if (const std::optional<double> loss = loss_of(trial, kept, stop)) {
      log_info("tuning: {}: loss {:.4f} after {}", text_of(trial, static_cast<double>(learning_rate(state_.step))),
               *loss, format_count(options_.update.tune_groups, "step"));
      decision = search.take(*loss);
    }
  }
  if (decision == Decision::kFailed) throw AgreedError(*failed_);
  state_.noise = noise;
  result_.rates.own_steps = own_steps;
  go_on_from(kept, search.settings());
  if (decision == Decision::kFewer) {
    log_info("tuning: the best momentum is 0: {} from now on", format_count(search.groups(), "group"));
    result_.end = FitEnd::kGroups;
  }
  if (decision == Decision::kFound) {
    log_info("tuning: going on with {}", text_of(search.settings(), static_cast<double>(learning_rate(state_.step))));
    tell_search();
    search.forget();
    const std::int64_t between = options_.update.tune_epochs;
    state_.search_epoch = between > 0 ? state_.epoch + between : std::numeric_limits<std::int64_t>::max();
  }
  return stop;
}

// What was tried since the last search, and what was found.
void Trainer::tell_search() const {
  if (comm_.rank() != 0) return;
  const GroupTrial& found = state_.search->settings();
  for (const GroupTrial& trial : state_.search->tried()) {
    const bool chosen = trial.groups == found.groups && trial.momentum == found.momentum && trial.rate == found.rate;
    const double rate = static_cast<double>(schedule_.rate(state_.step)) * trial.rate;
    listener_->tuned({state_.step + 1, state_.epoch, trial.groups, trial.momentum, rate, trial.loss, chosen});
  }
}

}  // namespace petaflow
