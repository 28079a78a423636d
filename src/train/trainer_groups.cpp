// The training loop where groups of ranks work at steps of their own: between two moments at which all of them have the
// same weights, with parameter servers or with averages.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "comm/agree.hpp"
#include "train/trainer.hpp"

namespace petaflow {

// Whether groups average after every step of this epoch, and wait for it.
bool Trainer::averages_always() const {
  const auto epochs = static_cast<std::int64_t>(std::ceil(epochs_.epoch_at(total_steps_)));
  return state_.epoch < options_.update.average_warmup_epochs ||
         state_.epoch >= epochs - options_.update.average_cooldown_epochs;
}

// Step at which all ranks have the same weights: the end of the epoch or of the run, before these a checkpoint, or
// where groups average and wait for it.
std::int64_t Trainer::next_settling() const {
  const std::int64_t first_of_epoch = state_.step - state_.epoch_step;
  const std::int64_t end = end_of_epoch();
  const auto next = [](std::int64_t from, std::int64_t after, std::int64_t interval) {
    return from + ((after - from) / interval + 1) * interval;
  };
  const std::int64_t interval = options_.checkpoint_interval;
  const std::int64_t saves = interval > 0 ? next(0, state_.step, interval) : end;
  if (across_ == nullptr) return std::min(end, saves);
  const std::int64_t between = (averages_always() ? 1 : options_.update.average_every) * across_->size();
  const bool waits = averages_always() || options_.update.average_late == 0;
  return std::min(end, next(first_of_epoch, waits ? state_.step : std::max(state_.step, saves - 1), between));
}

// The steps that this group gets of those before `until`, when all groups have settled, or before a request to stop.
// @param done  takes losses of the next steps that any group has done, on rank 0
ServerSession::Lease Trainer::work_with_servers(std::int64_t until,
                                                const std::function<void(std::span<const double>)>& done) {
  const std::int64_t first_of_epoch = state_.step - state_.epoch_step;
  TicketReport report{.from = state_.step, .until = until};
  ServerSession::Lease lease;
  std::deque<std::int64_t> tickets;
  // No group goes on, and changes weights, before all have those that they settled on.
  comm_.barrier();
  const auto exchange = [&] {
    lease = servers_->report(report);
    if (lease.ticket) {
      loader_.list(*lease.ticket - first_of_epoch);
      tickets.push_back(*lease.ticket);
    }
    if (!lease.losses.empty()) done(lease.losses);
  };

  loader_.start_listed(state_.epoch, batches_per_step());
  exchange();
  if (lease.ticket) exchange();  // one more, whose samples are read during the first
  while (!lease.settled) {
    const std::int64_t ticket = tickets.front();
    const Activity activity("training with servers", ticket);
    tickets.pop_front();
    listener_->begin_step(ticket);
    step_.go_on_at(ticket);
    StepResult step;
    std::optional<AgreedError> failed;
    try {
      step = run_step(ticket);
    } catch (const AgreedError& error) {
      failed = error;
    }
    if (failed) servers_->fail(*failed);
    listener_->end_step();
    result_.rates.own_steps += 1;
    report.done = ticket;
    report.loss = step.loss.value();
    report.stop = static_cast<std::int32_t>(step.stop);
    exchange();
  }
  return lease;
}

// The steps up to the next settling, when all ranks have the same weights again.
StopRequest Trainer::train_with_servers(Progress* progress) {
  const Activity activity("training with servers", state_.step);
  Kokkos::Timer since_last;
  // A step of any group is counted when its loss is known: on rank 0 soon, on the others when all settle.
  const auto count = [&](std::int64_t steps, const auto& loss_of) {
    const double seconds = since_last.seconds() / static_cast<double>(std::max<std::int64_t>(steps, 1));
    for (std::int64_t i = 0; i < steps; ++i) {
      after_step({loss_of(i), loader_.samples_of(state_.epoch_step), StopRequest::kNone}, seconds);
    }
    if (steps > 0) since_last.reset();
  };
  const ServerSession::Lease lease = work_with_servers(next_settling(), [&](std::span<const double> losses) {
    count(std::ssize(losses), [&](std::int64_t i) { return std::optional(losses[static_cast<std::size_t>(i)]); });
    show(progress);
  });
  count(lease.until - state_.step, [](std::int64_t) { return std::optional<double>(); });
  step_.settle();
  if (servers_->layout().colocated) comm_.barrier();  // those who have servers inside answer until all have the weights
  return static_cast<StopRequest>(lease.stop);
}

// The loader reads on while groups average: which steps of the epoch a group takes is known from its start.
void Trainer::list_own_steps() {
  const std::int64_t first_of_epoch = state_.step - state_.epoch_step;
  loader_.start_listed(state_.epoch, batches_per_step());
  for (std::int64_t step = next_own_step(); step < end_of_epoch(); step += across_->size())
    loader_.list(step - first_of_epoch);
}

// Of this group, from the next step of all on: groups take turns.
std::int64_t Trainer::next_own_step() const {
  const std::int64_t groups = across_->size();
  return state_.step + (across_->rank() - state_.step % groups + groups) % groups;
}

/// The steps from one average that all groups wait for to the next.  With update.average_late the sums of others start
/// and end in between.  They tell all groups which losses, failures and requests to stop there were before them, so
/// that all stop after the same step: that in which such a sum is used.
struct Trainer::AveragedSteps {
  static constexpr double kFailed = -1;  // as the state of a group

