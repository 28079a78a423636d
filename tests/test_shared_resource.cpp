// Flows that share a resource in equal parts, against a simulation event by event.
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "simulate/shared_resource.hpp"

namespace petaflow {
namespace {

class SharedResourceTest : public testing::TestWithParam<double> {};

TEST_P(SharedResourceTest, GivesEachFlowItsPart) {
  RandomSequence random(random_stream(5, RandomPurpose::kGenerate), 0);
  constexpr std::size_t kFlows = 500;
  std::vector<double> comes_s(kFlows), left_s(kFlows), expected_s(kFlows);
  double time_s = 0;
  for (std::size_t flow = 0; flow < kFlows; ++flow) {
    time_s += flow % 50 == 49 ? 100 : random.exponential();  // sometimes it is idle between
    comes_s[flow] = time_s;
    left_s[flow] = 1.1 * random.exponential();
  }
  SharedResource resource(GetParam());
  std::vector<double> through_s(kFlows);
  for (std::size_t next = 0; next < kFlows || resource.next_s() < INFINITY;) {
    if (next < kFlows && comes_s[next] < resource.next_s()) {
      resource.add(comes_s[next], left_s[next], static_cast<std::uint32_t>(next));
      next += 1;
    } else {
      const double now_s = resource.next_s();
      through_s[resource.take()] = now_s;
    }
  }
  std::vector<std::size_t> here;
  double now_s = 0;
  for (std::size_t next = 0; next < kFlows || !here.empty();) {
    std::size_t first = 0;
    for (std::size_t i = 1; i < here.size(); ++i) {
      if (left_s[here[i]] < left_s[here[first]]) first = i;
    }
    const double flows = here.size() > 1 ? static_cast<double>(here.size()) / GetParam() : 1;
    const double end_s = here.empty() ? INFINITY : now_s + left_s[here[first]] * flows;
    const bool comes = next < kFlows && comes_s[next] < end_s;
    const double until_s = comes ? comes_s[next] : end_s;
    for (const std::size_t flow : here) left_s[flow] -= (until_s - now_s) / flows;
    now_s = until_s;
    if (comes) {
      here.push_back(next++);
    } else {
      expected_s[here[first]] = now_s;
      here.erase(here.begin() + static_cast<std::ptrdiff_t>(first));
    }
  }
  for (std::size_t flow = 0; flow < kFlows; ++flow) EXPECT_NEAR(through_s[flow], expected_s[flow], 1e-9) << flow;
}

INSTANTIATE_TEST_SUITE_P(Efficiencies, SharedResourceTest, testing::Values(1.0, 0.8));

}  // namespace
}  // namespace petaflow
