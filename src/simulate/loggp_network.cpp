#include "simulate/loggp_network.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"

namespace petaflow {

double Exclusive::take(double now_s, double ready_s, double seconds) {
  if (seconds <= 0) return ready_s;
  std::erase_if(taken_, [&](const Taken& taken) { return taken.end_s <= now_s; });
  auto next = taken_.begin();
  double begin_s = ready_s;
  for (; next != taken_.end() && next->begin_s < begin_s + seconds; ++next) begin_s = std::max(begin_s, next->end_s);
  const double end_s = begin_s + seconds;
  if (next != taken_.begin() && std::prev(next)->end_s >= begin_s) {
    std::prev(next)->end_s = end_s;
  } else {
    taken_.insert(next, {begin_s, end_s});
  }
  return begin_s;
}

LogGpNetwork::LogGpNetwork(int ranks, const LogGpOptions& options) : options_(options) {
  PETAFLOW_REQUIRE(options.ranks_per_node > 0 && options.nics > 0, "{} ranks on a node, {} interfaces",
                   options.ranks_per_node, options.nics);
  const int nodes = (ranks + options.ranks_per_node - 1) / options.ranks_per_node;
  const int groups = options.nodes_per_group > 0 ? nodes / options.nodes_per_group + 1 : 1;
  const auto all = static_cast<std::size_t>(ranks),
             nics = static_cast<std::size_t>(nodes) * static_cast<std::size_t>(options.nics);
  sends_.resize(all);
  receives_.resize(all);
  nic_out_.resize(nics);
  nic_in_.resize(nics);
  group_out_.resize(static_cast<std::size_t>(groups));
  group_in_.resize(static_cast<std::size_t>(groups));
  pairs_.resize(static_cast<std::size_t>(groups) * static_cast<std::size_t>(groups));
}

double LogGpNetwork::arrival_s(int from, int to, std::size_t bytes, double start_s) {
  const LogGpOptions& o = options_;
  const auto size = static_cast<double>(bytes);
  const auto take = [&](std::vector<Exclusive>& resources, int index, double ready_s, double seconds) {
    return resources[static_cast<std::size_t>(index)].take(start_s, ready_s, seconds);
  };
  const int node = from / o.ranks_per_node, other = to / o.ranks_per_node;
  double time_s = start_s + (bytes > o.eager_bytes ? o.handshake_s : 0);
  if (node == other) {
    const double copy_s = o.overhead_s + size * o.node_byte_s;
    time_s = take(sends_, from, time_s, copy_s) + copy_s + o.node_latency_s;
  } else {
    const auto nic = [&](int rank) { return rank / o.ranks_per_node * o.nics + rank % o.ranks_per_node % o.nics; };
    time_s = take(sends_, from, time_s, o.overhead_s) + o.overhead_s;
    const double nic_s = std::max(o.gap_s, size * o.byte_s);
    double rest_s = size * o.byte_s;  // from its first byte to its last
    time_s = take(nic_out_, nic(from), time_s, nic_s) + o.latency_s;
    const int group = o.nodes_per_group > 0 ? node / o.nodes_per_group : 0;
    const int goal = o.nodes_per_group > 0 ? other / o.nodes_per_group : 0;
    if (group != goal) {
      const double group_s = size * o.group_byte_s, pair_s = size * o.pair_byte_s;
      time_s = take(group_out_, group, time_s, group_s);
      time_s = take(pairs_, group * static_cast<int>(group_out_.size()) + goal, time_s, pair_s) + o.group_latency_s;
      time_s = take(group_in_, goal, time_s, group_s);
      rest_s = std::max({rest_s, group_s, pair_s});
    }
    time_s = take(nic_in_, nic(to), time_s, nic_s) + rest_s;
  }
  return take(receives_, to, time_s, o.overhead_s) + o.overhead_s;
}

}  // namespace petaflow
