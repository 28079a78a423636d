// The step trace: what it records, when it stops, and that it leaves Kokkos as it found it.
#include <gtest/gtest.h>
#include <Kokkos_Core.hpp>
#include <nlohmann/json.hpp>

#include "base/region.hpp"
#include "measure/trace.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

namespace tools = Kokkos::Tools::Experimental;
using test::read_bytes;
using test::ScratchFolder;

void work(const std::string& name) {
  const Region region(name);
  Kokkos::parallel_for("kernel <\"" + name, Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, 8), [](int) {});
}

std::vector<nlohmann::json> events_of(const std::string& path) {
  std::vector<nlohmann::json> events;
  const nlohmann::json trace = nlohmann::json::parse(read_bytes(path));
  for (const nlohmann::json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") events.push_back(event);
  }
  return events;
}

TEST(StepTrace, RecordsTheStepsAfterTheFirstTwo) {
  const ScratchFolder folder;
  StepTrace trace(2, folder / "trace.json");
  for (int step = 0; step < 6; ++step) {
    trace.begin_step(step);
    work("region " + std::to_string(step));
    trace.end_step();
    EXPECT_EQ(StepTrace::tool_is_loaded(), step == 2) << step;  // after step 3 it is gone
  }
  trace.finish();
  const std::vector<nlohmann::json> events = events_of(folder / "trace.json");
  std::vector<std::string> names;
  for (const nlohmann::json& event : events) names.push_back(event["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"step 2", "region 2", "kernel <\"region 2", "step 3", "region 3",
                                             "kernel <\"region 3"}));
  for (std::size_t i = 0; i < events.size(); ++i) {  // what is inside ends inside
    const nlohmann::json& outer = events[i / 3 * 3];
    EXPECT_GE(events[i]["ts"], outer["ts"]);
    EXPECT_LE(events[i]["ts"].get<double>() + events[i]["dur"].get<double>(),
              outer["ts"].get<double>() + outer["dur"].get<double>() + 1e-9);
  }
}

TEST(StepTrace, WritesWhatThereIsOfAShortRun) {
  const ScratchFolder folder;
  StepTrace trace(5, folder / "trace.json");
  Kokkos::Profiling::pushRegion("around everything");
  for (int step = 0; step < 3; ++step) {
    trace.begin_step(step);
    trace.end_step();
  }
  Kokkos::Profiling::popRegion();  // began before the recording
  trace.finish();
  EXPECT_EQ(events_of(folder / "trace.json").size(), 1U);
  EXPECT_FALSE(StepTrace::tool_is_loaded());
}

TEST(StepTrace, WritesNothingWhereThereIsNothing) {
  const ScratchFolder folder;
  StepTrace none(0, folder / "none.json"), nowhere(2, ""), early(3, folder / "early.json");
  for (StepTrace* trace : {&none, &nowhere, &early}) {
    for (int step = 0; step < (trace == &early ? 2 : 5); ++step) {
      trace->begin_step(step);
      trace->end_step();
    }
    trace->finish();
  }
  EXPECT_EQ(folder.files(), 0U);
}

TEST(StepTrace, SeesAnotherTool) {
  EXPECT_FALSE(StepTrace::tool_is_loaded());
  tools::set_push_region_callback([](const char*) {});
  EXPECT_TRUE(StepTrace::tool_is_loaded());
  tools::set_push_region_callback(nullptr);
  EXPECT_FALSE(StepTrace::tool_is_loaded());
}

}  // namespace
}  // namespace petaflow
