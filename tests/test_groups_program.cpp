// Training on several ranks as a user meets it: in groups with parameter servers or averages, and with all of [comm]
// and [inject] set.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <regex>
#include <thread>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/checkpoint.hpp"
#include "kept_checkpoints.hpp"
#include "program.hpp"

namespace petaflow {
namespace {

class Groups : public Program {
 protected:
  /// Trains on so many ranks, of which one is stopped once there are metrics; the run ends soon, with a failure.
  Outcome stop_one(const std::string& keys, int ranks, int victim) {
    const auto start = std::chrono::steady_clock::now();
    // bash becomes timeout, whose child is mpirun, whose children are the ranks.
    Outcome outcome = run(
        "train small.toml --overwrite run.name=hang train.validate_epochs=0 train.steps=100000000 " + keys, ranks,
        "bash -c 'rm -rf runs/hang; (until [ -s runs/hang/metrics.jsonl ]; do kill -0 $$ || exit; sleep 0.01; done; "
        "kill -STOP $(pgrep -x hep -P \"$(pgrep -d, -P $$)\" | sed -n " +
            std::to_string(victim + 1) + "p)) & exec timeout -s KILL 60 \"$@\"' bash");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    return outcome;
  }
};

TEST_F(Groups, WithServersTrainAndGoOn) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string groups = " update.groups=2 update.servers=1";
  const Outcome first = run("train small.toml train.steps=5" + groups, 3);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("2 ranks in 2 groups with 1 parameter server"), std::string::npos) << first.out;
  EXPECT_EQ(count(first.out, " 0-2 "), 1U) << "the table of hosts has the server too\n" << first.out;
  EXPECT_NE(text_of(folder_ / "runs/small/report.html").find("Staleness of the gradients"), std::string::npos);
  // On other ranks, and without servers where a step takes as many samples.
  const Outcome more =
      run("train small.toml --resume train.steps=9 update.groups=2 update.servers=5 update.cut_layers=true", 7);
  ASSERT_EQ(more.code, 0) << more.err;
  const Outcome alone = run("train small.toml --resume train.steps=14 train.batch=8", 1);
  ASSERT_EQ(alone.code, 0) << alone.err;
  const Outcome other = run("train small.toml --resume train.steps=20 train.batch=16", 1);
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("with update.groups its part for a group"), std::string::npos) << other.err;
  EXPECT_EQ(run("evaluate runs/small test.h5").code, 0);
  EXPECT_EQ(run("train small.toml --check --overwrite" + groups, 1).code, 0);
  const Outcome checked = run("train small.toml --check --overwrite" + groups, 3);
  EXPECT_EQ(checked.code, 0) << checked.err;
  EXPECT_NE(checked.out.find("2 at a time"), std::string::npos) << checked.out;
}

TEST_F(Groups, WithServersInsideHaveTheBitsOfThoseOnRanksOfTheirOwn) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string inside = " train.deterministic=true update.colocate_servers=true update.groups=2 update.servers=";
  const Outcome first = run("train small.toml train.steps=5" + inside + "3", 4);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("4 ranks in 2 groups with 3 parameter servers among them"), std::string::npos) << first.out;
  ASSERT_EQ(run("train small.toml --resume train.steps=15" + inside + "1", 2).code, 0);
  // All settle where a run ends.
  const std::string apart = " train.deterministic=true update.groups=2 update.servers=2 run.name=apart";
  ASSERT_EQ(run("train small.toml train.steps=5" + apart, 4).code, 0);
  ASSERT_EQ(run("train small.toml --resume train.steps=15" + apart, 4).code, 0);
  const auto checkpoint = [&](const std::string& name) {
    return load_checkpoint((folder_ / "runs" / name / "checkpoint.h5").string());
  };
  testing_support::expect_same(checkpoint("small"), checkpoint("apart"));
  // One group, which is synchronous training, on ranks and alone.
  const std::string one = " train.deterministic=true train.steps=5 run.name=";
  ASSERT_EQ(run("train small.toml" + one + "plain").code, 0);
  for (const int ranks : {1, 4}) {
    const std::string name = "served" + std::to_string(ranks);
    ASSERT_EQ(run("train small.toml update.servers=1 update.colocate_servers=true" + one + name, ranks).code, 0);
    testing_support::expect_same(checkpoint(name), checkpoint("plain"));
  }
}

