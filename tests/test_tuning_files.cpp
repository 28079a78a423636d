// Tuned choices on disk: for this machine and these sources only, and no file can do harm.
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/build_info.hpp"
#include "nn/conv_tuning.hpp"
#include "program.hpp"
#include "run/tuning.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

/// The last of every list.
const ConvImpl* const kKokkos = find_conv("kokkos");

class TuningFile : public testing::Test {
 protected:
  using Table = std::map<std::string, TunedPass>;

  /// The first of the list, or the last.
  static const ConvImpl* impl(bool last) { return last ? kKokkos : conv_impls(Pass::kForward).front(); }
  static Table table(bool last = false) {
    return {{"forward ...", {{{impl(last), true, 1.0, 2.5}, {kKokkos, false, 0.5, 7}}, ""}}};
  }
  /// Table that is read, and the log's words on it.
  std::pair<Table, std::string> read(const std::string& machine) const {
    Table found;
    testing::internal::CaptureStderr();
    read_tuning(path_, machine, found);
    return {found, testing::internal::GetCapturedStderr()};
  }

  test::ScratchFolder folder_;
  std::string path_ = folder_ / "cache/petaflow/tuning.json";
};

TEST_F(TuningFile, IsReadBackByTheSameMachineOnly) {
  EXPECT_TRUE(read("a").first.empty());
  EXPECT_EQ(read("a").second, "");
  share_tuning(path_, "a", table());
  share_tuning(path_, "b", table(true));
  share_tuning(path_, "a", {{"backward_data ...", {{{kKokkos, true, 0.5, 1}}, ""}}});

  const Table a = read("a").first;
  ASSERT_EQ(a.size(), 2U);
  const TunedPass& tuned = a.at("forward ...");
  EXPECT_EQ(tuned.source, path_);
  ASSERT_EQ(tuned.trials.size(), 2U);
  EXPECT_EQ(tuned.trials[0].impl, impl(false));
  EXPECT_EQ(tuned.trials[0].cache_share, 1.0);
  EXPECT_EQ(tuned.trials[0].ms, 2.5);
  EXPECT_FALSE(tuned.trials[1].tiles);
  EXPECT_EQ(read("b").first.at("forward ...").trials[0].impl, kKokkos);
  EXPECT_TRUE(read("c").first.empty());
}

TEST_F(TuningFile, DamageIsSaidAndRepaired) {
  share_tuning(path_, "a", table());
  const std::string whole = test::read_bytes(path_);
  const std::string other = std::string(whole).replace(whole.find("\"format\": 1"), 11, "\"format\": 2");
  const std::string no_times = std::string(whole).replace(whole.find("2.5"), 3, "\"?\"");
  for (const std::string& bytes :
       {std::string(), std::string("tuned"), whole.substr(0, whole.size() / 2), other, no_times, std::string("[1]"),
        std::string("{\"format\": 1}"), std::string("{\"format\": 1, \"machines\": {\"a\": 3}}"),
        std::string("{\"format\": 1, \"machines\": {\"a\": {\"forward ...\": [{}]}}}"),
        std::string("{\"format\": 1, \"machines\": {\"a\": {\"forward of another layer\": 3}}}")}) {
    test::write_bytes(path_, bytes);
    const auto [found, said] = read("a");
    EXPECT_TRUE(found.empty()) << bytes;
    EXPECT_HOLDS(said, "warning: " + path_);
    share_tuning(path_, "a", table());
    EXPECT_EQ(read("a").first.size(), 1U) << bytes;
    EXPECT_EQ(read("a").second, "") << bytes;
  }
}

TEST_F(TuningFile, JobsThatWriteAtOnceKeepEachOthersChoices) {
  constexpr int kJobs = 8, kWrites = 5;
  std::vector<std::thread> jobs;
  for (int job = 0; job < kJobs; ++job) {
    jobs.emplace_back([&, job] {
      for (int i = 0; i < kWrites; ++i)
        share_tuning(path_, "a", {{fmt::format("pass {} of job {}", i, job), table().begin()->second}});
    });
  }
  for (std::thread& job : jobs) job.join();
  const auto [found, said] = read("a");
  EXPECT_EQ(found.size(), kJobs * kWrites);
  EXPECT_EQ(said, "");
}

