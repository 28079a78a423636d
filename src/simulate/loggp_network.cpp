#include "simulate/loggp_network.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace petaflow {
namespace {

/// One after the other: the end of what takes so long, and can begin at ready_s.
double follow(double& free_s, double ready_s, double seconds) {
  free_s = std::max(free_s, ready_s) + seconds;
  return free_s;
}

}  // namespace

LogGpNetwork::LogGpNetwork(int ranks, const LogGpOptions& options) : options_(options) {
  PETAFLOW_REQUIRE(options.ranks_per_node > 0 && options.nics > 0, "{} ranks on a node, {} interfaces",
                   options.ranks_per_node, options.nics);
  const int nodes = (ranks + options.ranks_per_node - 1) / options.ranks_per_node;
  if (options.nodes_per_group > 0) groups_ = static_cast<std::size_t>(nodes / options.nodes_per_group) + 1;
  nics_ = static_cast<std::size_t>(nodes) * static_cast<std::size_t>(options.nics);
  narrowest_byte_s_ = std::max({options.byte_s, options.group_byte_s, options.pair_byte_s});
  sends_s_.resize(static_cast<std::size_t>(ranks));
  receives_s_.resize(static_cast<std::size_t>(ranks));
  out_s_.resize(nics_);
  in_s_.resize(nics_);
  resources_.resize(2 * nics_ + 2 * groups_ + (options.pair_byte_s > 0 ? groups_ * groups_ : 0),
                    Resource{SharedResource(options.shared_efficiency)});
}

int LogGpNetwork::nic_of(int rank) const {
  const LogGpOptions& o = options_;
  return rank / o.ranks_per_node * o.nics + rank % o.ranks_per_node % o.nics;
}
int LogGpNetwork::group_of(int rank) const {
  return options_.nodes_per_group > 0 ? rank / options_.ranks_per_node / options_.nodes_per_group : 0;
}

void LogGpNetwork::send(Number message, int from, int to, std::size_t bytes, double start_s) {
  const LogGpOptions& o = options_;
  const auto size = static_cast<double>(bytes);
  if (message >= flows_.size()) flows_.resize(message + 1);
  flows_[message] = {from, to, size, 0, Stage::kComing, size * narrowest_byte_s_ <= o.gap_s};
  double& processor_s = sends_s_[static_cast<std::size_t>(from)];
  const double handshake_s = bytes > o.eager_bytes ? o.handshake_s : 0;
  if (from / o.ranks_per_node == to / o.ranks_per_node) {
    const double copied_s = follow(processor_s, start_s, o.overhead_s + size * o.node_byte_s);
    reach(copied_s + handshake_s + o.node_latency_s, message, Stage::kThrough);
    return;
  }
  double time_s = follow(processor_s, start_s, o.overhead_s);
  if (flows_[message].is_short) {
    time_s = follow(out_s_[static_cast<std::size_t>(nic_of(from))], time_s, o.gap_s) - o.gap_s;
  }
  const double group_s = group_of(from) == group_of(to) ? 0 : o.group_latency_s;
  reach(time_s + handshake_s + o.latency_s + group_s, message, Stage::kComing);
}

double LogGpNetwork::next_s() const {
  return events_.empty() ? std::numeric_limits<double>::infinity() : events_.top().time_s;
}

std::optional<NetworkModel::Number> LogGpNetwork::advance() {
  const Event event = events_.top();
  events_.pop();
  if (event.of_resource) {
    Resource& resource = resources_[event.number];
    if (resource.event_s != event.time_s) return {};
    resource.event_s = std::numeric_limits<double>::infinity();
    while (resource.shared.next_s() <= event.time_s) {
      const Number message = resource.shared.take();
      if (--flows_[message].resources > 0) continue;
      receive(event.time_s, message);
      let_next_pass(event.time_s, flows_[message]);
    }
    expect(event.number);
    return {};
  }
  switch (flows_[event.number].stage) {
    case Stage::kComing:
      share(event.time_s, event.number);
      return {};
    case Stage::kThrough:
      receive(event.time_s, event.number);
      return {};
    case Stage::kArriving:
      break;
  }
  return event.number;
}

void LogGpNetwork::reach(double time_s, Number message, Stage stage) {
  flows_[message].stage = stage;
  events_.push({time_s, message, false, events_made_++});
}

/// The message is at its interfaces and cables, or behind those of its connection.
void LogGpNetwork::share(double now_s, Number message) {
  const Flow& flow = flows_[message];
  if (options_.in_order && !flow.is_short) {
    std::deque<Number>& connection = connections_[{flow.from, flow.to}];
    connection.push_back(message);
    if (connection.size() > 1) return;
  }
  pass(now_s, message);
}

void LogGpNetwork::let_next_pass(double now_s, const Flow& flow) {
  if (!options_.in_order) return;
  std::deque<Number>& connection = connections_[{flow.from, flow.to}];
  connection.pop_front();
  if (!connection.empty()) pass(now_s, connection.front());
}

void LogGpNetwork::pass(double now_s, Number message) {
  const Flow& flow = flows_[message];
  const auto out = static_cast<std::size_t>(nic_of(flow.from)), in = static_cast<std::size_t>(nic_of(flow.to));
  if (flow.is_short) {
    receive(follow(in_s_[in], now_s, options_.gap_s) - options_.gap_s + flow.bytes * narrowest_byte_s_, message);
    return;
  }
  enter(now_s, message, out, options_.byte_s);
  enter(now_s, message, nics_ + in, options_.byte_s);
  const auto group = static_cast<std::size_t>(group_of(flow.from)), goal = static_cast<std::size_t>(group_of(flow.to));
  if (group != goal) {
    enter(now_s, message, 2 * nics_ + group, options_.group_byte_s);
    enter(now_s, message, 2 * nics_ + groups_ + goal, options_.group_byte_s);
    enter(now_s, message, 2 * (nics_ + groups_) + group * groups_ + goal, options_.pair_byte_s);
  }
  if (flow.resources > 0) return;
  receive(now_s, message);
  let_next_pass(now_s, flow);
}

void LogGpNetwork::enter(double now_s, Number message, std::size_t resource, double byte_s) {
  if (byte_s <= 0) return;
  flows_[message].resources += 1;
  const double burst_s = resource < 2 * nics_ ? options_.burst_bytes * byte_s : 0;
  resources_[resource].shared.add(now_s, flows_[message].bytes * byte_s, message, burst_s);
  expect(resource);
}

/// Sees to it that an event of the resource comes when its next flow is through; one that comes too soon, as other
/// flows have come meanwhile, calls this again.
void LogGpNetwork::expect(std::size_t resource) {
  Resource& expected = resources_[resource];
  const double time_s = expected.shared.next_s();
  if (time_s >= expected.event_s) return;
  expected.event_s = time_s;
  events_.push({time_s, static_cast<std::uint32_t>(resource), true, events_made_++});
}

/// All of it is there at time_s, for the receiver's processor.
void LogGpNetwork::receive(double time_s, Number message) {
  double& processor_s = receives_s_[static_cast<std::size_t>(flows_[message].to)];
  reach(follow(processor_s, time_s, options_.overhead_s), message, Stage::kArriving);
}

}  // namespace petaflow