TEST_F(Groups, WithServersInsideSayOnceThatOneDiverged) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const Outcome outcome =
      run("train small.toml --overwrite optimizer.lr=1e30 optimizer.name=sgd update.groups=2 update.servers=2 "
          "update.colocate_servers=true",
          4, "timeout 60");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(count(outcome.err, "hep: "), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("hep: group "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("the loss is"), std::string::npos) << outcome.err;
}

TEST_F(Groups, EndInOrderAfterASignal) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  for (const auto& [how, ranks] : {std::pair("servers=1", 3), std::pair("average_every=3", 2),
                                   std::pair("servers=2 update.colocate_servers=true", 6),
                                   std::pair("average_every=3 update.average_late=2", 4)}) {
    const std::string name = "grouped" + std::to_string(ranks) + "_" + std::to_string(getpid());  // of no other test
    std::thread batch_system([&] {
      const fs::path log = folder_ / "runs" / name / "metrics.jsonl";
      for (int i = 0; i < 600 && (!fs::exists(log) || fs::file_size(log) == 0); ++i) usleep(100000);
      std::system(("pkill -TERM -f '^[^ ]*/hep train small.toml run.name=" + name + " '").c_str());
    });
    const Outcome outcome = run("train small.toml run.name=" + name +
                                    " train.steps=100000000 log.interval=1 train.validate_epochs=0 update.groups=2 "
                                    "update." +
                                    how,
                                ranks);
    batch_system.join();
    EXPECT_EQ(outcome.code, 3) << outcome.err;
    EXPECT_TRUE(fs::exists(folder_ / "runs" / name / "checkpoint.h5"));
  }
}

TEST_F(Groups, SayOnceThatOneDiverged) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const Outcome outcome =
      run("train small.toml --overwrite optimizer.lr=1e30 optimizer.name=sgd update.groups=2 update.servers=2", 4,
          "timeout 60");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(count(outcome.err, "hep: "), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("hep: group "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("the loss is"), std::string::npos) << outcome.err;
}

TEST_F(Groups, ThatAverageTrainAndGoOn) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string groups = " update.groups=2 update.average_every=2";
  const Outcome first = run("train small.toml train.steps=10" + groups, 2);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("2 ranks in 2 groups x"), std::string::npos) << first.out;
  const Outcome more = run("train small.toml --resume train.steps=14" + groups, 4);
  ASSERT_EQ(more.code, 0) << more.err;
  const Outcome checked = run("train small.toml --check --overwrite" + groups, 2);
  EXPECT_EQ(checked.code, 0) << checked.err;
  const Outcome diverged = run("train small.toml --overwrite optimizer.lr=1e30 optimizer.name=sgd" + groups, 2);
  EXPECT_EQ(diverged.code, 2) << diverged.err;
  EXPECT_EQ(count(diverged.err, "hep: "), 1U) << diverged.err;
  EXPECT_NE(diverged.err.find("the loss is"), std::string::npos) << diverged.err;
}

TEST_F(Groups, ThatAverageLateTrainGoOnAndSayThatOneDiverged) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string groups =
      " log.interval=1 update.groups=2 update.average_every=2 update.average_late=1 update.average_warmup_epochs=1";
  const Outcome first = run("train small.toml train.steps=10" + groups, 2);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_NE(first.out.find("groups average weights after 2 steps of each, and take them 1 step later"),
            std::string::npos)
      << first.out;
  const Outcome more = run("train small.toml --resume train.steps=30" + groups, 4);
  ASSERT_EQ(more.code, 0) << more.err;
  std::ifstream lines(folder_ / "runs/small/metrics.jsonl");
  std::vector<int> steps;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line);
    if (entry.contains("lr")) steps.push_back(entry["step"].get<int>());
  }
  std::vector<int> all(30);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(steps, all);  // each step's loss is known, in order
  const Outcome diverged =
      run("train small.toml --overwrite optimizer.lr=1e30 optimizer.name=sgd train.steps=30 train.batch=4" + groups, 2,
          "timeout 60");
  EXPECT_EQ(diverged.code, 2) << diverged.err;
  EXPECT_EQ(count(diverged.err, "hep: "), 1U) << diverged.err;
  EXPECT_NE(diverged.err.find("the loss is"), std::string::npos) << diverged.err;
}

