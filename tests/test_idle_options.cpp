// Options that do nothing beside the others.
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "config_fixture.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using config_test::Config, config_test::Options;

TEST_F(Config, OptionsThatDoNothingAreRefused) {
  double jitter = 0, latency = 0;
  std::string limit;
  schema_.add("net.jitter", jitter);
  schema_.add("net.latency", latency);
  schema_.add("net.limit", limit);
  schema_.add_use({"optimizer.lr"}, "optimizer.name", {"adam"});
  schema_.add_use({"train.seed"}, "train.deterministic");
  schema_.add_use({"net.jitter"}, {UsedBy{"net.latency"}, UsedBy{"net.limit", {"high", "low"}}});
  // Loaded anew, as a program does.
  const auto idle = [&](const std::string& text, const std::vector<std::string>& overrides = {}) {
    Schema schema = schema_;
    Options fresh;
    options_ = fresh, jitter = latency = 0, limit = "";
    schema.load(write(text), overrides);
    try {
      return fmt::format("{}", fmt::join(schema.drop_idle(), "; "));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      return std::string("refused: ") + error.what();
    }
  };
  const std::string file = "[optimizer]\nname = \"sgd\"\nlr = 2.0",
                    sentence = "optimizer.lr = 2.0 does nothing while optimizer.name is \"sgd\"";
  const std::string refused =
      "refused: " + sentence + "; set optimizer.name to \"adam\", or leave optimizer.lr at 0.001";
  EXPECT_EQ(idle(file), refused);
  EXPECT_EQ(idle("[optimizer]\nname = \"sgd\"", {"optimizer.lr=2"}), refused);
  EXPECT_EQ(idle("", {"optimizer.name=sgd", "optimizer.lr=2"}), refused);
  EXPECT_EQ(idle("[optimizer]\nlr = 2", {"optimizer.name=sgd"}), sentence);  // a file, and another choice for one run
  EXPECT_EQ(idle(file, {"optimizer.name=adam"}), "");
  EXPECT_EQ(idle("[optimizer]\nlr = 2"), "");
  EXPECT_EQ(idle("[optimizer]\nname = \"sgd\"\nlr = 1e-3"), "");  // the default
  EXPECT_EQ(idle("[train]\nseed = 2"),
            "refused: train.seed = 2 does nothing while train.deterministic is false; set "
            "train.deterministic, or leave train.seed at 1");
  EXPECT_EQ(idle("[train]\nseed = 2\ndeterministic = true"), "");
  EXPECT_EQ(idle("[net]\njitter = 0.5"),
            "refused: net.jitter = 0.5 does nothing while net.latency is 0.0 and net.limit is \"\"; set net.latency or "
            "net.limit to \"high\" or \"low\", or leave net.jitter at 0.0");
  EXPECT_EQ(idle("[net]\njitter = 0.5\nlatency = 1"), "");
  EXPECT_EQ(idle("[net]\njitter = 0.5\nlimit = \"low\""), "");
  // What only the command line has made idle is as if it had not been set.
  EXPECT_NE(idle("[net]\njitter = 0.5\nlatency = 1", {"net.latency=0"}), "");
  EXPECT_EQ(jitter, 0);
  EXPECT_THROW(schema_.add_use({"net.jitter"}, "net.latenci"), Error);
  EXPECT_THROW(schema_.add_use({"net.jiter"}, "net.latency"), Error);
}

TEST_F(Config, OptionsNeedAllThatPutsThemToUseUnlessTheyAreNeutral) {
  double momentum = 0.9;
  bool nesterov = false, overlap = true;
  schema_.add("optimizer.momentum", momentum);
  schema_.add("optimizer.nesterov", nesterov);
  schema_.add("comm.overlap", overlap);
  schema_.add_use({"optimizer.momentum", "optimizer.nesterov"}, "optimizer.name", {"sgd"});
  schema_.add_neutral("optimizer.momentum", 0.0);
  schema_.add_use({"optimizer.nesterov"}, "optimizer.momentum");
  schema_.add_use_on_ranks({"comm.overlap"});
  const auto idle = [&](const std::vector<std::string>& overrides, int ranks = 0) {
    Schema schema = schema_;
    options_ = {}, momentum = 0.9, nesterov = false, overlap = true;
    schema.load("", overrides);
    try {
      return fmt::format("{}", fmt::join(schema.drop_idle(ranks), "; "));
    } catch (const Error& error) {
      return std::string("refused: ") + error.what();
    }
  };
  EXPECT_HOLDS(idle({"optimizer.momentum=0.5"}),
               "refused: optimizer.momentum = 0.5 does nothing while optimizer.name is ");
  EXPECT_EQ(idle({"optimizer.momentum=0"}), "");
  EXPECT_EQ(idle({"optimizer.momentum=0.9"}), "");
  EXPECT_HOLDS(idle({"optimizer.nesterov=true"}),
               "refused: optimizer.nesterov = true does nothing while optimizer.name");
  EXPECT_EQ(idle({"optimizer.nesterov=true", "optimizer.name=sgd"}), "");  // of the momentum that is the default
  EXPECT_HOLDS(idle({"optimizer.nesterov=true", "optimizer.name=sgd", "optimizer.momentum=0"}),
               "refused: optimizer.nesterov = true does nothing while optimizer.momentum is 0.0");
  EXPECT_EQ(idle({"comm.overlap=false"}, 2), "");
  EXPECT_EQ(idle({"comm.overlap=false"}), "");
  EXPECT_EQ(idle({"comm.overlap=true"}, 1), "");
  EXPECT_EQ(idle({"comm.overlap=false"}, 1), "comm.overlap = false does nothing on one rank");
  EXPECT_FALSE(overlap);  // a checkpoint goes on with it on more
  EXPECT_THROW(schema_.add_neutral("optimizer.momentun", 0.0), Error);
  EXPECT_THROW(schema_.add_neutral("optimizer.momentum", std::string("none")), Error);
}

}  // namespace
}  // namespace petaflow
