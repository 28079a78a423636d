// What the hep program says of a network, its memory and its speed without training it.
#include <sched.h>

#include <filesystem>
#include <regex>
#include <string>

#include <nlohmann/json.hpp>

#include "program.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

TEST_F(Program, SummaryAndBenchNeedNoData) {
  const Outcome summary =
      run("summary small.toml --json model.filters=[128,128,128,128,128] data.height=64 data.width=64");
  ASSERT_EQ(summary.code, 0) << summary.err;
  EXPECT_EQ(nlohmann::json::parse(summary.out)["parameters"], 594178);
  EXPECT_EQ(run("summary small.toml").code, 0);
  const Outcome bench = run("bench small.toml --steps 3 --json");
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_GT(nlohmann::json::parse(bench.out)["samples_per_s"], 0);
  EXPECT_FALSE(fs::exists(folder_ / "runs"));

  const std::string table = run("bench small.toml --steps 3").out, number = " +[0-9]+\\.[0-9]+",
                    rate = " +[0-9]+ +[0-9]+ %";
  const auto has_line = [&](const std::string& line) { return std::regex_search(table, std::regex(line + "\n")); };
  EXPECT_TRUE(has_line("stage +GFLOP +fwd ms +GFLOP/s +of peak +bwd data ms +bwd weights ms +GFLOP/s +of peak"))
      << table;
  EXPECT_TRUE(has_line("conv1 .*" + number + number + rate + " +-" + number + rate)) << "samples need no gradient\n"
                                                                                     << table;
  EXPECT_TRUE(has_line("conv2 .*" + number + number + rate + number + number + rate)) << table;
}

TEST_F(Program, EnginesForAGpuAreThoseOfCudnn) {
  const Outcome summary = run("summary small.toml --gpu h200");
  const bool has_cudnn = summary.out.find("cudnn eng") != std::string::npos;
  EXPECT_EQ(summary.code, has_cudnn ? 0 : 1) << summary.out;
  EXPECT_EQ(summary.err.find("this program has no cuDNN") == std::string::npos, has_cudnn) << summary.err;
  EXPECT_EQ(run("summary small.toml --gpu K80").code, 1);
}

TEST_F(Program, SummaryShowsTheMemoryPlan) {
  const std::string line =
      "summary small.toml train.batch=4 model.filters=[8,16,16,16,16] data.height=64 data.width=64";
  const Outcome summary = run(line + " --json");
  ASSERT_EQ(summary.code, 0) << summary.err;
  const nlohmann::json json = nlohmann::json::parse(summary.out);
  const auto arena = json["arena_bytes"].get<std::size_t>();
  EXPECT_EQ(json["arena_bytes_per_sample"].get<double>(), static_cast<double>(arena) / json["pass"].get<double>());
  std::size_t sum = 0, before = arena;
  std::string alive;  // of the first pooled tensor, which is kept for the weights of conv2, and then of its gradient
  for (const nlohmann::json& block : json["blocks"]) {
    const auto bytes = block["bytes"].get<std::size_t>();
    EXPECT_LE(block["offset"].get<std::size_t>() + bytes, arena) << block;
    EXPECT_LE(bytes, before) << block;
    sum += before = bytes;
    if (block["name"] != "conv1 output") continue;
    alive = block["alive"];
    EXPECT_EQ(bytes, 4 * 8 * 32 * 32 * sizeof(float));
  }
  EXPECT_EQ(alive, "forward conv1 to backward conv1");
  EXPECT_EQ(json["block_bytes"], sum);

  // Behind the first layer, whose values need nearly all of it, nothing is left to save.
  EXPECT_HOLDS(run(line + " train.recompute=2").out, "train.recompute = 2 saves no memory: ");
  const Outcome text = run(line);
  ASSERT_EQ(text.code, 0) << text.err;
  const std::string others = std::to_string(json["blocks"].size() - 10) + " smaller ones";
  EXPECT_NE(text.out.find(others), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("per sample; without sharing it would be"), std::string::npos) << text.out;
}

TEST_F(Program, BenchSaysWhatReadingTook) {
  ASSERT_EQ(run("generate small.toml generate.gzip=1").code, 0);
  const auto io_of = [&](const std::string& overrides) {
    const Outcome bench = run("bench small.toml --io --json " + overrides);
    EXPECT_EQ(bench.code, 0) << bench.err;
    return nlohmann::json::parse(bench.out)["io"];
  };
  const std::int64_t pixels = std::int64_t{96} * 3 * 16 * 16;  // in train.h5
  const nlohmann::json held = io_of("");
  EXPECT_EQ(held["held_bytes"], 4 * pixels);
  EXPECT_EQ(held["bytes_read"], 0);
  const nlohmann::json read = io_of("data.cache_gb=0 data.normalise=none");  // nothing has looked at the pixels before
  EXPECT_EQ(read["held_bytes"], 0);
  EXPECT_GT(read["bytes_read"], pixels / 10);
  EXPECT_LT(read["bytes_read"], fs::file_size(folder_ / "train.h5") * 2);
}

TEST_F(Program, WarnsOfThreadsThatShareCores) {
  const std::string words = "2 threads but may use cores ";
  const auto warnings = [&](const std::string& environment) {
    const Outcome bench = run("bench small.toml --steps 1", 1, environment + " timeout 120");
    EXPECT_EQ(bench.code, 0) << bench.err;
    return count(bench.out, words);
  };
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2) GTEST_SKIP() << "NOT TESTED: this machine has one core";
  const std::string on_one = "taskset -c " + std::to_string(sched_getcpu()) + " ", two = "env OMP_NUM_THREADS=2";
  EXPECT_EQ(warnings(on_one + two), 1U);
  EXPECT_EQ(warnings(on_one + two + " OMP_PROC_BIND=true"), 1U);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) < 2)
    GTEST_SKIP() << "NOT TESTED further: the test may use one core";
  EXPECT_EQ(warnings(two), 0U);
  EXPECT_EQ(warnings(two + " OMP_PROC_BIND=true"), 0U) << "each thread has a core of its own";
}

TEST_F(Program, MemoryThatIsMissingIsAUsersError) {
  const auto said = [&](const std::string& option) {  // with 8 GB, whatever the machine has
    const Outcome outcome =
        run("summary small.toml '" + option + "'", 1, "timeout 120 bash -c 'ulimit -v 8000000; exec \"$@\"' bash");
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_EQ(count(outcome.err, "hep: "), 1U) << outcome.err;
    return outcome.err;
  };
  const std::string wide = said("model.filters=[65536,65536]");
  EXPECT_HOLDS(wide, "out of memory: ");
  if (wide.find("in one piece") == wide.npos) {  // of a kernel that packs weights
    EXPECT_HOLDS(wide, "hep: layer conv2: ");
  }
  const std::string deep = said("model.hidden=[65536,65536,65536,65536]");
  EXPECT_HOLDS(deep, "its largest tensors are weights (49");
  EXPECT_HOLDS(deep, "make the layers with the most weights smaller: train.batch changes little");
}

}  // namespace
}  // namespace petaflow