TEST_F(Groups, WithBadSettingsAreRefused) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string train = "train small.toml ";
  expect_refused(train + "update.groups=2", "set update.servers or update.average_every to 1 or more");
  expect_refused(train + "update.servers=1 update.groups=2", "start 3 ranks", {1, 2});
  expect_refused(train + "update.servers=1 update.groups=2", "start 5 ranks", {4});
  expect_refused(train + "update.servers=2", "start 3 ranks", {1, 2});
  expect_refused(train + "data.train=missing.h5 update.servers=5 update.groups=2",  // before data are read
                 "4 layers with weights, each of which one server keeps; set it to 4 or less, or update.cut_layers to",
                 {7});
  expect_refused(train + "update.cut_layers=true", "while update.servers is 0", {1});
  expect_refused(train + "update.colocate_servers=true", "while update.servers is 0");
  const std::string inside = train + "update.colocate_servers=true update.servers=3 ";
  expect_refused(inside, "one in each, but there are 2 ranks; set update.servers to 2 or less, or start more", {2});
  expect_refused(inside + "update.groups=2", "update.servers takes 0, and 3 are left for update.groups = 2; start 4",
                 {3});
  expect_refused(inside + "update.lag=1", "update.lag = 1", {4});
  expect_refused(inside + "optimizer.ema=0.9", "optimizer.ema = 0.9", {4});
  expect_refused(train + "update.servers=2 update.cut_layers=true optimizer.larc=0.1", "optimizer.larc = 0.1", {1});
  expect_refused(train + "update.servers=2 update.cut_layers=true optimizer.name=lamb", "optimizer.name = \"lamb\"",
                 {1});
  expect_refused(train + "update.servers=1 update.groups=2 train.batch=15", "set it to 16", {3});
  expect_refused(train + "update.servers=1 update.groups=2 train.batch=36 train.deterministic=true train.shards=12",
                 "found a batch of 36 and 12 shards for each of 2 groups; set train.batch to 48", {3});
  expect_refused(train + "update.servers=1 update.lag=1", "update.lag = 1", {2});
  expect_refused(train + "update.servers=1 update.sharded=true", "update.sharded = true", {2});
  expect_refused(train + "update.servers=1 optimizer.clip_norm=1", "optimizer.clip_norm = 1", {2});
  expect_refused(train + "update.servers=1 comm.reduction=ring", "comm.reduction = \"ring\"", {2});
  expect_refused(train + "update.average_every=2", "update.groups is 1", {1});
  expect_refused(train + "update.average_every=2 update.groups=2", "start 2 ranks", {1});
  expect_refused(train + "update.average_every=2 update.groups=2 update.servers=1", "both say how", {3});
  expect_refused(train + "update.average_every=2 update.groups=2 update.lag=1", "update.lag = 1", {2});
  expect_refused(train + "update.average_late=1", "update.average_late = 1 does nothing while", {1});
  expect_refused(train + "update.average_warmup_epochs=1", "update.average_warmup_epochs = 1 does nothing while", {1});
  expect_refused(train + "update.servers=1 update.average_cooldown_epochs=2", "set update.average_every, or leave",
                 {1});
  expect_refused(train + "update.average_every=2 update.average_late=3 update.groups=2", "set it to 2 or less", {1});
  expect_refused(train + "update.order=backwards", "\"arrival\", \"ticket\"", {1});
  expect_refused(train + "inject.slow_rank=2 inject.slow_factor=2", "the ranks are 0 to 1", {2});
  expect_refused("bench small.toml update.servers=1", "update.servers=0");
  expect_refused("bench small.toml update.groups=2 update.average_every=2", "update.groups=1", {2});
  expect_refused(train + "update.order=ticket", "update.order = \"ticket\" does nothing while update.servers is 0",
                 {1});
  expect_refused(train + "comm.norm_ranks=2", "comm.norm_ranks = 2 says over how many ranks", {2});
  expect_refused(train + "update.max_staleness=2", "update.max_staleness = 2 does nothing while update.servers is 0");
  expect_refused(train + "update.servers=1 update.groups=2 update.max_staleness=2 update.order=ticket",
                 "update.max_staleness = 2 does nothing while update.order is \"ticket\"", {3});
  expect_refused(train + "update.servers=1 update.groups=2 update.max_staleness=2 train.deterministic=true",
                 "update.max_staleness = 2 does nothing with train.deterministic", {3});
  expect_refused(train + "update.servers=1 comm.bucket_mb=2",
                 "comm.bucket_mb = 2 does nothing while update.servers is 1", {2});
  expect_refused(train + "train.deterministic=true comm.wire=bf16",
                 "comm.wire = \"bf16\" numbers are rounded on their way between them; set comm.wire to \"f32\"");
  expect_refused(train + "train.epochs=1 train.batch=6 update.lag=16",
                 "the 16 steps of the run would change no weights");
  expect_refused(train + "update.tune_groups=3", "update.tune_groups = 3 does nothing while update.servers is 0", {1});
  expect_refused(train + "update.tune_groups=3 update.groups=2 update.average_every=2",
                 "update.tune_groups = 3 does nothing while update.servers is 0", {2});
  expect_refused(train + "update.tune_groups=3 update.servers=1",
                 "update.tune_groups = 3 does nothing while update.groups is 1", {2});
  expect_refused(train + "update.tune_epochs=2", "update.tune_epochs = 2 does nothing while update.tune_groups is 0",
                 {1});
  const std::string tuned = train + "update.tune_groups=3 update.servers=1 ";
  expect_refused(tuned + "update.groups=2 optimizer.name=yellowfin", "\"yellowfin\" does by itself", {3});
  expect_refused(tuned + "update.groups=2 optimizer.name=sgd optimizer.momentum=0", "there is none", {3});
  expect_refused(tuned + "update.groups=2 optimizer.larc=0.1 optimizer.larc_form=sc18", "\"sc18\" divides by", {3});
  expect_refused(tuned + "update.groups=2 mllog=true", "set update.tune_groups, which is 3, to 0", {3});
  expect_refused(tuned + "update.groups=2 update.colocate_servers=true",
                 "which ranks have servers inside depends on the number of groups", {2});
  expect_refused(tuned + "update.groups=4 train.batch=8", "down to 1 group with a train.batch of 2", {5});
  expect_refused(tuned + "update.groups=2 update.tune_groups=13", "more than the 12 of an epoch", {3});
  expect_refused(train + "update.servers=1 update.groups=3 update.max_staleness=1 train.batch=24",
                 "set it to 2 or more", {4});
}

