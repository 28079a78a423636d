// The log that MLPerf HPC asks for, as the cosmoflow program keeps it.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cosmoflow_program.hpp"

namespace petaflow {
namespace {

using CosmoflowMlperf = CosmoflowProgram;

TEST_F(CosmoflowMlperf, KeepsALogForMlperf) {
  ASSERT_EQ(run("generate tiny.toml").code, 0);
  ASSERT_EQ(run("train tiny.toml mllog=true stop.target=100 optimizer.name=sgd", 2).code, 0);
  std::ifstream file(folder_ / "runs/tiny/mllog.txt");
  std::vector<std::string> events;
  std::map<std::string, nlohmann::json> values;
  for (std::string line; std::getline(file, line);) {
    ASSERT_EQ(line.substr(0, 10), ":::MLLOG {") << line;
    const nlohmann::json event = nlohmann::json::parse(line.substr(9));
    events.push_back(event["key"]);
    values[event["key"]] = event;
  }
  EXPECT_EQ(values["run_stop"]["metadata"]["status"], "success");
  EXPECT_EQ(values["eval_error"]["metadata"]["epoch_num"], 1);
  EXPECT_EQ(values["eval_samples"]["value"], 8);
  const std::vector<std::string> run_events(std::ranges::find(events, "init_stop"), events.end());
  EXPECT_EQ(run_events, (std::vector<std::string>{"init_stop", "run_start", "epoch_start", "eval_start", "eval_error",
                                                  "eval_stop", "epoch_stop", "run_stop"}));

  // Runs that end without their target: an interrupted one stays aborted when it goes on.
  const auto expect_aborted = [&](const std::string& name) {
    const std::string log = text_of(folder_ / "runs" / name / "mllog.txt");
    EXPECT_EQ(count(log, R"("key":"run_stop")"), 1U) << log;
    EXPECT_EQ(count(log, R"("status":"aborted")"), 1U) << log;
  };
  ASSERT_EQ(run("train tiny.toml run.name=missed mllog=true stop.target=1e-9").code, 0);
  expect_aborted("missed");
  ASSERT_EQ(run("train tiny.toml run.name=nan mllog=true optimizer.name=sgd optimizer.lr=1e30").code, 2);
  expect_aborted("nan");
  ASSERT_EQ(run("train tiny.toml run.name=part mllog=true run.wall_time=0.001").code, 3);
  expect_aborted("part");
  expect_refused("train tiny.toml run.name=part mllog=true --resume", "without --resume", {2});
  ASSERT_EQ(run("train tiny.toml run.name=part --resume").code, 0);
  expect_aborted("part");
}

TEST_F(CosmoflowMlperf, LogsStepsOfGroupsAndOfGrowingBatchesForMlperf) {
  ASSERT_EQ(run("generate tiny.toml").code, 0);
  struct Case {
    const char* name;
    const char* options;
    int ranks;
    std::vector<std::int64_t> batches;  // of the epochs
    std::int64_t warmup_steps;
    double warmup_epochs;
  };
  // 24 samples: 3 steps, then 2; of groups, which have half of the batch each, 6 and 3.
  const std::vector<Case> cases = {{"plain", "", 1, {8, 16}, 4, 1.5},
                                   {"averages", " update.groups=2 update.average_every=1", 2, {4, 8}, 7, 4.0 / 3},
                                   {"servers", " update.groups=2 update.servers=1", 3, {4, 8}, 7, 4.0 / 3},
                                   {"parts", " train.deterministic=false train.accumulate=2", 2, {8, 16}, 4, 1.5}};
  for (const Case& of : cases) {
    SCOPED_TRACE(of.name);
    const Outcome outcome =
        run(fmt::format("train tiny.toml run.name={} mllog=true 'train.batch_epochs=[1]' schedule.warmup_steps={}{}",
                        of.name, of.warmup_steps, of.options),
            of.ranks);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::vector<std::int64_t> epochs, batches;
    std::map<std::string, nlohmann::json> values;
    std::ifstream file(folder_ / "runs" / of.name / "mllog.txt");
    for (std::string line; std::getline(file, line);) {
      const nlohmann::json event = nlohmann::json::parse(line.substr(9));
      if (event["key"] == "epoch_start") {
        epochs.push_back(event["metadata"]["epoch_num"]);
        batches.push_back(event["metadata"]["global_batch_size"]);
      }
      values[event["key"]] = event["value"];
    }
    EXPECT_EQ(values["global_batch_size"], of.batches[0]);
    EXPECT_EQ(values["train_samples"], 24);
    EXPECT_DOUBLE_EQ(values["opt_learning_rate_warmup_epochs"].get<double>(), of.warmup_epochs);
    EXPECT_EQ(epochs, (std::vector<std::int64_t>{1, 2}));
    EXPECT_EQ(batches, of.batches);
    const auto steps = nlohmann::json::parse(text_of(folder_ / "runs" / of.name / "performance.json"))["steps"];
    EXPECT_EQ(steps, 24 / of.batches[0] + (24 + of.batches[1] - 1) / of.batches[1]);
  }
}

}  // namespace
}  // namespace petaflow
