// A network by the LogGP model, and the closed form of what a message takes there.
#pragma once

#include <cstddef>

#include "simulate/loggp_network.hpp"

namespace petaflow::testing_support {

inline constexpr double kOverhead = 2e-6, kLatency = 3e-6, kByte = 1e-9, kAdded = 0.3e-9, kHandshake = 9e-6;
inline constexpr double kNodeLatency = 0.5e-6, kNodeByte = 0.2e-9;

inline LogGpOptions network_of(bool eager) {
  LogGpOptions options;
  options.overhead_s = kOverhead;
  options.latency_s = kLatency;
  options.byte_s = kByte;
  options.gap_s = 0.1e-6;
  options.node_latency_s = kNodeLatency;
  options.node_byte_s = kNodeByte;
  options.eager_bytes = eager ? std::size_t{1} << 30 : 0;
  options.handshake_s = kHandshake;
  return options;
}

/// Of a message to a rank that expects it.
inline double message_s(double bytes, bool eager) {
  return 2 * kOverhead + kLatency + bytes * kByte + (eager ? 0 : kHandshake);
}

}  // namespace petaflow::testing_support
