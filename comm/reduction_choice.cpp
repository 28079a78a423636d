#include "comm/reduction_choice.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.hpp"

namespace petaflow {
namespace {

const ReductionImpl& fastest(Communicator& comm, Wire wire, std::int64_t elements) {
  constexpr double kSeconds = 0.02;  // for each: a sum of 1 MB takes 0.1 ms on a node and some ms between nodes
  const ReductionImpl* best = nullptr;
  double least = 0;
  for (const ReductionImpl* impl : reduction_impls()) {
    if (!impl->why_not(comm.transport(), wire).empty()) continue;
    const double seconds = seconds_of_sum(*impl, comm, wire, elements, kSeconds);
    if (best != nullptr && seconds >= least) continue;
    best = impl;
    least = seconds;
  }
  return *best;
}

}  // namespace

const ReductionImpl& choose_reduction(const std::string& name, Communicator& comm, Wire wire, std::int64_t elements) {
  if (name == "tune") return fastest(comm, wire, elements);
  if (name != "auto") {
    const ReductionImpl* impl = find_reduction(name);
    PETAFLOW_REQUIRE(impl != nullptr, "no reduction is called {}", name);
    if (const std::string reason = impl->why_not(comm.transport(), wire); !reason.empty()) {
      user_error("comm.reduction = \"{}\" cannot be used here: {}; set it to \"auto\"", name, reason);
    }
    return *impl;
  }
  // Vendors' libraries know networks that petaflow does not.  On a node Open MPI 4.1 takes 1.3 to 4.9 times as
  // long from 256 kB on (two ranks of a Zen 5; perf/README.md, Sums over ranks).
  const bool one_node = comm.node_size() == comm.size();
  const ReductionImpl& mpi = *find_reduction("mpi");
  if (!one_node && mpi.why_not(comm.transport(), wire).empty()) return mpi;
  // Elements below which the number of messages decides, not their size: 16 kB, where `doubling` is as fast as MPI's
  // own sum and from where on it is slower than the others (same table; not measured between 16 and 64 kB).
  constexpr std::int64_t kShort = 4096;
  if (elements < kShort) return *find_reduction("doubling");
  return *find_reduction(one_node ? "two_level" : "halving");
}

Reduction<float> make_reduction(const ReductionImpl& impl, Communicator& comm, Tag tag, Wire wire,
                                std::int64_t elements) {
  Transport& transport = comm.transport();
  if (impl.plan == nullptr) return Reduction<float>(transport, elements);
  return {transport, impl.plan(transport, elements), tag, ReduceOp::kSum, wire};
}

double seconds_of_sum(const ReductionImpl& impl, Communicator& comm, Wire wire, std::int64_t elements, double seconds) {
  Transport& transport = comm.transport();
  Reduction<float> sum = make_reduction(impl, comm, Communicator::kWaitingTag, wire, elements);
  std::vector<float> values(static_cast<std::size_t>(elements), 1.0F);
  std::vector<double> times;
  double spent = 0;
  for (int time = 0; time < 4 || spent < seconds; ++time) {
    comm.barrier();
    const double start_s = transport.now_s();
    sum.start(std::array{values.data()});
    transport.wait([&] { return sum.advance(); }, "all-reduce");
    double took = transport.now_s() - start_s;
    comm.all_reduce_max(std::span(&took, 1));
    spent += took;
    if (time > 0) times.push_back(took);  // the first finds memory that was never touched
    std::ranges::fill(values, 1.0F);
    if (spent == 0 && time > 4) break;  // one rank, or no time passes
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace petaflow