TEST_F(Groups, AreTunedAndGoOnAfterAStop) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string tuned =
      " train.steps=30 train.deterministic=true train.shards=4 optimizer.name=sgd optimizer.lr=2 update.groups=4 "
      "update.servers=1 update.tune_groups=6 run.name=";
  const Outcome whole = run("train small.toml" + tuned + "whole", 5);
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("tuning: 4 groups, momentum 0, learning rate 2: loss "), std::string::npos) << whole.out;
  EXPECT_NE(whole.out.find("tuning: the best momentum is 0: 2 groups from now on"), std::string::npos) << whole.out;
  EXPECT_NE(whole.out.find("tuning: going on with "), std::string::npos) << whole.out;
  std::ifstream lines(folder_ / "runs/whole/metrics.jsonl");
  std::size_t trials = 0, chosen = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto entry = nlohmann::json::parse(line);
    trials += entry.contains("tuning") ? 1 : 0;
    chosen += entry.contains("tuning") && entry["tuning"]["chosen"].get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(chosen, 2U);  // at the beginning of both epochs
  EXPECT_GT(trials, 16U);
  EXPECT_EQ(trials % 8, 0U);
  EXPECT_NE(text_of(folder_ / "runs/whole/report.html").find("Trials of update.tune_groups"), std::string::npos);
  const std::string config = text_of(folder_ / "runs/whole/config.toml");
  EXPECT_NE(config.find("\ngroups = 4\n"), std::string::npos) << config;
  EXPECT_NE(config.find("\nbatch = 16\n"), std::string::npos) << config;

  // Within the first trial, and in the second epoch, with other groups than those of the input.
  const Outcome stopped = run("train small.toml" + tuned + "part run.wall_time=0.001", 5);
  EXPECT_EQ(stopped.code, 3) << stopped.err;
  EXPECT_NE(stopped.out.find("stopped by run.wall_time after step 0;"), std::string::npos) << stopped.out;
  ASSERT_EQ(run("train small.toml --resume" + tuned + "part train.steps=26", 5).code, 0);
  const Outcome rest = run("train small.toml --resume" + tuned + "part", 5);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_NE(rest.out.find(": update.tune_groups has come down to "), std::string::npos) << rest.out;
  const Checkpoint a = load_checkpoint((folder_ / "runs/whole/checkpoint.h5").string()),
                   b = load_checkpoint((folder_ / "runs/part/checkpoint.h5").string());
  ASSERT_EQ(a.weights.size(), b.weights.size());
  for (std::size_t i = 0; i < a.weights.size(); ++i) EXPECT_EQ(a.weights[i].values, b.weights[i].values);
}

