// A slower network and slower ranks than there are, or broken ones: tries schemes of training on one machine.
#pragma once

#include <cstdint>
#include <memory>

#include "comm/transport.hpp"

namespace petaflow {

struct DelayOptions {
  double latency_ms = 0;        // of every message
  double bandwidth_mb_s = 0;    // 1e6 bytes/s that a rank sends, one message after the other; 0: no limit
  double jitter = 0;            // sigma of a log-normal factor of the latency
  std::int64_t slow_rank = -1;  // computes slow_factor times as long; -1: none
  double slow_factor = 1;
  /// Sigma of a log-normal factor of mean 1 of the time of every piece of computation; a factor below 1 does nothing.
  double straggle = 0;
  double drop = 0;              // probability that a message never arrives
  std::int64_t kill_rank = -1;  // dies where it first computes or waits after kill_s; -1: none
  double kill_s = 0;
  std::int64_t seed = 1;

  bool any() const {
    return latency_ms > 0 || bandwidth_mb_s > 0 || straggle > 0 || (slow_rank >= 0 && slow_factor > 1) || drop > 0 ||
           kill_rank >= 0;
  }
};

/// Messages of `inner`, each of which arrives no sooner than after latency + bytes / bandwidth behind the sender's
/// messages before it.  work() waits for as long as a rank is slower.  Ranks must share a clock, that of one machine:
/// throws a user error where they do not.
std::unique_ptr<Transport> make_delayed_transport(std::unique_ptr<Transport> inner, const DelayOptions& options);

}  // namespace petaflow