  std::span<double> losses_of(std::int64_t from, std::int64_t to) {
    return std::span(losses).subspan(static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - from));
  }

  std::int64_t begin = 0, until = 0;
  std::int64_t late = 0;         // of each group, between a sum's start and its use; 0: there are no such sums
  std::vector<double> losses;    // of all steps; 0 where another group took them and has not told yet
  std::array<double, 1> stop{};  // StopRequest of this group
  std::exception_ptr failed;     // this group, which takes no step any more
  /// Summed along with the weights of a late average: losses of the steps behind those that are counted, then the state
  /// of each group.
  std::vector<double> flags;
  std::int64_t flags_until = 0;  // step before which these are known; 0: no sum is under way
  Kokkos::Timer since_counted;
};

// Up to the next average that groups wait for, and that.
StopRequest Trainer::train_between_averages(Progress* progress) {
  const Activity activity("training between averages", state_.step);
  const std::int64_t groups = across_->size(), every = options_.update.average_every;
  const std::int64_t first_of_epoch = state_.step - state_.epoch_step, own = next_own_step() - state_.step;
  AveragedSteps steps;
  steps.begin = state_.step;
  steps.until = next_settling();
  steps.late = averages_always() ? 0 : options_.update.average_late;
  steps.losses.resize(static_cast<std::size_t>(steps.until - steps.begin));
  if (steps.late > 0) steps.flags.resize(static_cast<std::size_t>((every + 1) * groups));
  const std::int64_t later = steps.late * groups;
  for (std::int64_t round = steps.begin; round < steps.until; round += groups) {  // in which each group takes a step
    const std::int64_t behind = round + groups;
    if (round + own < steps.until && !steps.failed) take_own_step(steps, round + own);
    if (steps.flags_until > 0 && behind == steps.flags_until + later && use_late_average(steps, progress)) {
      steps.until = behind;
    }
    const bool is_due = (behind - first_of_epoch) / groups % every == 0;
    if (steps.late > 0 && is_due && behind + later < steps.until) start_late_average(steps, behind);
  }
  const std::span<double> rest = steps.losses_of(state_.step, steps.until);
  step_.meet(*across_, [&] {
    throw_agreed(comm_, steps.failed);
    const bool leads = comm_.rank() % (comm_.size() / static_cast<int>(groups)) == 0;
    if (!leads) std::ranges::fill(rest, 0.0);
    comm_.all_reduce_sum(rest);
    comm_.all_reduce_max(steps.stop);
  });
  step_.average_over(*across_);
  count_losses(steps, rest, progress);
  return static_cast<StopRequest>(steps.stop[0]);
}

void Trainer::take_own_step(AveragedSteps& steps, std::int64_t step) {
  listener_->begin_step(step);
  step_.go_on_at(step);
  try {
    const StepResult result = run_step(step);
    steps.losses_of(step, step + 1)[0] = result.loss.value();
    steps.stop[0] = std::max(steps.stop[0], static_cast<double>(result.stop));
  } catch (const AgreedError& error) {
    steps.failed =
        std::make_exception_ptr(AgreedError(error.kind(), fmt::format("group {}: {}", across_->rank(), error.what())));
  }
  listener_->end_step();
  result_.rates.own_steps += 1;
}

// Of the weights after the steps before `behind`.
void Trainer::start_late_average(AveragedSteps& steps, std::int64_t behind) {
  steps.flags_until = behind;
  std::ranges::fill(steps.flags, 0.0);
  std::ranges::copy(steps.losses_of(state_.step, behind), steps.flags.begin());
  const auto state = std::span(steps.flags).last(static_cast<std::size_t>(across_->size()));
  state[static_cast<std::size_t>(across_->rank())] = steps.failed ? AveragedSteps::kFailed : steps.stop[0];
  step_.start_average(*across_, steps.flags);
}

// Whether a group has failed or is to stop.
bool Trainer::use_late_average(AveragedSteps& steps, Progress* progress) {
  const std::span<const double> flags = step_.finish_average(steps.late);
  count_losses(steps, flags.first(static_cast<std::size_t>(std::exchange(steps.flags_until, 0) - state_.step)),
               progress);
  return std::ranges::any_of(flags.last(static_cast<std::size_t>(across_->size())),
                             [](double state) { return state != 0; });
}

// Of the next steps, whichever group took them.
void Trainer::count_losses(AveragedSteps& steps, std::span<const double> losses, Progress* progress) {
  const double seconds = steps.since_counted.seconds() / static_cast<double>(losses.size());
  for (const double loss : losses) {
    after_step({loss, loader_.samples_of(state_.epoch_step), StopRequest::kNone}, seconds);
  }
  steps.since_counted.reset();
  show(progress);
}

}  // namespace petaflow
