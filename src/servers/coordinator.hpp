// Deals the steps of a run out to groups of workers, so that each is worked through once whatever the groups' speeds:
// a state machine, without messages or a clock of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "servers/protocol.hpp"
#include "servers/served_layer.hpp"

namespace petaflow {

/// By arrival a group that asks gets the next step of all; by ticket group g of G gets steps g, g + G, g + 2 G, ...
/// A group has up to two tickets at a time, so that the samples of the second are read while it works on the first.
class Coordinator {
 public:
  Coordinator(int groups, UpdateOrder order);

  struct Reply {
    int group = 0;
    TicketAnswer answer;
    std::vector<double> losses;  // to group 0 alone
  };
  /// Takes a report; gives what can be answered now: that group, or where it waits none, or all of them once all wait.
  /// @param now_s  of any clock
  std::vector<Reply> take(int group, const TicketReport& report, double now_s = 0);

  /// A group that is to report before all settle.
  struct Silence {
    int group = 0;
    std::int64_t ticket = -1;  // the first that it has; none: it has done what it had
    double since_s = 0;        // of its last report
  };
  /// Of the group for which the others wait longest: by ticket the one that has the first ticket, by arrival the one
  /// whose last report is the oldest.  None: all have settled, or a group failed.
  std::optional<Silence> silence() const;

 private:
  struct Group {
    std::int64_t next = 0;              // UpdateOrder::kTicket: its next ticket
    std::vector<std::int64_t> tickets;  // that it has
    bool waits = false;                 // until all settle
    double reported_s = 0;
  };
  void open(const TicketReport& report, double now_s);
  std::optional<std::int64_t> deal(Group& group);
  Reply reply(int group);

  UpdateOrder order_;
  std::vector<Group> groups_;
  bool open_ = false;
  std::int64_t from_ = 0, until_ = 0;  // what is dealt out now
  std::int64_t next_ = 0;              // behind the last ticket of any group
  std::int32_t stop_ = 0;
  TicketAnswer failure_;                      // as all get it
  std::int64_t told_ = 0;                     // losses before this ticket are told
  std::deque<std::optional<double>> losses_;  // of tickets from told_ on
};

}  // namespace petaflow
