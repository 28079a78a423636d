// The records and reports of whole, unfinished and damaged runs.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cosmoflow/reporter.hpp"
#include "hep/reporter.hpp"
#include "program/run_report.hpp"
#include "report/page.hpp"
#include "report/performance_tables.hpp"
#include "report/training_figures.hpp"
#include "run/record.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::ScratchFolder;
using test::write_bytes;

/// The folder of a run with a line of metrics every ten steps.
struct RunFolder {
  explicit RunFolder(const ScratchFolder& scratch, const std::string& name) : path(scratch / name) {
    std::filesystem::create_directory(path);
    write_bytes(path + "/config.toml", "[train]\nbatch = 8\n[run]\nname = \"" + name.substr(0, 1) + "\"\n");
  }
  void metrics(const std::vector<int>& steps, const std::string& end = "") const {
    std::string text;
    for (const int step : steps) {
      text += nlohmann::json{{"step", step}, {"epoch", (step - 1) / 20 + 1}, {"loss", 1.0 / step}, {"lr", 0.1}}.dump() +
              "\n";
      if (step % 20 == 0) {
        text +=
            nlohmann::json{{"step", step}, {"epoch", step / 20}, {"validation", {{"auc", 0.9}, {"loss", 0.5}}}}.dump() +
            "\n";
      }
    }
    write_bytes(path + "/metrics.jsonl", text + end);
  }
  std::string path;
};

const char* const kPerformance = R"({"end": "done", "last_step": 40, "steps": 40, "samples": 320, "seconds": 4.0,
  "samples_per_s": 80.0, "gflops": 1.0, "best_gflops": 2.0, "peak_gflops_per_rank": 10.0, "ranks": 1, "batch": 8,
  "passes_per_step": 2, "pass": 4, "parameters": 10, "flop_per_sample": 1e6,
  "time": [{"part": "forward", "seconds": 1.0}, {"part": "backward", "seconds": 3.0}],
  "time_of_rank_0": [{"part": "forward", "seconds": 1.0}, {"part": "backward", "seconds": 3.0}],
  "stages": [{"stage": "conv1 + relu", "kind": "convolution", "forward_ms": 10, "backward_ms": 30,
              "backward_weights_ms": 12, "forward_flop": 1e6, "backward_flop": 2e6},
             {"stage": "fc", "kind": "dense", "forward_ms": 1, "backward_ms": 2, "forward_flop": 1e3,
              "backward_flop": 2e3}]})";

TEST(RunRecord, TakesTheLaterOfRepeatedSteps) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch, "run");
  folder.metrics({10, 20, 30, 40, 20, 30}, R"({"step": 40, "lo)");  // resumed after step 10, then killed
  const RunRecord run = read_run(folder.path);
  ASSERT_EQ(run.training.size(), 3U);
  EXPECT_EQ(run.training[1].step, 20);
  EXPECT_EQ(run.training[2].step, 30);
  ASSERT_EQ(run.validation.size(), 1U);  // the one of step 40 is not reached again
  EXPECT_EQ(run.validation[0].step, 20);
  EXPECT_FALSE(run.finished());
}

TEST(RunRecord, HasTheTrialsOfTunedGroups) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch, "run");
  const auto trial = [](int step, int groups, const std::string& loss, bool chosen) {
    return fmt::format(
        R"({{"step": {}, "epoch": 1, "tuning": {{"groups": {}, "momentum": 0.3, "lr": 0.1, "loss": {}, "chosen": {}}}}})"
        "\n",
        step, groups, loss, chosen);
  };
  folder.metrics({10, 20}, trial(1, 8, "0.5", false) + trial(41, 4, "null", false) + trial(41, 2, "0.125", true) +
                               trial(21, 4, "null", false) + trial(21, 4, "0.25", true));  // resumed after step 20
  const RunRecord run = read_run(folder.path);
  ASSERT_EQ(run.tuning.size(), 3U);
  EXPECT_EQ(run.tuning[0].groups, 8);
  EXPECT_TRUE(std::isnan(run.tuning[1].loss));
  EXPECT_TRUE(run.tuning[2].chosen);
  EXPECT_EQ(run.training.size(), 2U);
  const std::string table = tuning_table(run);
  EXPECT_NE(table.find("failed"), std::string::npos) << table;
  EXPECT_NE(table.find("<b>0.25</b>"), std::string::npos) << table;
  EXPECT_EQ(tuning_table(RunRecord()), "");
}

