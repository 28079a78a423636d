// The training loop where groups of ranks work at steps of their own: between two moments at which all of them have the
// same weights, with parameter servers or with averages.
#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <optional>

#include "base/activity.hpp"
#include "comm/agree.hpp"
#include "train/trainer.hpp"

namespace petaflow {

// Step at which all ranks have the same weights: the end of the epoch or of the run, before these a checkpoint, or
// where groups average.
std::int64_t Trainer::next_settling() const {
  const std::int64_t first_of_epoch = state_.step - state_.epoch_step;
  const std::int64_t end = std::min(total_steps_, first_of_epoch + steps_per_epoch());
  const auto next = [&](std::int64_t from, std::int64_t interval) {
    return from + ((state_.step - from) / interval + 1) * interval;
  };
  if (across_ != nullptr) return std::min(end, next(first_of_epoch, options_.average_every * across_->size()));
  const std::int64_t interval = options_.checkpoint_interval;
  return interval > 0 ? std::min(end, next(0, interval)) : end;
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
  const std::int64_t end = std::min(total_steps_, first_of_epoch + steps_per_epoch());
  loader_.start_listed(state_.epoch, batches_per_step());
  for (std::int64_t step = next_own_step(); step < end; step += across_->size()) loader_.list(step - first_of_epoch);
}

// Of this group, from the next step of all on: groups take turns.
std::int64_t Trainer::next_own_step() const {
  const std::int64_t groups = across_->size();
  return state_.step + (across_->rank() - state_.step % groups + groups) % groups;
}

// Each group's own steps up to the next average, and that.
StopRequest Trainer::train_between_averages(Progress* progress) {
  const Activity activity("training between averages", state_.step);
  const Kokkos::Timer timer;
  const std::int64_t until = next_settling(), first = next_own_step();
  const std::int64_t groups = across_->size(), group = across_->rank();
  const bool leads = comm_.rank() % (comm_.size() / groups) == 0;
  std::vector<double> losses(static_cast<std::size_t>(until - state_.step));
  std::array<double, 1> stop{};
  std::exception_ptr failed;
  for (std::int64_t step = first; step < until && !failed; step += groups) {
    listener_->begin_step(step);
    step_.go_on_at(step);
    try {
      const StepResult result = run_step(step);
      if (leads) losses[static_cast<std::size_t>(step - state_.step)] = result.loss.value();
      stop[0] = std::max(stop[0], static_cast<double>(result.stop));
    } catch (const AgreedError& error) {
      failed = std::make_exception_ptr(AgreedError(error.kind(), fmt::format("group {}: {}", group, error.what())));
    }
    listener_->end_step();
    result_.rates.own_steps += 1;
  }
  throw_agreed(comm_, failed);
  comm_.all_reduce_sum(losses);
  comm_.all_reduce_max(stop);
  step_.average_over(*across_);
  const double seconds = timer.seconds() / static_cast<double>(losses.size());
  for (const double loss : losses) {
    after_step({loss, loader_.samples_of(state_.epoch_step), StopRequest::kNone}, seconds);
  }
  show(progress);
  return static_cast<StopRequest>(stop[0]);
}

}  // namespace petaflow
