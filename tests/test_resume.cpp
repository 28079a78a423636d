// Interrupted runs: whatever ended them, the resumed run ends with the weights of one that was never interrupted.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/checkpoint.hpp"
#include "program.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

class Resume : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_EQ(run("generate small.toml").code, 0);
  }

  /// 24 steps with all that has a state: dropout, augmentation, Adam, a schedule, a best validation.
  std::string training(const std::string& name, const std::string& more = "") const {
    return "train small.toml run.name=" + name +
           " train.epochs=4 train.deterministic=true train.shards=4 model.dropout=0.2 augment.roll_phi=true"
           " schedule.name=cosine stop.keep_best=true log.interval=3 checkpoint.interval=2 checkpoint.keep=3 " +
           more;
  }

  void expect_same_end(const std::string& name) {
    const Checkpoint a = load_checkpoint((folder_ / "runs/whole/checkpoint.h5").string());
    const Checkpoint b = load_checkpoint((folder_ / "runs" / name / "checkpoint.h5").string());
    EXPECT_EQ(a.training, b.training);
    ASSERT_EQ(a.weights.size(), b.weights.size());
    for (std::size_t i = 0; i < a.weights.size(); ++i) EXPECT_EQ(a.weights[i].values, b.weights[i].values);
    ASSERT_EQ(a.training_arrays.size(), b.training_arrays.size());
    for (std::size_t i = 0; i < a.training_arrays.size(); ++i) {
      EXPECT_EQ(a.training_arrays[i].name, b.training_arrays[i].name);
      EXPECT_EQ(a.training_arrays[i].values, b.training_arrays[i].values);
    }
    EXPECT_EQ(losses(name), losses("whole"));
  }

  /// Every line of the log without what depends on the clock.  Validation losses are sums over ranks: to 6 digits.
  std::vector<nlohmann::json> losses(const std::string& name) const {
    std::vector<nlohmann::json> all;
    std::ifstream file(folder_ / "runs" / name / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      nlohmann::json json = nlohmann::json::parse(line);
      json.erase("samples_per_s");
      json.erase("gflops");
      if (json.contains("validation"))
        json["validation"]["loss"] = std::round(1e6 * double{json["validation"]["loss"]});
      all.push_back(json);
    }
    return all;
  }

  /// Step of the newest checkpoint; 0: there is none.
  std::int64_t step_of(const std::string& name) const {
    const fs::path path = folder_ / "runs" / name / "checkpoint.h5";
    if (!fs::exists(path)) return 0;
    return nlohmann::json::parse(load_checkpoint(path.string()).training)["step"];
  }

  std::size_t files(const std::string& name, const std::string& word) const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "runs" / name)) {
      if (entry.path().filename().string().find(word) != std::string::npos) ++count;
    }
    return count;
  }
};

TEST_F(Resume, ARunWithoutCheckpointStartsFromTheBeginning) {
  ASSERT_EQ(run(training("whole")).code, 0);
  const Outcome fresh = run(training("fresh") + " --resume");
  EXPECT_EQ(fresh.code, 0) << fresh.err;
  EXPECT_EQ(count(fresh.out, "the run starts from the beginning"), 1U) << fresh.out;
  expect_same_end("fresh");
  EXPECT_EQ(files("fresh", "checkpoint-"), 3U);  // checkpoint.keep
  EXPECT_TRUE(fs::is_symlink(folder_ / "runs/fresh/checkpoint.h5"));
}

TEST_F(Resume, AnEndedRunIsLeftAlone) {
  ASSERT_EQ(run(training("whole")).code, 0);
  const auto before = fs::last_write_time(folder_ / "runs/whole/metrics.jsonl");
  const Outcome again = run(training("whole") + " --resume");
  EXPECT_EQ(again.code, 0);
  EXPECT_NE(again.out.find("nothing is left to do"), std::string::npos) << again.out;
  EXPECT_EQ(fs::last_write_time(folder_ / "runs/whole/metrics.jsonl"), before);
  EXPECT_EQ(run(training("whole")).code, 1);  // neither --resume nor --overwrite
  EXPECT_EQ(run(training("whole") + " --resume --overwrite").code, 1);
}

TEST_F(Resume, SaysThatNothingIsLeftToTrain) {
  ASSERT_EQ(run(training("part", "run.wall_time=0.001")).code, 3);
  const Outcome outcome = run(training("part", "train.steps=1") + " --resume");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "nothing is left to train after "), 1U) << outcome.out;
}

