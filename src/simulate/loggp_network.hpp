// A network of nodes: messages take the time of the LogGP model, and wait for each other where they need the same
// processor, the same network interface, or the same cables between groups of nodes.
// Sources: Alexandrov, Ionescu, Schauser and Scheiman, "LogGP: Incorporating Long Messages into the LogP Model", SPAA
// 1995; Kim, Dally, Scott and Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008 (groups).
#pragma once

#include <cstddef>
#include <vector>

#include "simulate/virtual_world.hpp"

namespace petaflow {

/// Seconds, and seconds for each byte.
struct LogGpOptions {
  int ranks_per_node = 1;
  double overhead_s = 0;  // o: of a processor, for every message that it sends and for every one that it receives
  double latency_s = 0;   // L: from one network interface to another
  double gap_s = 0;       // g: between the beginnings of two messages at an interface, at least
  double byte_s = 0;      // G: of an interface
  int nics = 1;           // of a node; ranks take turns
  // Within a node: every rank copies by itself.
  double node_latency_s = 0, node_byte_s = 0;
  // Nodes in groups; 0: all in one.  What leaves or enters a group shares its cables.
  int nodes_per_group = 0;
  double group_latency_s = 0;  // further latency of a message between groups
  double group_byte_s = 0;     // of all cables of a group together, where routes adapt to load
  double pair_byte_s = 0;      // of the cables from one group to another, where routes are the shortest
  std::size_t eager_bytes = 0;
  double handshake_s = 0;  // of larger messages, once both sides are there
};

/// What one message at a time takes: a processor, an interface, a cable.
class Exclusive {
 public:
  /// Takes the first time that is free for so long, from ready_s on; its begin.
  /// @param now_s  never less than before: what is over by then is forgotten
  double take(double now_s, double ready_s, double seconds);

 private:
  struct Taken {
    double begin_s, end_s;
  };
  std::vector<Taken> taken_;  // rising, with gaps between
};

/// Messages take resources in the order in which they start (in virtual time), and those that come sooner than one
/// before them use the time until then.  A message goes through all of its resources at the same time, like water
/// through pipes, so that the narrowest one decides.
class LogGpNetwork final : public NetworkModel {
 public:
  LogGpNetwork(int ranks, const LogGpOptions& options);
  double arrival_s(int from, int to, std::size_t bytes, double start_s) override;

 private:
  LogGpOptions options_;
  std::vector<Exclusive> sends_, receives_;      // of each rank
  std::vector<Exclusive> nic_out_, nic_in_;      // by node and interface
  std::vector<Exclusive> group_out_, group_in_;  // of each group
  std::vector<Exclusive> pairs_;                 // of each two groups
};

}  // namespace petaflow
