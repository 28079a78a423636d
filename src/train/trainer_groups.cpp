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

// The steps that this group gets of those up to the next settling, when all ranks have the same weights again.
StopRequest Trainer::train_with_servers(Progress* progress) {
  const Activity activity("training with servers", state_.step);
  const std::int64_t first_of_epoch = state_.step - state_.epoch_step;
  TicketReport report{.from = state_.step, .until = next_settling()};
  ServerSession::Lease lease;
  std::deque<std::int64_t> tickets;
  // No group goes on, and changes weights, before all have those that they settled on.
  comm_.barrier();
  Kokkos::Timer since_last;
  // A step of any group is counted when its loss is known: on rank 0 soon, on the others when all settle.
  const auto count = [&](std::int64_t steps, const auto& loss_of) {
    const double seconds = since_last.seconds() / static_cast<double>(std::max<std::int64_t>(steps, 1));
    for (std::int64_t i = 0; i < steps; ++i) {
      after_step({loss_of(i), loader_.samples_of(state_.epoch_step), StopRequest::kNone}, seconds);
    }
    if (steps > 0) since_last.reset();
  };
  const auto exchange = [&] {
    lease = servers_->report(report);
    if (lease.ticket) {
      loader_.list(*lease.ticket - first_of_epoch);
      tickets.push_back(*lease.ticket);
    }
    count(std::ssize(lease.losses),
          [&](std::int64_t i) { return std::optional(lease.losses[static_cast<std::size_t>(i)]); });
    if (!lease.losses.empty()) show(progress);
  };

  loader_.start_listed(state_.epoch, batches_per_step());
  exchange();
  if (lease.ticket) exchange();  // one more, whose samples are read during the first
  while (!lease.settled) {
    const std::int64_t ticket = tickets.front();
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
  count(lease.until - state_.step, [](std::int64_t) { return std::optional<double>(); });
  step_.settle();
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

// Each group's own steps up to the next average that it waits for, and that.  With update.average_late the sums of
// others start and end in between.  They tell all groups which losses, failures and requests to stop there were before
// them, so that all stop after the same step: that in which such a sum is used.
StopRequest Trainer::train_between_averages(Progress* progress) {
  const Activity activity("training between averages", state_.step);
  Kokkos::Timer timer;
  const std::int64_t begin = state_.step, first_of_epoch = begin - state_.epoch_step, own = next_own_step() - begin;
  const std::int64_t groups = across_->size(), group = across_->rank();
  const std::int64_t every = options_.update.average_every;
  const std::int64_t late = averages_always() ? 0 : options_.update.average_late;
  const bool leads = comm_.rank() % (comm_.size() / groups) == 0;
  std::int64_t until = next_settling();
  std::vector<double> losses(static_cast<std::size_t>(until - begin));
  std::array<double, 1> stop{};
  std::exception_ptr failed;
  const auto losses_of = [&](std::int64_t from, std::int64_t to) {
    return std::span(losses).subspan(static_cast<std::size_t>(from - begin), static_cast<std::size_t>(to - from));
  };
  const auto count = [&](std::span<const double> known) {
    const double seconds = timer.seconds() / static_cast<double>(known.size());
    for (const double loss : known) {
      after_step({loss, loader_.samples_of(state_.epoch_step), StopRequest::kNone}, seconds);
    }
    timer.reset();
    show(progress);
  };
  // What a late sum tells: losses of the steps behind those that are counted, then the state of each group.
  constexpr double kFailed = -1;
  std::vector<double> told(static_cast<std::size_t>(late > 0 ? (every + 1) * groups : 0));
  std::int64_t told_until = 0;                                        // step; 0: no sum is under way
  for (std::int64_t round = begin; round < until; round += groups) {  // in which each group takes a step
    const std::int64_t step = round + own, behind = round + groups;
    if (step < until && !failed) {
      listener_->begin_step(step);
      step_.go_on_at(step);
      try {
        const StepResult result = run_step(step);
        losses_of(step, step + 1)[0] = result.loss.value();
        stop[0] = std::max(stop[0], static_cast<double>(result.stop));
      } catch (const AgreedError& error) {
        failed = std::make_exception_ptr(AgreedError(error.kind(), fmt::format("group {}: {}", group, error.what())));
      }
      listener_->end_step();
      result_.rates.own_steps += 1;
    }
    if (told_until > 0 && behind - told_until == late * groups) {
      const std::span<const double> all = step_.finish_average(late);
      count(all.first(static_cast<std::size_t>(std::exchange(told_until, 0) - state_.step)));
      const bool over =
          std::ranges::any_of(all.last(static_cast<std::size_t>(groups)), [](double s) { return s != 0; });
      if (over) until = behind;
    }
    if (late == 0 || (behind - first_of_epoch) / groups % every != 0 || behind + late * groups >= until) continue;
    told_until = behind;
    std::ranges::fill(told, 0.0);
    std::ranges::copy(losses_of(state_.step, behind), told.begin());
    told[told.size() - static_cast<std::size_t>(groups - group)] = failed ? kFailed : stop[0];
    step_.start_average(*across_, told);
  }
  throw_agreed(comm_, failed);
  const std::span<double> rest = losses_of(state_.step, until);
  if (!leads) std::ranges::fill(rest, 0.0);
  comm_.all_reduce_sum(rest);
  comm_.all_reduce_max(stop);
  step_.average_over(*across_);
  count(rest);
  return static_cast<StopRequest>(stop[0]);
}

}  // namespace petaflow
