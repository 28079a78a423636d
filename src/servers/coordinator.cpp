#include "servers/coordinator.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"

namespace petaflow {

Coordinator::Coordinator(int groups, UpdateOrder order) : order_(order), groups_(static_cast<std::size_t>(groups)) {}

void Coordinator::open(const TicketReport& report, double now_s) {
  PETAFLOW_REQUIRE(report.from < report.until && report.done < 0, "steps {} to {} begin with step {} done", report.from,
                   report.until, report.done);
  open_ = true;
  from_ = next_ = told_ = report.from;
  until_ = report.until;
  stop_ = 0;
  losses_.clear();
  const std::int64_t count = std::ssize(groups_);
  for (std::int64_t g = 0; g < count; ++g) {
    groups_[static_cast<std::size_t>(g)] = {from_ + (g - from_ % count + count) % count, {}, false, now_s};
  }
}

std::optional<std::int64_t> Coordinator::deal(Group& group) {
  const std::int64_t ticket = order_ == UpdateOrder::kTicket ? group.next : next_;
  if (ticket >= until_) return std::nullopt;
  group.next = ticket + std::ssize(groups_);
  group.tickets.push_back(ticket);
  next_ = std::max(next_, ticket + 1);
  return ticket;
}

Coordinator::Reply Coordinator::reply(int group) {
  Reply reply{group, failure_, {}};
  if (group != 0) return reply;
  while (!losses_.empty() && losses_.front()) {
    reply.losses.push_back(*losses_.front());
    losses_.pop_front();
    told_ += 1;
  }
  reply.answer.losses = std::ssize(reply.losses);
  return reply;
}

std::vector<Coordinator::Reply> Coordinator::take(int number, const TicketReport& report, double now_s) {
  std::vector<Reply> replies;
  Group& group = groups_.at(static_cast<std::size_t>(number));
  if (report.failed != 0) {
    if (failure_.failed == 0) {
      failure_.failed = report.failed;
      failure_.text = report.text;
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].waits) replies.push_back(reply(static_cast<int>(g)));
      groups_[g].waits = false;
    }
    return replies;
  }
  if (failure_.failed != 0) return {reply(number)};
  if (!open_) open(report, now_s);
  group.reported_s = now_s;
  PETAFLOW_REQUIRE(report.from == from_, "group {} is at step {}, others at {}", number, report.from, from_);
  if (report.done >= 0) {
    const std::int64_t place = report.done - told_;
    PETAFLOW_REQUIRE(0 <= place && report.done < next_, "step {} was not dealt out", report.done);
    if (place >= std::ssize(losses_)) losses_.resize(static_cast<std::size_t>(place) + 1);
    PETAFLOW_REQUIRE(!losses_[static_cast<std::size_t>(place)], "step {} is done twice", report.done);
    losses_[static_cast<std::size_t>(place)] = report.loss;
    std::erase(group.tickets, report.done);
  }
  if (report.stop != 0 && stop_ == 0) {
    stop_ = report.stop;
    until_ = next_;  // what was dealt out is done, so that no step is left out
  }
  const std::optional<std::int64_t> ticket = report.waits != 0 ? std::nullopt : deal(group);
  if (report.waits == 0) {
    replies.push_back(reply(number));
    replies.back().answer.ticket = ticket.value_or(-1);
    return replies;
  }
  group.waits = true;
  if (!std::ranges::all_of(groups_, &Group::waits)) return {};
  open_ = false;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].waits = false;
    replies.push_back(reply(static_cast<int>(g)));
    TicketAnswer& answer = replies.back().answer;
    answer.settled = 1;
    answer.until = until_;
    answer.stop = stop_;
  }
  return replies;
}

std::optional<Coordinator::Silence> Coordinator::silence() const {
  if (!open_ || failure_.failed != 0) return std::nullopt;
  std::optional<Silence> longest;
  // Nobody waits for the gradients of a group that has no ticket.
  const auto ticket_of = [](const Silence& s) {
    return s.ticket < 0 ? std::numeric_limits<std::int64_t>::max() : s.ticket;
  };
  const auto before = [&](const Silence& a, const Silence& b) {
    if (order_ == UpdateOrder::kTicket && a.ticket != b.ticket) return ticket_of(a) < ticket_of(b);
    return a.since_s < b.since_s;
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = groups_[g];
    if (group.waits) continue;
    const Silence silence{static_cast<int>(g), group.tickets.empty() ? -1 : group.tickets.front(), group.reported_s};
    if (!longest || before(silence, *longest)) longest = silence;
  }
  return longest;
}

}  // namespace petaflow