TEST_F(Groups, EndWhereMessagesAreLost) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string train =
      "train small.toml run.name=lost train.steps=100000000 run.hang_timeout=2 inject.drop=0.001 ";
  const std::vector<std::pair<std::string, int>> schemes = {
      {"comm.overlap=false", 2},
      {"update.sharded=true", 2},
      {"update.groups=2 update.servers=1", 3},
      {"update.groups=2 update.servers=1 update.colocate_servers=true", 2}};
  for (const auto& [options, ranks] : schemes) {
    const auto start = std::chrono::steady_clock::now();
    const Outcome outcome = run(train + options + " --overwrite", ranks, "timeout -s KILL 60");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(40)) << options;
    EXPECT_EQ(outcome.code, 2) << options << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("wait"), std::string::npos) << options << ": " << outcome.err;
  }
}

// The launcher ends the other ranks for the death of one: it is asked to leave them the time to say what they wait for.
TEST_F(Groups, NameAKilledServerAndALayer) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const auto start = std::chrono::steady_clock::now();
  // Rank 3 serves no steps, but layers alone.
  const Outcome outcome =
      run("train small.toml run.name=killed train.validate_epochs=0 train.steps=100000000 run.hang_timeout=2 "
          "update.groups=2 update.servers=2 inject.kill_rank=3 inject.kill_s=1",
          4, "env OMPI_MCA_odls_base_sigkill_timeout=5 timeout -s KILL 60");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_TRUE(outcome.code == 128 + 9 || outcome.code == 2) << outcome.code;  // the launcher's, or ours
  const std::regex words("has waited [0-9.]+ s for an answer, .*(asking|to) server 1 \\(rank 3\\)");
  EXPECT_TRUE(std::regex_search(outcome.err, words)) << outcome.err;
  EXPECT_TRUE(std::regex_search(outcome.err, std::regex("server 1 .* for (conv|fc)|push of (conv|fc)"))) << outcome.err;
}

// Of the first messages of all: ranks that wait for each other, and know that nobody is elsewhere.
TEST_F(Groups, OrNoneSayThatAMessageWasLost) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const Outcome outcome =
      run("train small.toml run.name=lost run.hang_timeout=2 inject.drop=1", 2, "timeout -s KILL 60");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("missing: nobody, all are in this operation, as where a message was lost"),
            std::string::npos)
      << outcome.err;
  EXPECT_FALSE(fs::exists(folder_ / "runs/lost/checkpoint.h5"));
}