TEST_F(Resume, KilledRunsEndAlike) {
  ASSERT_EQ(run(training("whole")).code, 0);
  std::minstd_rand random(7);
  for (const int ranks : {1, 2}) {
    const std::string name = "killed" + std::to_string(ranks) + "_" + std::to_string(getpid());
    Outcome outcome;
    // A kill counts that leaves checkpoints and steps to do.  How long that takes is not known: each run gets longer
    // than the one before it, and shorter where one was not killed in time.
    int kills = 0;
    double limit_s = 0.3;
    for (int attempt = 0; kills < 3 && attempt < 60; ++attempt) {
      const double delay_s = limit_s * (0.8 + 0.04 * static_cast<double>(random() % 10));
      outcome = run(training(name) + " --resume", ranks, "timeout -s KILL " + std::to_string(delay_s));
      // mpirun is dead, its ranks need not be.
      while (std::system(("pkill -KILL -f '[r]un.name=" + name + " '").c_str()) == 0) usleep(10000);
      if (outcome.code == 0) {
        if (kills > 0) break;
        fs::remove_all(folder_ / "runs" / name);
        limit_s *= 0.6;
        continue;
      }
      limit_s *= 1.2;
      if (step_of(name) > 0 && step_of(name) < 24) ++kills;
    }
    EXPECT_GT(kills, 0) << "no run was interrupted";
    outcome = run(training(name) + " --resume", ranks);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect_same_end(name);
    EXPECT_EQ(files(name, ".tmp."), 0U);
  }
}

TEST_F(Resume, TheNumberOfRanksMayChange) {
  ASSERT_EQ(run(training("whole")).code, 0);
  ASSERT_EQ(run(training("part", "run.wall_time=0.001")).code, 3);
  const Outcome rest = run(training("part") + " --resume", 2);
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find("changed since the checkpoint: run.wall_time = 0.0 (was 0.001)"), std::string::npos)
      << rest.out;
  expect_same_end("part");
}

TEST_F(Resume, GradientsThatAreStillToBeUsedAreKept) {
  ASSERT_EQ(run(training("whole", "update.lag=2")).code, 0);
  ASSERT_EQ(run(training("part", "update.lag=2 run.wall_time=0.001")).code, 3);
  const Outcome other = run(training("part", "update.lag=1") + " --resume");
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("keeps 2 gradients still to be used; go on with update.lag = 2"), std::string::npos)
      << other.err;
  const Outcome rest = run(training("part", "update.lag=2") + " --resume", 2);
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find("and used 2 steps later (update.lag)"), std::string::npos) << rest.out;
  expect_same_end("part");
}

