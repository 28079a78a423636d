// What flows use at the same time, each an equal part of it: a network interface, a bundle of cables.
// Sources: Demers, Keshav and Shenker, "Analysis and Simulation of a Fair Queueing Algorithm", SIGCOMM 1989 (the work
// that each flow has been given as a measure of time); Parekh and Gallager, "A Generalized Processor Sharing Approach
// to Flow Control in Integrated Services Networks", IEEE/ACM Transactions on Networking 1 (3), 1993.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

namespace petaflow {

class SharedResource {
 public:
  /// @param shared_efficiency  which part of the resource several flows get together
  explicit SharedResource(double shared_efficiency = 1) : shared_efficiency_(shared_efficiency) {}

  /// A flow comes that takes so many seconds where it is alone.  Times of calls never fall.
  /// @param burst_s  seconds without flows that the resource saves at most, and gives to the next flow at once: the
  ///     bucket of tokens by which links are limited to a rate (Turner, "New Directions in Communications (or Which
  ///     Way to the Information Age?)", IEEE Communications Magazine 24 (10), 1986)
  void add(double now_s, double seconds, std::uint32_t flow, double burst_s = 0) {
    if (flows_.empty()) {
      saved_s_ = std::min(burst_s, saved_s_ + now_s - now_s_);
      const double at_once_s = std::min(saved_s_, seconds);
      saved_s_ -= at_once_s;
      seconds -= at_once_s;
    }
    pass(now_s);
    flows_.emplace_back(given_s_ + seconds, flow);
    std::ranges::push_heap(flows_, std::greater<>());
    expect();
  }

  /// When the next flow is through; infinity: there is none.
  double next_s() const { return next_s_; }

  /// Takes a flow that is through at next_s(), which has come.
  std::uint32_t take() {
    now_s_ = next_s_;
    given_s_ = flows_.front().first;
    const std::uint32_t flow = flows_.front().second;
    std::ranges::pop_heap(flows_, std::greater<>());
    flows_.pop_back();
    expect();
    return flow;
  }

 private:
  /// How much longer each takes than alone.
  double slowdown() const { return flows_.size() > 1 ? static_cast<double>(flows_.size()) / shared_efficiency_ : 1.0; }
  /// Computed once for each change: rounded in another way, the time of an event would not be the one that it is due
  /// at.
  void expect() {
    next_s_ = flows_.empty() ? std::numeric_limits<double>::infinity()
                             : now_s_ + (flows_.front().first - given_s_) * slowdown();
  }
  void pass(double now_s) {
    if (flows_.empty()) {
      given_s_ = 0;
    } else {
      const double part_s = (now_s - now_s_) / slowdown();
      given_s_ = std::min(given_s_ + part_s, flows_.front().first);
    }
    now_s_ = now_s;
  }

  double shared_efficiency_;
  double now_s_ = 0, given_s_ = 0;  // given to each flow that has been here all the time
  double next_s_ = std::numeric_limits<double>::infinity();
  double saved_s_ = 0;                                   // at now_s_, of seconds without flows
  std::vector<std::pair<double, std::uint32_t>> flows_;  // with what is given then: a heap, the first through in front
};

}  // namespace petaflow