TEST(RunRecord, ForgetsTheEndOfAnEarlierPart) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch, "run");
  write_bytes(folder.path + "/performance.json", kPerformance);
  folder.metrics({10, 20, 30, 40});
  EXPECT_TRUE(read_run(folder.path).finished());
  folder.metrics({10, 20, 30, 40, 50});
  EXPECT_FALSE(read_run(folder.path).finished());
}

TEST(RunRecord, SaysWhatIsNoRun) {
  const ScratchFolder scratch;
  EXPECT_HOLDS(test::error_of([&] { read_run(scratch / "missing"); }), "missing");
  EXPECT_HOLDS(test::error_of([&] { read_run(scratch.path()); }), "holds no run");
  const RunFolder folder(scratch, "run");
  write_bytes(folder.path + "/manifest.json", "{\"a\": ");
  EXPECT_HOLDS(test::error_of([&] { read_run(folder.path); }), "manifest.json");
}

TEST(WorkCategories, AddUpToTheStep) {
  const std::vector<WorkCategory> categories = work_categories(nlohmann::json::parse(kPerformance));
  ASSERT_EQ(categories.size(), 5U);
  EXPECT_EQ(categories[0].name, "convolutions, forward");
  EXPECT_DOUBLE_EQ(categories[0].ms, 20);  // two micro-batches
  EXPECT_DOUBLE_EQ(categories[1].ms, 36);
  EXPECT_DOUBLE_EQ(categories[2].ms, 24);
  for (int i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(categories[static_cast<std::size_t>(i)].flop, 2e6);
  EXPECT_DOUBLE_EQ(categories[3].ms, 6);
  EXPECT_DOUBLE_EQ(categories[4].ms, 100 - 86);  // the rest of forward and backward
  double sum = 0;
  for (const WorkCategory& category : categories) sum += category.ms;
  EXPECT_DOUBLE_EQ(sum, 100);
}

bool is_well_formed(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" \n/", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '!' || tag.ends_with("/") || name == "meta" || name == "br") continue;
    if (tag[0] != '/') {
      open.push_back(name);
    } else if (open.empty() || open.back() != tag.substr(1)) {
      ADD_FAILURE() << "<" << tag << "> closes " << (open.empty() ? "nothing" : open.back());
      return false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

const PageHead kHead{"hep", "Tells events apart"};

TEST(RunReport, HasNoPlaceForStrangeNames) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch, "<b>&\"");
  folder.metrics({10, 20, 30, 40});
  write_bytes(folder.path + "/performance.json", kPerformance);
  write_bytes(folder.path + "/manifest.json",
              R"({"command_line": ["hep", "<script>"], "environment": {"OMP_X": "<i>"}, "libraries": {"<u>": "<s>"},
                 "data": {"train": [{"path": "<a>.h5", "size_bytes": 3, "modified": "<td>"}]}, "processor": "<p>",
                 "binding": [{"rank": 0, "host": "<h5>", "cores": "0", "threads": 1}]})");
  const hep::HepReporter reporter;
  const std::string one = run_report(kHead, reporter, {read_run(folder.path)});
  const std::string two = run_report(kHead, reporter, {read_run(folder.path), read_run(folder.path)});
  for (const std::string& html : {one, two}) {
    EXPECT_HOLDS(html, "&lt;b&gt;&amp;&quot;");
    for (const char* tag : {"<b>&\"", "<script>", "<i>", "<u>", "<s>", "<a>", "<h5>"}) {
      EXPECT_EQ(html.find(tag), std::string::npos) << tag;
    }
    EXPECT_TRUE(is_well_formed(html));
    for (const char* outside : {"http:", "https:", "src=", "<link", "@import"}) {
      EXPECT_EQ(html.find(outside), std::string::npos) << outside;
    }
  }
}

TEST(RunReport, ShowsSeveralRunsAndUnfinishedOnes) {
  const ScratchFolder scratch;
  const RunFolder whole(scratch, "alpha"), going(scratch, "beta"), new_one(scratch, "gamma");
  whole.metrics({10, 20, 30, 40});
  write_bytes(whole.path + "/performance.json", kPerformance);
  going.metrics({10, 20}, R"({"step": 3)");
  const hep::HepReporter reporter;
  const std::string html =
      run_report(kHead, reporter, {read_run(whole.path), read_run(going.path), read_run(new_one.path)});
  EXPECT_TRUE(is_well_formed(html));
  EXPECT_HOLDS(html, "3 runs of hep");
  EXPECT_HOLDS(html, "finished after 40 steps");
  EXPECT_HOLDS(html, "not finished: last line at step 20");
  EXPECT_HOLDS(html, "Options in which the runs differ");
  EXPECT_HOLDS(html, "convolutions, gradient of weights");
  const std::string alone = run_report(kHead, reporter, {read_run(new_one.path)});
  EXPECT_HOLDS(alone, "No step has been logged yet");
  EXPECT_TRUE(is_well_formed(alone));
}

