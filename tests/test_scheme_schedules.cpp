// Every scheme of updates by the trainer itself, under random placements and random times of messages and computation:
// it ends, takes every sample and applies every ticket once, and has the weights that it promises.
#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include "io/log.hpp"
#include "schedule_run.hpp"

namespace petaflow {
namespace {

using schedules::Plant;
using schedules::Record;
using schedules::Schedule;

class SchemeSchedules : public testing::Test {
 protected:
  void SetUp() override {
    log_nothing_but_warnings();
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // which would touch all memory of a network
  }
};

TEST_F(SchemeSchedules, EndTakeEverySampleOnceAndKeepTheirPromise) {
  const char* const asked = std::getenv("PETAFLOW_SCHEDULES");
  const std::uint64_t count = asked == nullptr ? 2000 : std::strtoull(asked, nullptr, 10);
  for (std::uint64_t n = 0; n < count; ++n) {
    const Schedule schedule = schedules::draw(n);
    Record record;
    ASSERT_EQ(schedules::problem_of(schedule, record), "") << n << ": " << schedules::describe(schedule);
  }
}

/// Whether the mistake can be made in such a run.
bool fits(Plant plant, const Schedule& schedule) {
  if (plant == Plant::kWrongTag) return true;
  return schedule.serves() &&
         (plant == Plant::kTicketTwice ||
          (schedule.options.update.groups > 1 && serving_order(schedule.options).order == UpdateOrder::kTicket));
}

// The same checks.
TEST_F(SchemeSchedules, FindPlantedMistakes) {
  for (const Plant plant : {Plant::kTicketTwice, Plant::kOutOfTurn, Plant::kWrongTag}) {
    int made = 0, found = 0;
    for (std::uint64_t n = 0; made < 40; ++n) {
      const Schedule schedule = schedules::draw(n);
      if (!fits(plant, schedule)) continue;
      Record record;
      record.plant = plant;
      record.plant_after = static_cast<int>(n % 7);
      const std::string problem = schedules::problem_of(schedule, record);
      if (plant != Plant::kOutOfTurn && record.plant_after >= 0) continue;  // there were fewer places for it
      made += 1;
      found += problem.empty() ? 0 : 1;
      if (plant != Plant::kOutOfTurn) {
        EXPECT_NE(problem, "") << n << ": " << schedules::describe(schedule);
      }
    }
    EXPECT_GE(found, made / 2) << static_cast<int>(plant);  // gradients come in turn by chance
  }
}

}  // namespace
}  // namespace petaflow
