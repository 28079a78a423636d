// The coordinator alone: whose report it misses.
#include <gtest/gtest.h>

#include "servers/coordinator.hpp"

namespace petaflow {
namespace {

TEST(Coordinator, KnowsForWhichGroupAllWait) {
  const auto report = [](std::int64_t done) { return TicketReport{.from = 0, .until = 100, .done = done}; };
  const TicketReport all_done{.from = 0, .until = 100, .waits = 1};
  for (const UpdateOrder order : {UpdateOrder::kArrival, UpdateOrder::kTicket}) {
    Coordinator coordinator(2, order);
    EXPECT_FALSE(coordinator.silence());
    const auto expect = [&](int group, std::int64_t ticket, double since_s) {
      ASSERT_TRUE(coordinator.silence());
      EXPECT_EQ(coordinator.silence()->group, group);
      EXPECT_EQ(coordinator.silence()->ticket, ticket);
      EXPECT_EQ(coordinator.silence()->since_s, since_s);
    };
    const bool by_ticket = order == UpdateOrder::kTicket;
    coordinator.take(1, report(-1), 5);  // 0; by ticket 1
    expect(by_ticket ? 1 : 0, by_ticket ? 1 : -1, 5);
    coordinator.take(0, report(-1), 6);  // 1; by ticket 0
    expect(by_ticket ? 0 : 1, 0, by_ticket ? 6 : 5);
    coordinator.take(1, report(by_ticket ? 1 : 0), 7);  // 2; by ticket 3
    expect(0, by_ticket ? 0 : 1, 6);
    coordinator.take(0, report(by_ticket ? 0 : 1), 8);  // 3; by ticket 2
    expect(by_ticket ? 0 : 1, 2, by_ticket ? 8 : 7);
  }
  Coordinator coordinator(2, UpdateOrder::kArrival);
  coordinator.take(0, all_done, 1);
  EXPECT_EQ(coordinator.silence()->group, 1);  // from when the others began on
  EXPECT_EQ(coordinator.silence()->since_s, 1);
  coordinator.take(1, all_done, 2);
  EXPECT_FALSE(coordinator.silence());
}

}  // namespace
}  // namespace petaflow