TEST_F(TuningFile, MachinesDifferByThreadsAndBuilds) {
  EXPECT_NE(machine_text(1), machine_text(2));
  EXPECT_HOLDS(machine_text(1), std::string("kernels ") + build_info().kernel_sources);
  EXPECT_HOLDS(machine_text(1), std::string("oneDNN ") + build_info().onednn);
  const std::string before = machine_text(1);
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  EXPECT_NE(machine_text(1), before);
  unsetenv("ONEDNN_MAX_CPU_ISA");
}

// Times belong to the sources that were compiled, committed or not.
TEST(KernelSources, DifferWhereverAKernelOrAStageDoes) {
  const test::ScratchFolder folder;
  const std::string script = fs::absolute("cmake/source_state.cmake").string();
  const auto state = [&] {
    const std::string out = folder / "state.hpp";
    const std::string command = fmt::format("cmake -D folder={} -D out={} -P {}", folder.path(), out, script);
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    const std::string text = test::read_bytes(out);
    return text.substr(text.find("PETAFLOW_KERNEL_SOURCES"));
  };
  fs::create_directories(folder / "kernels");
  fs::create_directories(folder / "src/nn/layers");
  fs::create_directories(folder / "docs");
  test::write_bytes(folder / "kernels/conv.cpp", "1");
  test::write_bytes(folder / "src/nn/layers/conv.hpp", "1");
  const std::string before = state();
  test::write_bytes(folder / "docs/guide.md", "1");
  EXPECT_EQ(state(), before) << "documents take no time";
  test::write_bytes(folder / "kernels/conv.cpp", "2");
  const std::string changed = state();
  EXPECT_NE(changed, before);
  test::write_bytes(folder / "src/nn/layers/conv.hpp", "2");
  EXPECT_NE(state(), changed);
  test::write_bytes(folder / "kernels/conv.cpp", "1");
  test::write_bytes(folder / "src/nn/layers/conv.hpp", "1");
  EXPECT_EQ(state(), before);
}

TEST(BusyWarning, SpeaksOfPassesThatWereTimedNow) {
  const auto said = [](int busy, int quiet, const std::string& source = "") {
    std::map<std::string, TunedPass> table;
    for (int i = 0; i < busy + quiet; ++i) table[std::to_string(i)] = {{}, source, i < busy ? 0.3 : 0.2};
    return busy_warning(table);
  };
  EXPECT_EQ(said(0, 12), "");
  EXPECT_EQ(said(2, 10), "") << "clocks of some passes err anyway";
  EXPECT_HOLDS(said(3, 9), "the times of 3 of 12 passes differed by more than 25 % between rounds");
  EXPECT_EQ(said(12, 0, "a file"), "");
  EXPECT_EQ(said(0, 0), "");
}

class TuningProgram : public Program {
 protected:
  std::string cache() const { return (folder_ / ".cache/petaflow/tuning.json").string(); }
};

