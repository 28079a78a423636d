// A network of nodes: messages take the time of the LogGP model, wait for each other where they need the same
// processor, and share network interfaces and the cables between groups of nodes. Sources: Alexandrov, Ionescu,
// Schauser and Scheiman, "LogGP: Incorporating Long Messages into the LogP Model", SPAA 1995; Kim, Dally, Scott and
// Abts, "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008 (groups).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "simulate/network_model.hpp"
#include "simulate/shared_resource.hpp"

namespace petaflow {

/// Seconds, and seconds for each byte.
struct LogGpOptions {
  int ranks_per_node = 1;
  double overhead_s = 0;   // o: of a processor, for every message that it sends and for every one that it receives
  double latency_s = 0;    // L: from one network interface to another
  double gap_s = 0;        // g: between the beginnings of two short messages at an interface, at least
  double byte_s = 0;       // G: of an interface
  double burst_bytes = 0;  // of an interface's token bucket: after t idle seconds min(burst_bytes, t / G) pass at once
  // Share of an interface or of cables that messages get together where there are several: connections that control
  // congestion by themselves do not fill it.
  double shared_efficiency = 1;
  int nics = 1;  // of a node; ranks take turns
  // Within a node: every rank copies by itself.
  double node_latency_s = 0, node_byte_s = 0;
  // Nodes in groups; 0: all in one.  What leaves or enters a group shares its cables.
  int nodes_per_group = 0;
  double group_latency_s = 0;  // further latency of a message between groups
  double group_byte_s = 0;     // of all cables of a group together, where routes adapt to load
  double pair_byte_s = 0;      // of the cables from one group to another, where routes are the shortest
  bool in_order = false;       // long messages of one rank to another follow each other, as in a TCP connection
  std::size_t eager_bytes = 0;
  double handshake_s = 0;  // of larger messages, once both sides are there
};

/// A message takes its sender's processor, the latency, then goes through all of its interfaces and cables at the same
/// time, like water through pipes, so that the narrowest one decides; at last it takes its receiver's processor.
/// Processors do one thing after the other.  Interfaces and cables give messages equal parts, each for itself: what a
/// message does not use of its part, because another one is narrower, others get when it is through here.  Messages
/// that pass an interface within the gap do not share it; they keep the gap from each other.
class LogGpNetwork final : public NetworkModel {
 public:
  LogGpNetwork(int ranks, const LogGpOptions& options);
  void send(Number message, int from, int to, std::size_t bytes, double start_s) override;
  double next_s() const override;
  std::optional<Number> advance() override;

 private:
  enum class Stage : std::uint8_t { kComing, kThrough, kArriving };
  struct Flow {
    int from, to;
    double bytes;
    int resources;  // that it is not through
    Stage stage;
    bool is_short;
  };
  struct Resource {
    SharedResource shared;
    double event_s = std::numeric_limits<double>::infinity();  // the event that is pending
  };
  /// A message reaches its stage, or a resource lets one through; not where another event of it is pending.  Those of
  /// the same time follow each other as they were made.
  struct Event {
    double time_s;
    std::uint32_t number;
    bool of_resource;
    std::uint64_t count;
    bool operator>(const Event& o) const { return std::tie(time_s, count) > std::tie(o.time_s, o.count); }
  };
  int nic_of(int rank) const;
  int group_of(int rank) const;
  void reach(double time_s, Number message, Stage stage);
  void share(double now_s, Number message);
  void pass(double now_s, Number message);
  void let_next_pass(double now_s, const Flow& flow);
  void enter(double now_s, Number message, std::size_t resource, double byte_s);
  void expect(std::size_t resource);
  void receive(double time_s, Number message);

  LogGpOptions options_;
  double narrowest_byte_s_ = 0;
  std::size_t nics_ = 0, groups_ = 1;
  std::vector<double> sends_s_, receives_s_;  // when the processors of each rank are free
  std::vector<double> out_s_, in_s_;          // when each interface takes another short message
  std::vector<Resource> resources_;           // interfaces out and in, cables out of groups, into them, of each two
  std::vector<Flow> flows_;                   // by number of the message
  std::map<std::pair<int, int>, std::deque<Number>>
      connections_;  // with in_order: the message under way and later ones
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t events_made_ = 0;
};

}  // namespace petaflow