// Winograd's transforms need fewer multiplications than the definition, by which work is counted.
TEST(RunReport, SaysWhyARateExceedsThePeak) {
  const ScratchFolder scratch;
  const RunFolder run(scratch, "fast");
  run.metrics({10, 20, 30, 40});
  const auto page = [&](const std::string& gflops) {
    std::string performance = kPerformance;
    const std::string asked = "\"gflops\": 1.0";
    write_bytes(run.path + "/performance.json", performance.replace(performance.find(asked), asked.size(), gflops));
    return run_report(kHead, hep::HepReporter(), {read_run(run.path)});
  };
  EXPECT_HOLDS(page("\"gflops\": 5.0"), " GFLOP/s, 50 % of peak");
  const std::string fast = page("\"gflops\": 12.5");
  EXPECT_HOLDS(fast, "12.5 GFLOP/s of direct convolutions, 1.25 x what multiply-adds reach (Winograd");
  EXPECT_EQ(fast.find("125 % of peak"), std::string::npos);
}

/// evaluation.json of a run with one parameter.
std::string estimates_of(const std::string& parameter, const std::string& more = "") {
  const std::string scores =
      R"([{"method": "network", "mae": 0.2, "mae_error": 0.01, "parameters": [{"name": ")" + parameter +
      R"(", "unit": "km/s/Mpc", "mean_relative_error": 0.0248, "mean_relative_error_error": 0.0006, "rmse": 0.01,
                                "r2": 0.8}]}])";
  return R"({"set": "data.test", "files": ["<t>/*"], "samples": 2, "seen_in_training": [], "results": {"groups": 1,
    "single": )" +
         scores + R"(}, "curves": {"parameters": [{"name": ")" + parameter +
         R"(", "unit": "km/s/Mpc", "low": 63, "high": 77, "true": [65, 70], "estimate": [66, 69]}])" + more + "}}";
}

TEST(RunReport, ShowsTheEstimatesOfRunsWithOtherParameters) {
  const ScratchFolder scratch;
  const RunFolder first(scratch, "alpha"), second(scratch, "beta");
  first.metrics({10, 20});
  second.metrics({10, 20});
  write_bytes(first.path + "/evaluation.json", estimates_of("H_0"));
  write_bytes(second.path + "/evaluation.json",
              estimates_of("<b>", R"(, "slices": {"file": "<i>", "most": 7, "height": 2, "width": 4,
                                       "png": ["data:image/png;base64,", "data:image/png;base64,"]})"));
  const cosmoflow::CosmoflowReporter reporter;
  const std::string one = run_report(kHead, reporter, {read_run(second.path)});
  const std::string two = run_report(kHead, reporter, {read_run(first.path), read_run(second.path)});
  for (const std::string& html : {one, two}) {
    EXPECT_TRUE(is_well_formed(html));
    EXPECT_HOLDS(html, "2.480 ± 0.060 %");
    EXPECT_HOLDS(html, "&lt;b&gt;: mean relative error");
    for (const char* tag : {"<b>:", "<i>", "<t>"}) EXPECT_EQ(html.find(tag), std::string::npos) << tag;
  }
  EXPECT_HOLDS(one, "redshift 0.5");
  EXPECT_HOLDS(one, "7 particles per voxel");
  EXPECT_HOLDS(two, "estimate of H_0  km/s/Mpc");
  EXPECT_HOLDS(two, "H_0: root mean square error, km/s/Mpc");
  EXPECT_HOLDS(two, "Results of alpha");
}

TEST(RunReport, NamesTheRunOfADamagedFile) {
  const ScratchFolder scratch;
  const RunFolder folder(scratch, "run");
  write_bytes(folder.path + "/manifest.json", R"({"ranks": "many"})");
  const hep::HepReporter reporter;
  EXPECT_HOLDS(test::error_of([&] { run_report(kHead, reporter, {read_run(folder.path)}); }), folder.path);
  write_bytes(folder.path + "/manifest.json", "{}");
  write_bytes(folder.path + "/performance.json", R"({"last_step": "ten"})");
  EXPECT_HOLDS(test::error_of([&] { read_run(folder.path); }), folder.path);
  write_bytes(folder.path + "/performance.json", R"({"last_step": 10, "steps": 10})");
  EXPECT_HOLDS(test::error_of([&] { run_report(kHead, reporter, {read_run(folder.path)}); }), folder.path);
}

}  // namespace
}  // namespace petaflow