TEST_F(TuningProgram, KeepsItsChoicesForLaterRunsAndShowsThem) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const Outcome before = run("summary small.toml kernels.conv=tune");
  ASSERT_EQ(before.code, 0) << before.err;
  EXPECT_HOLDS(before.out, "0 of 8 choices found in " + cache() + "; 8 passes have not been timed");
  EXPECT_EQ(run("train small.toml kernels.conv=tune --check").code, 0);
  EXPECT_FALSE(fs::exists(cache())) << "--check writes nothing";

  const Outcome train = run("train small.toml kernels.conv=tune train.steps=4", 2);
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_EQ(count(train.out, "(timed now)"), 8U) << train.out;  // of three layers, the first without backward data
  EXPECT_HOLDS(train.out, "conv1 backward_weights: ");
  EXPECT_HOLDS(train.out, "kept in " + cache());
  // None but that the machine is busy, which it may be; MPI may have its own words.
  EXPECT_EQ(count(train.err, "warning: "), count(train.err, "warning: the machine was busy")) << train.err;
  const nlohmann::json kept = nlohmann::json::parse(text_of(folder_ / "runs/small/tuning.json"));
  EXPECT_EQ(kept["machines"].begin()->size(), 8U);

  const Outcome bench = run("bench small.toml kernels.conv=tune --steps 1", 2);
  ASSERT_EQ(bench.code, 0) << bench.err;
  EXPECT_EQ(count(bench.out, "8 choices of convolutions from " + cache() + "\n"), 1U) << bench.out;
  EXPECT_EQ(count(bench.out, "conv1 backward_weights"), 0U) << "what is found takes one line\n" << bench.out;
  EXPECT_EQ(count(bench.out, "timed now"), 0U) << bench.out;
  EXPECT_EQ(run("evaluate runs/small test.h5", 2).code, 0);

  // With one rank the passes are twice as large.
  EXPECT_HOLDS(run("summary small.toml kernels.conv=tune").out, "8 passes have not been timed");
  EXPECT_EQ(run("bench small.toml kernels.conv=tune --steps 1").code, 0);
  EXPECT_HOLDS(run("summary small.toml kernels.conv=tune").out, "8 of 8 choices found in " + cache() + "\n");
  const nlohmann::json json = nlohmann::json::parse(run("summary small.toml kernels.conv=tune --json").out);
  EXPECT_EQ(json["tuning"], (nlohmann::json{{"file", cache()}, {"found", 8}, {"not_timed", 0}}));
}

TEST_F(TuningProgram, TunesEachPrecisionAndWhatPredictsBesideIt) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const Outcome train = run("train small.toml kernels.conv=tune precision=bf16 train.steps=4");
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_EQ(count(train.out, "(timed now)"), 11U) << train.out;  // eight in bf16, three forward in f32
  EXPECT_EQ(run("summary small.toml kernels.conv=tune precision=bf16").out.find("have not been timed"),
            std::string::npos);
  const Outcome f32 = run("train small.toml kernels.conv=tune train.steps=4 --overwrite");
  EXPECT_EQ(count(f32.out, "(timed now)"), 5U) << f32.out;  // of f32, forward is known
  EXPECT_HOLDS(f32.out, "3 choices of convolutions from " + cache() + "\n");
}

TEST_F(TuningProgram, AResumedRunGoesOnWithItsOwnChoices) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string train = "train small.toml kernels.conv=tune";
  ASSERT_EQ(run(train + " train.steps=4").code, 0);
  // The cache now says something else.
  const std::string own = (folder_ / "runs/small/tuning.json").string();
  nlohmann::json json = nlohmann::json::parse(text_of(own));
  for (auto& [pass, trials] : json["machines"].begin()->items())
    trials = {{{"conv", "kokkos"}, {"tiles", true}, {"cache_share", 0.5}, {"ms", 1}}};
  std::ofstream(cache()) << json;
  const std::string before = text_of(own);
  const Outcome resumed = run(train + " --resume");
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_HOLDS(resumed.out, "8 choices of convolutions from runs/small/tuning.json\n");
  EXPECT_EQ(text_of(own), before);
}

TEST_F(TuningProgram, NeitherADamagedNorAnUnwritableCacheStopsARun) {
  fs::create_directories(folder_ / ".cache/petaflow");
  std::ofstream(cache()) << "{";
  const Outcome damaged = run("bench small.toml kernels.conv=tune --steps 1");
  EXPECT_EQ(damaged.code, 0) << damaged.err;
  EXPECT_HOLDS(damaged.err, "warning: " + cache());
  EXPECT_EQ(count(damaged.out, "(timed now)"), 8U);

  fs::remove_all(folder_ / ".cache");
  std::ofstream(folder_ / ".cache") << "no folder";
  const Outcome unwritable = run("bench small.toml kernels.conv=tune --steps 1");
  EXPECT_EQ(unwritable.code, 0) << unwritable.err;
  EXPECT_HOLDS(unwritable.err, "cannot be kept for other runs");
  fs::remove(folder_ / ".cache");
}

TEST_F(TuningProgram, BitsThatAreToBeTheSameEverywhereAreNotTuned) {
  expect_refused("train small.toml kernels.conv=tune train.deterministic=true",
                 "set kernels.conv to \"auto\" or train.deterministic to false");
}

}  // namespace
}  // namespace petaflow
