// Where the ranks of a run lie: hosts, threads, and the cores that they may use.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "comm/communicator.hpp"

namespace petaflow {

/// Cores and threads of one rank.
struct Binding {
  int rank = 0;
  std::string host, processor;
  std::string cores;     // that its threads may use: "0-3,8"
  int bound_cores = 0;   // their number
  int online_cores = 0;  // of the host
  int threads = 1;
  double load = 0;  // average of the host's last minute
  int running = 0;  // threads on the host that want a core at this moment, this one among them
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Binding, rank, host, processor, cores, bound_cores, online_cores, threads, load,
                                   running)

/// Binding of this process; Kokkos must be initialised.
Binding own_binding(int rank, int threads);

/// Bindings of all ranks, on rank 0; empty elsewhere.
std::vector<Binding> gather_bindings(Communicator& comm, int threads);

/// A table with a line per host; hosts that look alike share one.
std::string binding_table(const std::vector<Binding>& bindings);

/// Warnings of hosts, and of ranks, with more threads than cores, and of hosts on which other programs compute: a
/// sentence for the first, with the number of further hosts; what is wrong and what to do.
std::vector<std::string> binding_warnings(const std::vector<Binding>& bindings);

}  // namespace petaflow
