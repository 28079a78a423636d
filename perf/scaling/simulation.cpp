#include "scaling/simulation.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "simulate/virtual_world.hpp"

namespace petaflow::scaling {
namespace {

VirtualOptions options_of(const Machine& machine) {
  VirtualOptions options;
  options.eager_bytes = machine.network.eager_bytes;
  options.ranks_per_node = machine.network.ranks_per_node;
  // Ranks of a node follow each other, so that their state is in the caches: 27,360 ranks take 0.88 of the time.
  options.seed = std::nullopt;
  options.byte_added_s = machine.byte_added_s;
  return options;
}

/// Throws a user error where a group makes so few steps that none counts.
void check_steps(std::int64_t steps, std::int64_t skip) {
  if (steps > skip) return;
  user_error("a group makes {} steps, of which the first {} do not count; set more --steps", steps, skip);
}

/// Throws a user error where so many ranks cannot train by this scheme.
void check(int ranks, const Scheme& scheme) {
  const int workers = layout_of(ranks, scheme).workers;
  if (workers < scheme.groups || workers % scheme.groups != 0) {
    user_error("{} workers cannot be divided into {} groups of the same size; set --ranks to {}", workers,
               scheme.groups, std::max(1, workers / scheme.groups) * scheme.groups + ranks - workers);
  }
  if (scheme.colocate_servers && (scheme.servers == 0 || scheme.servers > workers)) {
    user_error("{} servers are to be inside {} workers, one in each; set --servers to 1 to {}", scheme.servers, workers,
               workers);
  }
  if (scheme.servers > 0 && (scheme.sharded || scheme.average_every > 0 || scheme.lag > 0)) {
    user_error("--sharded, --average-every and --lag are of runs without servers; set --servers to 0");
  }
  if (scheme.groups > 1 && scheme.servers == 0 && scheme.average_every == 0) {
    user_error("{} groups have neither servers nor averages; set --servers, or --average-every", scheme.groups);
  }
  if (scheme.average_late > 0 && scheme.average_every == 0) {
    user_error("--average-late is {}, but there are no averages; set --average-every", scheme.average_late);
  }
  if (scheme.average_late > scheme.average_every) {
    user_error("--average-late is {}, but the next average begins after --average-every {}; set it to {} or less",
               scheme.average_late, scheme.average_every, scheme.average_every);
  }
  if (scheme.sharded && scheme.reduction != "auto" && scheme.reduction != "halving" && scheme.reduction != "tree") {
    user_error("--sharded sums along a tree; set --reduction to auto, halving or tree");
  }
}

}  // namespace

double simulate_case(int ranks, const Machine& machine, const RefereeCase& given) {
  if (given.what == "servers") check(ranks, scheme_of(given));
  LogGpNetwork network(ranks, machine.network);
  VirtualWorld world(ranks, network, options_of(machine));
  double time_s = 0;
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator all(std::move(transport));
    const double mine_s = time_of(all, given);
    if (all.rank() == 0) time_s = mine_s;
  });
  return time_s;
}

Outcome simulate(int ranks, const Machine& machine, const Workload& workload, const Scheme& scheme, std::uint64_t seed,
                 std::int64_t skip) {
  check(ranks, scheme);
  const auto layers =
      std::ranges::count_if(workload.stages, [](const StageTimes& stage) { return stage.elements > 0; });
  if (scheme.servers > layers) {
    user_error(
        "{} servers, but the workload has {} layers with weights, each of which one server keeps; set --servers to "
        "{} or less",
        scheme.servers, layers, layers);
  }
  check_steps(scheme.steps / scheme.groups, skip);  // which servers deal out one by one: some groups make fewer
  const int workers = layout_of(ranks, scheme).workers;
  const auto start = std::chrono::steady_clock::now();
  LogGpNetwork network(ranks, machine.network);
  VirtualWorld world(ranks, network, options_of(machine));
  std::vector<RankTimes> times(static_cast<std::size_t>(workers));
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator all(std::move(transport));
    const int rank = all.rank();
    RankTimes mine = run_rank(all, workload, scheme, machine.noise, seed);
    if (rank < workers) times[static_cast<std::size_t>(rank)] = std::move(mine);
  });
  PETAFLOW_REQUIRE(world.messages_left() == 0, "{} messages were never received", world.messages_left());

  Outcome outcome;
  const std::size_t members = static_cast<std::size_t>(workers / scheme.groups);
  double slowest_steps = 0;
  for (std::size_t leader = 0; leader < times.size(); leader += members) {
    const auto steps = static_cast<std::int64_t>(times[leader].end_s.size());
    check_steps(steps, skip);
    const auto counted = static_cast<double>(steps - skip);
    const auto s = static_cast<std::size_t>(skip);
    const double begin_s = skip == 0 ? times[leader].start_s : times[leader].end_s[s - 1];
    outcome.updates_per_s += counted / (times[leader].end_s.back() - begin_s);
    for (std::size_t step = s; step < times[leader].end_s.size(); ++step) {
      double slowest_s = 0;
      for (std::size_t rank = leader; rank < leader + members; ++rank) {
        slowest_s = std::max(slowest_s, times[rank].compute_s[step]);
        outcome.compute_s += times[rank].compute_s[step] / static_cast<double>(members);
      }
      outcome.slowest_s += slowest_s;
      slowest_steps += 1;
    }
  }
  outcome.compute_s /= slowest_steps;
  outcome.slowest_s /= slowest_steps;
  outcome.step_s = scheme.groups / outcome.updates_per_s;
  outcome.messages = world.messages();
  outcome.virtual_s = world.now_s();
  outcome.real_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  outcome.resident_mb = static_cast<double>(usage.ru_maxrss) / 1024;
  return outcome;
}

}  // namespace petaflow::scaling