TEST_F(Resume, AverageWeightsAreKeptAndUsed) {
  for (const std::string best : {"true", "false"}) {
    const std::string more = "checkpoint.keep=12 optimizer.lr=0.02 optimizer.ema=0.9 stop.keep_best=" + best;
    ASSERT_EQ(run(training("whole", more) + " --overwrite").code, 0);
    fs::remove_all(folder_ / "runs/part");
    fs::copy(folder_ / "runs/whole", folder_ / "runs/part",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    for (int step = 16; step <= 24; step += 2)
      ASSERT_TRUE(fs::remove(folder_ / "runs/part" / fmt::format("checkpoint-{:010}.h5", step)));
    const Outcome rest = run(training("part", more) + " --resume", 2);
    EXPECT_EQ(rest.code, 0) << rest.err;
    expect_same_end("part");
  }
  // What the last validation was of, the checkpoint gives, and the evaluation takes.
  const Checkpoint checkpoint = load_checkpoint((folder_ / "runs/whole/checkpoint.h5").string());
  const auto kept = [&](const std::string& name) {
    const auto found = std::ranges::find(checkpoint.training_arrays, name, &NamedArray::name);
    return found == checkpoint.training_arrays.end() ? std::vector<float>() : found->values;
  };
  for (const NamedArray& weights : checkpoint.weights) {
    EXPECT_EQ(kept("ema/" + weights.name), weights.values);
    EXPECT_NE(kept("latest/" + weights.name), weights.values);
  }
  const double validated = losses("whole").back()["validation"]["loss"];  // times 1e6
  const Outcome evaluated = run("evaluate runs/whole val.h5 --json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  EXPECT_NEAR(1e6 * nlohmann::json::parse(evaluated.out)["loss"].get<double>(), validated, 2);
}

/// In f32 and bf16.
class ResumeInPrecision : public Resume, public testing::WithParamInterface<std::string> {
 protected:
  struct Processes {
    int ranks, threads;
  };

  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "SKIPPED: OpenMP's runtime is not instrumented, and all that its threads share would be a race";
#endif
    Program::SetUp();
    if (HasFatalFailure()) return;
    ASSERT_EQ(run("generate small.toml" + larger_).code, 0);
  }

  Outcome train(const std::string& name, const Processes& on, const std::string& more) {
    const std::string keys = larger_ + " optimizer.clip_norm=0.5 checkpoint.keep=12 precision=" + GetParam();
    return run(training(name, more + keys), on.ranks,
               "env OMP_NUM_THREADS=" + std::to_string(on.threads) + " timeout 120");
  }

  /// A run that is killed in the second epoch, when its weights are no longer those of the best validation.
  void expect_same_end_on(const Processes& first, const Processes& second, const std::string& more) {
    ASSERT_EQ(train("whole", first, more).code, 0);
    fs::copy(folder_ / "runs/whole", folder_ / "runs/part",
             fs::copy_options::recursive | fs::copy_options::copy_symlinks);
    for (int step = 10; step <= 24; step += 2)
      ASSERT_TRUE(fs::remove(folder_ / "runs/part" / fmt::format("checkpoint-{:010}.h5", step)));
    const Outcome rest = train("part", second, more + " --resume");
    EXPECT_EQ(rest.code, 0) << rest.err;
    EXPECT_NE(rest.out.find("going on from runs/part/checkpoint-0000000008.h5"), std::string::npos) << rest.out;
    expect_same_end("part");
  }

 private:
  // Wide enough for Winograd's transforms.
  const std::string larger_ = " data.height=32 data.width=32 model.filters=[32,32,8]";
};

TEST_P(ResumeInPrecision, TheNumberOfThreadsMayChange) { expect_same_end_on({1, 3}, {2, 2}, ""); }

TEST_P(ResumeInPrecision, AsManyThreadsEndAlikeInPlainMode) {
  expect_same_end_on({1, 3}, {1, 3}, "train.deterministic=false");
}

INSTANTIATE_TEST_SUITE_P(Precisions, ResumeInPrecision, testing::Values("f32", "bf16"),
                         [](const auto& precision) { return precision.param; });

TEST_F(Resume, RequestsToStopEndTheRunInOrder) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(run(training("whole")).code, 0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  for (const std::string signal : {"TERM", "USR1"}) {
    const std::string name = "stopped_" + signal;
    Outcome outcome;
    int stops = 0;
    // In shorter strides than the steps of the run take together, so that one of the signals comes among them; of runs
    // that a sanitizer makes slow steps take the most, and a tenth of such a run is short enough.
    const double stride_s = whole.count() > 4 ? whole.count() / 10 : 0.02;
    const double longest_s = 20 + 3 * whole.count();  // a machine may be busier than during the first run
    for (double delay_s = 0.2; delay_s < longest_s && outcome.code != 0; delay_s += stride_s) {
      outcome = run(training(name) + " --resume", 1,
                    "timeout --preserve-status -s " + signal + " " + std::to_string(delay_s));
      if (outcome.code == 3) ++stops;
    }
    EXPECT_GT(stops, 0);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    expect_same_end(name);
  }
  const Outcome limited = run(training("limited", "run.wall_time=0.001"));
  EXPECT_EQ(limited.code, 3) << limited.err;
  EXPECT_NE(limited.out.find("stopped by run.wall_time after step 1;"), std::string::npos) << limited.out;
  EXPECT_EQ(run(training("limited") + " --resume").code, 0);
  expect_same_end("limited");
}

TEST_F(Resume, ARequestAfterTheLastStepIsNotLost) {
  ASSERT_EQ(run(training("whole")).code, 0);
  const Outcome evaluating =
      run(training("evaluating"), 1,
          "bash -c '(until [ -e runs/evaluating/checkpoint-0000000024.h5 ]; do sleep 0.01; done; kill "
          "$$) & exec \"$@\"' bash");
  EXPECT_EQ(evaluating.code, 3) << evaluating.err;
  EXPECT_NE(evaluating.out.find("stopped by a signal after step 24;"), std::string::npos) << evaluating.out;
  EXPECT_FALSE(fs::exists(folder_ / "runs/evaluating/report.html"));
  const Outcome rest = run(training("evaluating") + " --resume");
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_TRUE(fs::exists(folder_ / "runs/evaluating/report.html"));
  EXPECT_EQ(text_of(folder_ / "runs/evaluating/evaluation.json"), text_of(folder_ / "runs/whole/evaluation.json"));
  expect_same_end("evaluating");
}

TEST_F(Resume, AKillBetweenACheckpointAndTheLinkToItIsNotSeen) {
  ASSERT_EQ(run(training("whole")).code, 0);
  fs::copy(folder_ / "runs/whole", folder_ / "runs/unlinked", fs::copy_options::recursive);
  fs::remove(folder_ / "runs/unlinked/report.html");
  fs::remove(folder_ / "runs/unlinked/checkpoint.h5");
  fs::create_symlink("checkpoint-0000000022.h5", folder_ / "runs/unlinked/checkpoint.h5");
  EXPECT_EQ(run(training("unlinked") + " --resume").code, 0);
  expect_same_end("unlinked");
}

// No step is left to do then, but the run's state is another one after the validation.
TEST_F(Resume, ARequestDuringTheLastValidationIsNotLost) {
  ASSERT_EQ(run(training("whole")).code, 0);
  fs::copy(folder_ / "runs/whole", folder_ / "runs/validating", fs::copy_options::recursive);
  const std::string path = (folder_ / "runs/validating/checkpoint-0000000024.h5").string();
  Checkpoint checkpoint = load_checkpoint(path);
  nlohmann::json state = nlohmann::json::parse(checkpoint.training);
  ASSERT_GT(state["since_best"], 0);
  state["epoch"] = 3;
  state["epoch_step"] = 6;
  state["validation_due"] = true;
  state["since_best"] = int{state["since_best"]} - 1;
  checkpoint.training = state.dump();
  save_checkpoint(path, checkpoint);
  const Outcome rest = run(training("validating") + " --resume");
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(load_checkpoint(path).training, load_checkpoint((folder_ / "runs/whole/checkpoint.h5").string()).training);
}

TEST_F(Resume, ADamagedCheckpointIsPassedOver) {
  ASSERT_EQ(run(training("whole")).code, 0);
  ASSERT_EQ(run(training("damaged", "run.wall_time=0.001")).code, 3);
  ASSERT_EQ(run(training("damaged", "train.steps=5") + " --resume").code, 0);
  const fs::path newest = folder_ / "runs/damaged/checkpoint-0000000005.h5";
  ASSERT_TRUE(fs::exists(newest));
  fs::resize_file(newest, fs::file_size(newest) / 2);
  const Outcome outcome = run(training("damaged") + " --resume");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("passed over"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("going on from runs/damaged/checkpoint-0000000004.h5"), std::string::npos) << outcome.out;

  // One of a later step than the run is at does not count among the newest that are kept.
  ASSERT_EQ(run(training("whole", "run.wall_time=0.001") + " --overwrite").code, 3);
  std::ofstream(folder_ / "runs/whole/checkpoint-0000000099.h5") << "damaged";
  ASSERT_EQ(run(training("whole", "train.steps=4 checkpoint.keep=1") + " --resume").code, 0);
  EXPECT_TRUE(fs::exists(folder_ / "runs/whole/checkpoint-0000000004.h5"));
  EXPECT_EQ(files("whole", "checkpoint-"), 1U);
}

TEST_F(Resume, AFullDiskLosesNothing) {
  const std::string large = " model.filters=[128,128,128,128]";
  ASSERT_EQ(run(training("whole", "train.steps=3") + large).code, 0);
  // A limit of 6 MiB on the size of files stands for it: the log fits, and the files of MPI; checkpoints do not.
  const std::string rest = training("whole", "train.steps=5") + large + " --resume";
  const Outcome full = run(rest, 1, "bash -c 'trap \"\" XFSZ; ulimit -f 6144; exec \"$@\"' bash");
  EXPECT_EQ(full.code, 1) << full.err;
  EXPECT_NE(full.out.find("no checkpoint after step 4"), std::string::npos) << full.out;
  EXPECT_NE(full.err.find("; it takes 7."), std::string::npos) << full.err;
  EXPECT_EQ(files("whole", ".tmp."), 0U);
  EXPECT_TRUE(fs::exists(folder_ / "runs/whole/checkpoint-0000000003.h5"));
  EXPECT_EQ(run("evaluate runs/whole test.h5").code, 0);
  EXPECT_EQ(run(rest).code, 0);
}

TEST_F(Resume, AnotherRunIsRefused) {
  ASSERT_EQ(run(training("whole", "train.steps=3")).code, 0);
  const auto refused = [&](const std::string& more) {
    const Outcome outcome = run(training("whole", more) + " --resume");
    EXPECT_EQ(outcome.code, 1) << more;
    return outcome.err;
  };
  EXPECT_NE(refused("train.batch=8").find("steps per epoch"), std::string::npos);
  EXPECT_HOLDS(refused("optimizer.name=sgd"),
               "it is of a run with another optimizer; resume with the optimizer.name of its config.toml, or start a "
               "new run from its weights (train.init)");
  for (const char* accepts : {"", " resume.accept_changes=true"}) {  // which would not help
    const std::string error = refused(std::string("model.filters=[4,4]") + accepts);
    EXPECT_HOLDS(error, "another model");
    EXPECT_HOLDS(error, "; changed since: model.filters = [4, 4] (was [4, 4, 4])");
    EXPECT_EQ(error.find("accept"), std::string::npos) << error;
  }
}

TEST_F(Resume, ChangesOfWhatIsLearntAreRefusedUnlessAccepted) {
  ASSERT_EQ(run(training("whole", "train.steps=3")).code, 0);
  const auto resume = [&](const std::string& more) {
    return run(training("whole", "train.steps=4 ") + more + " --resume");
  };
  for (const std::string change : {"data.normalise=none", "augment.roll_phi=false", "precision=bf16"}) {
    const Outcome outcome = resume(change);
    EXPECT_EQ(outcome.code, 1) << change;
    EXPECT_EQ(count(outcome.err, change.substr(0, change.find('=')) + " = "), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find("resume.accept_changes = true"), std::string::npos) << outcome.err;
  }
  // A file replaced in place.
  ASSERT_EQ(run("generate small.toml --overwrite generate.train=100").code, 0);
  const Outcome replaced = resume("");
  EXPECT_EQ(replaced.code, 1);
  EXPECT_NE(replaced.err.find("train.h5 (data.train) is "), std::string::npos) << replaced.err;
  ASSERT_EQ(run("generate small.toml --overwrite").code, 0);
  const Outcome accepted = resume("resume.accept_changes=true");
  EXPECT_EQ(accepted.code, 0) << accepted.err;
  EXPECT_NE(accepted.out.find("and accepted: train.h5 (data.train) is "), std::string::npos) << accepted.out;
  EXPECT_EQ(accepted.out.find("resume.accept_changes = "), std::string::npos) << accepted.out;
  EXPECT_NE(accepted.out.find(" since the last resume, 4 steps in all"), std::string::npos) << accepted.out;
  EXPECT_NE(text_of(folder_ / "runs/whole/report.html").find("training time since the last resume"), std::string::npos);
  const Outcome harmless = resume("train.steps=5 data.threads=2 log.interval=1");
  EXPECT_EQ(harmless.code, 0);
  EXPECT_NE(harmless.out.find("changed since the checkpoint: train.steps = 5 (was 4)"), std::string::npos);
  EXPECT_EQ(count(harmless.out, "changed since the checkpoint"), 1U) << harmless.out;
}

// The best validation of before would be compared with another set's.
TEST_F(Resume, ReplacedValidationAndTestSetsAreRefusedUnlessAccepted) {
  ASSERT_EQ(run(training("whole", "train.steps=3")).code, 0);
  const auto resume = [&](const std::string& more) {
    return run(training("whole", "train.steps=4 ") + more + " --resume");
  };
  for (const auto& [option, file] : {std::pair("data.validation", "val.h5"), std::pair("data.test", "test.h5")}) {
    const auto before = fs::last_write_time(folder_ / file);
    fs::last_write_time(folder_ / file, before + std::chrono::hours(1));
    const Outcome refused = resume("");
    EXPECT_EQ(refused.code, 1) << option;
    EXPECT_NE(refused.err.find(fmt::format(".h5: {} ({}) is ", file, option)), std::string::npos) << refused.err;
    EXPECT_EQ(count(refused.err, " (it was "), 1U) << refused.err;
    fs::last_write_time(folder_ / file, before);
  }
  fs::copy_file(folder_ / "train.h5", folder_ / "val.h5", fs::copy_options::overwrite_existing);
  const Outcome accepted = resume("resume.accept_changes=true");
  EXPECT_EQ(accepted.code, 0) << accepted.err;
  EXPECT_NE(accepted.out.find("and accepted: val.h5 (data.validation) is "), std::string::npos) << accepted.out;
}

}  // namespace
}  // namespace petaflow
