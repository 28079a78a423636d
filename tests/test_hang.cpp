// Ranks that wait in vain: one that was stopped or killed in the middle of a step ends the run, with its name.
#include <chrono>

#include "program.hpp"

namespace petaflow {
namespace {

class Hang : public Program {
 protected:
  /// Trains on so many ranks and sends the signal to the last one (first: to rank 0) once a file of the run has lines.
  Outcome hurt(int ranks, const std::string& signal, bool first, const std::string& file = "metrics.jsonl",
               const std::string& keys = "train.steps=100000000 run.hang_timeout=2") {
    // bash becomes timeout, whose child is mpirun, whose children are the ranks.
    const std::string victim =
        "$(pgrep -x hep -P \"$(pgrep -d, -P $$)\" | " + std::string(first ? "head" : "tail") + " -n 1)";
    return run("train small.toml run.name=hang train.validate_epochs=0 " + keys, ranks,
               "bash -c 'rm -rf runs/hang; (until [ -s runs/hang/" + file +
                   " ]; do kill -0 $$ || exit; sleep 0.01; done; kill -" + signal + " " + victim +
                   ") & exec timeout -s KILL 60 \"$@\"' bash");
  }
};

TEST_F(Hang, AStoppedRankIsNamed) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const auto start = std::chrono::steady_clock::now();
  const Outcome last = hurt(2, "STOP", false);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_EQ(last.code, 2) << last.err;
  EXPECT_NE(last.err.find("hep: rank 0 ("), std::string::npos) << last.err;
  EXPECT_NE(last.err.find("summing gradients of step "), std::string::npos) << last.err;
  EXPECT_NE(last.err.find("missing: rank 1 ("), std::string::npos) << last.err;

  const Outcome zero = hurt(3, "STOP", true);  // the first witness itself
  EXPECT_EQ(zero.code, 2) << zero.err;
  EXPECT_NE(zero.err.find("missing: rank 0 ("), std::string::npos) << zero.err;
}

// The last evaluation is made long, so that the signal comes in its middle; ranks may be seconds apart there.
TEST_F(Hang, ARankStoppedAtTheEndEndsTheRun) {
  ASSERT_EQ(run("generate small.toml generate.validation=2000").code, 0);
  const Outcome outcome =
      hurt(2, "STOP", false, "performance.json", "train.steps=4 run.hang_timeout=10 model.filters=[512,512,512]");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("last evaluation of step 4 "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("missing: rank 1 ("), std::string::npos) << outcome.err;
}

TEST_F(Hang, AKilledRankEndsTheRun) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const auto start = std::chrono::steady_clock::now();
  const Outcome outcome = hurt(2, "KILL", false);
  EXPECT_NE(outcome.code, 0) << outcome.err;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20)) << "it hung";
  EXPECT_NE(outcome.err.find("rank 1"), std::string::npos) << outcome.err;  // ours, or the launcher's
}

}  // namespace
}  // namespace petaflow
