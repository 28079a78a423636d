#include "scaling/referee.hpp"

#include <algorithm>
#include <array>

#include "comm/reduction.hpp"

namespace petaflow::scaling {
namespace {

double time_of_sums(Communicator& all, const RefereeCase& given) {
  Transport& transport = all.transport();
  const ReductionImpl* const impl = find_reduction(given.what);
  if (impl == nullptr || impl->plan == nullptr) user_error("no reduction of our own is called {}", given.what);
  Reduction<float> sum(transport, impl->plan(transport, given.elements), all.new_tag());
  constexpr int kTimes = 3;
  all.barrier();
  const double start_s = transport.now_s();
  for (int time = 0; time < kTimes; ++time) {
    sum.start(std::array<float*, 1>{nullptr});
    transport.wait([&] { return sum.advance(); }, "all-reduce");
  }
  return (transport.now_s() - start_s) / kTimes;
}

/// Layers of which one is much larger, two servers.  Times of computation differ, by the same random numbers
/// everywhere: groups that begin together would otherwise meet at the servers for ever where messages share an
/// interface, and never again where they follow each other.  Which groups meet hangs on every earlier meeting, so that
/// the order of two messages changes all later steps: means of 20 steps of eight groups differ by 20 % between six
/// seeds, those of 100 by 3.5 %.
double time_of_steps(Communicator& all, const RefereeCase& given) {
  Workload workload;
  for (const std::int64_t share : {16, 2, 1, 1}) {
    workload.stages.push_back({"layer", given.elements * share / 20, 0, 2e-3});
  }
  workload.server_element_s = 1e-10;
  const RankTimes times = run_rank(all, workload, scheme_of(given), {.step_sigma = 0.3}, 1);
  if (times.end_s.empty()) return 0;  // a server
  return (times.end_s.back() - times.start_s) / static_cast<double>(times.end_s.size());
}

}  // namespace

Scheme scheme_of(const RefereeCase& given) {
  constexpr std::int64_t kStepsOfAGroup = 100;
  return {.steps = kStepsOfAGroup * given.groups, .groups = given.groups, .servers = 2};
}

double time_of(Communicator& all, const RefereeCase& given) {
  double time_s = given.what == "servers" ? time_of_steps(all, given) : time_of_sums(all, given);
  all.all_reduce_max(std::span(&time_s, 1));
  return time_s;
}

}  // namespace petaflow::scaling
