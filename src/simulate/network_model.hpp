// Times of messages between virtual ranks: an arrival is known when it happens, as messages that come later may delay
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <tuple>
#include <vector>

namespace petaflow {

class NetworkModel {
 public:
  /// Small numbers, each of one message until it has arrived.
  using Number = std::uint32_t;

  virtual ~NetworkModel() = default;
  /// A message leaves rank `from` at start_s, which is not below that of an earlier call, nor above next_s().
  virtual void send(Number message, int from, int to, std::size_t bytes, double start_s) = 0;
  /// When something happens next; infinity: nothing is under way.
  virtual double next_s() const = 0;
  /// Lets it happen.  The message that has arrived thereby, if one has.
  virtual std::optional<Number> advance() = 0;
};

/// Messages that do not delay those that were sent before them.
class FixedArrivals : public NetworkModel {
 public:
  /// When a message that leaves rank `from` at start_s has arrived at rank `to`.
  virtual double arrival_s(int from, int to, std::size_t bytes, double start_s) = 0;

  void send(Number message, int from, int to, std::size_t bytes, double start_s) final {
    arrivals_.push({arrival_s(from, to, bytes, start_s), count_++, message});
  }
  double next_s() const final {
    return arrivals_.empty() ? std::numeric_limits<double>::infinity() : arrivals_.top().time_s;
  }
  std::optional<Number> advance() final {
    const Number message = arrivals_.top().message;
    arrivals_.pop();
    return message;
  }

 private:
  struct Arrival {
    double time_s;
    std::uint64_t count;
    Number message;
    bool operator>(const Arrival& o) const { return std::tie(time_s, count) > std::tie(o.time_s, o.count); }
  };
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::uint64_t count_ = 0;  // of messages
};

}  // namespace petaflow