TEST_F(Groups, OrNoneTakeCommAndInjectFromTheInputFile) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string comm =
                        "[comm]\nbucket_mb = 0.0001\nreduction = \"tree\"\nwire = \"bf16\"\norder = \"fixed\"\n"
                        "overlap = false\nnorm_ranks = 0\n",
                    inject =
                        "[inject]\nlatency_ms = 30.0\nbandwidth_mb_s = 1.0\njitter = 0.1\nslow_rank = 1\n"
                        "slow_factor = 3.0\nstraggle = 0.2\nseed = 7\n";
  const auto losses_of = [&](const std::string& name) {
    const Outcome outcome = run("train small.toml train.steps=4 log.interval=1 run.name=" + name, 2);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::ifstream lines(folder_ / "runs" / name / "metrics.jsonl");
    std::string losses;
    for (std::string line; std::getline(lines, line);) losses += nlohmann::json::parse(line)["loss"].dump() + " ";
    return std::pair(losses, outcome.out);
  };
  const auto [plain, by_default] = losses_of("plain");
  EXPECT_NE(by_default.find("gradients are summed over ranks in 1 bucket of "), std::string::npos) << by_default;
  EXPECT_NE(by_default.find(", sent as f32, while backward goes on\n"), std::string::npos) << by_default;

  write_input(comm + inject);
  const auto [set, out] = losses_of("set");
  EXPECT_NE(out.find("(mpi, delayed)"), std::string::npos) << out;
  EXPECT_NE(out.find("gradients are summed over ranks in 3 buckets of "), std::string::npos) << out;
  EXPECT_NE(out.find(" by tree, sent as bf16, after backward\n"), std::string::npos) << out;
  EXPECT_NE(set, plain);  // gradients lost bits on the wire
  const std::string config = text_of(folder_ / "runs/set/config.toml");
  EXPECT_NE(config.find(comm + "\n" + inject), std::string::npos) << config;
  // The sum of a step's losses and that of its gradients take a message each at the least, no jitter halves those.
  const auto performance = nlohmann::json::parse(text_of(folder_ / "runs/set/performance.json"));
  EXPECT_GE(performance["seconds"].get<double>(), 4 * 0.030 / 2);

  write_input(comm);
  EXPECT_EQ(losses_of("undelayed").first, set);  // delays change no bit
}

TEST_F(Groups, NameAStoppedServer) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  // Of two ranks the first one leads group 0, which has the server inside; the others wait for it.
  for (const auto& [keys, ranks, victim] : {std::tuple("", 3, 2), std::tuple("update.colocate_servers=true", 2, 0)}) {
    const Outcome outcome =
        stop_one("run.hang_timeout=2 update.groups=2 update.servers=1 " + std::string(keys), ranks, victim);
    // In a step, or where all settle.
    const std::string peer = "(rank " + std::to_string(victim) + ")";
    EXPECT_TRUE(outcome.err.find("server 0 " + peer) != std::string::npos ||
                outcome.err.find("coordinator " + peer) != std::string::npos ||
                outcome.err.find("missing: rank 0 (") != std::string::npos)
        << outcome.err;
  }
}

TEST_F(Groups, NameAStoppedWorker) {
  ASSERT_EQ(run("generate small.toml generate.train=16000").code, 0);
  const std::string groups = "run.hang_timeout=3 train.batch=4 update.groups=2 update.servers=1 checkpoint.interval=0 ";
  // By arrival nobody waits for the worker before the epoch ends, which is long; by ticket the others wait for a
  // server.
  for (const auto& [keys, ranks, victim, named] :
       {std::tuple("update.order=arrival", 3, 1, "group 1 (rank 1 ("),
        std::tuple("update.order=ticket", 3, 1, "group 1 (rank 1 ("),
        std::tuple("update.order=ticket", 5, 1, "group 0 (rank 0 ("),
        std::tuple("update.order=arrival update.colocate_servers=true", 2, 1, "group 1 (rank 1 (")}) {
    const Outcome outcome = stop_one(groups + keys, ranks, victim);
    EXPECT_NE(outcome.err.find(", which deals out steps, waits for " + std::string(named)), std::string::npos)
        << keys << outcome.err;
    EXPECT_NE(outcome.err.find("): its last report was 2."), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(" s ago, it is at step "), std::string::npos) << outcome.err;
    // The first to speak; whom the launcher ends then says for whom it waits.
    EXPECT_LT(outcome.err.find(", which deals out steps"), outcome.err.find(" has waited ")) << outcome.err;
  }
}

}  // namespace
}  // namespace petaflow
