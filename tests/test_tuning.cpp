// kernels.conv = "tune": the fastest of all that accept a pass is kept, for this layer only.
#include <array>
#include <cmath>
#include <set>
#include <vector>

#include "device_memory.hpp"
#include "nn/conv_tuning.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/pool.hpp"
#include "nn/network.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

constexpr std::array<Pass, 3> kPasses = {Pass::kForward, Pass::kBackwardWeights, Pass::kBackwardData};

using Rule = ConvRequest::Rule;

ConvPassOptions& of(ConvStage::Options& stage, Pass pass) { return stage.kernels[static_cast<std::size_t>(pass)]; }
const ConvPassOptions& of(const ConvStage::Options& stage, Pass pass) {
  return stage.kernels[static_cast<std::size_t>(pass)];
}

constexpr std::int64_t kManyTiles = 32768, kFitsCaches = 64;  // rows

/// 3x3, maxima over 2x2, ReLU.
ConvStage::Options stage(std::int64_t height = 256) {
  ConvStage::Options stage;
  stage.name = "conv1";
  ConvDesc& conv = stage.conv;
  conv.n = 2, conv.in_channels = 16, conv.out_channels = 16;
  conv.in = conv.out = {1, height, 64};
  conv.geometry = {{1, 3, 3}, {}, {}, {0, 1, 1}, {0, 1, 1}};
  conv.x_strides = conv.y_strides = Strides::of(conv.in, 16);
  stage.epilogue.v = {2, 16, 1, height, 64};
  stage.epilogue.y = {2, 16, 1, height / 2, 32};
  stage.epilogue.pool = {PoolKind::kMax, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}};
  stage.epilogue.bias = stage.epilogue.activation = true;
  stage.weight = {1000};
  stage.bias = StageParameter{10};
  for (ConvPassOptions& kernels : stage.kernels) kernels.conv.rule = Rule::kTune;
  return stage;
}

/// Names of those that accept the pass.
std::set<std::string> accepting(ConvStage::Options options, Pass pass) {
  std::set<std::string> names;
  const auto impls = conv_impls(pass);
  for (const ConvImpl* impl : impls) {
    of(options, pass).conv = {Rule::kOnly, impl};
    if (impl->why_not(pass, ConvStage::cut(options, pass, Context{}).shapes).empty()) names.insert(impl->name);
  }
  return names;
}

/// The last of every list.
const ConvImpl* const kKokkos = find_conv("kokkos");

/// A tuning that reads no clock: a pass takes as long as `takes` says.
struct Fake : ConvTuning {
  std::vector<std::pair<Pass, ConvPassOptions>> timed;

  explicit Fake(const std::function<double(const ConvPassOptions&)>& takes) {
    seconds = [this, takes](const ConvStage::Options& stage, Pass pass, const Context&, double) {
      timed.emplace_back(pass, of(stage, pass));
      return takes(of(stage, pass));
    };
  }
};

TEST(ConvTuning, KeepsTheFastestOfAllThatAccept) {
  Fake tuning([](const ConvPassOptions& k) { return k.conv.impl == kKokkos ? 1.0 : 2.0; });
  ConvStage::Options tuned = stage();
  tuning.tune(tuned, Context{});
  for (const Pass pass : kPasses) {
    EXPECT_EQ(of(tuned, pass).conv.impl, kKokkos) << name_of(pass);
    EXPECT_TRUE(of(tuned, pass).tiles);
    std::set<std::string> names;
    for (const auto& [timed_pass, kernels] : tuning.timed) {
      if (timed_pass == pass) names.insert(kernels.conv.impl->name);
    }
    EXPECT_EQ(names, accepting(stage(), pass)) << name_of(pass);
    const TunedPass& entry = tuning.table.at(describe_problem(stage(), pass));
    EXPECT_EQ(entry.trials.front().impl, kKokkos);
    EXPECT_DOUBLE_EQ(entry.trials.front().ms, 1000);
    EXPECT_TRUE(describe(entry).ends_with("; kept kokkos")) << describe(entry);
  }
}

TEST(ConvTuning, PassesThatDoNotExistAreNotTimed) {
  Fake tuning([](const ConvPassOptions&) { return 1.0; });
  ConvStage::Options first = stage(), inference = stage();
  first.wants_dx = false;
  inference.backward = false;
  tuning.tune(inference, Context{});
  EXPECT_EQ(tuning.table.size(), 1U);
  tuning.tune(first, Context{});
  EXPECT_EQ(tuning.table.size(), 2U);
}

TEST(ConvTuning, TriesTilesOfOtherSizes) {
  if (!kOnHost) GTEST_SKIP() << "SKIPPED: tiles are for the host";
  const auto kept = [&](const std::function<double(const ConvPassOptions&)>& takes, std::int64_t rows = kManyTiles) {
    Fake tuning([&](const ConvPassOptions& k) { return k.conv.impl == kKokkos ? takes(k) : 9.0; });
    ConvStage::Options tuned = stage(rows);
    tuning.tune(tuned, Context{});
    return of(tuned, Pass::kForward);
  };
  EXPECT_LT(kept([&](const ConvPassOptions& k) { return k.cache_share; }).cache_share, kCacheShare);
  EXPECT_GT(kept([&](const ConvPassOptions& k) { return k.tiles ? 2 - k.cache_share : 3; }).cache_share, kCacheShare);
  EXPECT_FALSE(kept([&](const ConvPassOptions& k) { return k.tiles ? 2.0 : 1.0; }, kFitsCaches).tiles);
  EXPECT_TRUE(kept([&](const ConvPassOptions& k) { return k.tiles ? 2.0 : 1.0; }).tiles) << "a large tensor was made";
  // Almost as fast is not faster.
  EXPECT_EQ(kept([&](const ConvPassOptions& k) { return k.cache_share > kCacheShare ? 0.98 : 1.0; }).cache_share,
            kCacheShare);
  EXPECT_GT(kept([&](const ConvPassOptions& k) { return k.cache_share > kCacheShare ? 0.96 : 1.0; }).cache_share,
            kCacheShare);

  Fake whole([](const ConvPassOptions& k) { return k.tiles ? 1.0 : 2.0; });
  ConvStage::Options without = stage();
  for (ConvPassOptions& kernels : without.kernels) kernels.tiles = false;
  whole.tune(without, Context{});
  EXPECT_FALSE(of(without, Pass::kForward).tiles) << "the user wants none";
}

TEST(ConvTuning, CandidatesAreTimedInTurnsAndTheirBestRoundCounts) {
  std::map<std::string, int> rounds;
  Fake tuning(
      [&](const ConvPassOptions& k) {  // something else runs in the first two rounds, and "kokkos" gets most of it
        const bool busy = rounds[fmt::format("{} {} {}", k.conv.impl->name, k.tiles, k.cache_share)]++ < 2;
        return k.conv.impl == kKokkos ? (busy ? 2.3 : 1) : (busy ? 1.2 : 1.1);
      });
  ConvStage::Options tuned = stage();
  tuned.backward = false;
  tuning.tune(tuned, Context{});
  EXPECT_EQ(of(tuned, Pass::kForward).conv.impl, kKokkos);
  std::vector<std::string> order;
  for (const auto& [pass, kernels] : tuning.timed) order.push_back(kernels.conv.impl->name);
  const std::size_t all = accepting(stage(), Pass::kForward).size();
  for (std::size_t i = 0; i < all; ++i) EXPECT_EQ(order[i], order[all + i]) << "a round is not in turn";
  EXPECT_EQ(std::set<std::string>(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(all)).size(), all);
}

TEST(ConvTuning, RoundsThatDisagreeAreNoted) {
  const auto spread_of = [](std::vector<double> rounds) {  // of what is kept
    std::size_t round = 0;
    Fake tuning([&](const ConvPassOptions& k) {
      return k.conv.impl == kKokkos && k.tiles && k.cache_share == kCacheShare ? rounds.at(round++) : 3.0;
    });
    ConvStage::Options tuned = stage();
    tuned.backward = false;
    tuning.tune(tuned, Context{});
    EXPECT_EQ(of(tuned, Pass::kForward).conv.impl, kKokkos);
    return tuning.table.begin()->second.spread;
  };
  EXPECT_DOUBLE_EQ(spread_of({1, 1, 1, 1}), 0);
  EXPECT_DOUBLE_EQ(spread_of({2, 1, 1, 1}), 0) << "one disturbance is none";
  EXPECT_DOUBLE_EQ(spread_of({1.5, 1, 2, 1.5}), 0.5);
}

TEST(ConvTuning, KnowsALayerAgainAndNoOther) {
  Fake tuning([](const ConvPassOptions& k) { return k.conv.impl == kKokkos ? 1.0 : 2.0; });
  ConvStage::Options tuned = stage();
  tuning.tune(tuned, Context{});

  const auto timed_anew = [&](const std::function<void(ConvStage::Options&)>& change) {
    Fake again([](const ConvPassOptions&) { return 1.0; });
    again.table = tuning.table;
    ConvStage::Options options = stage();
    change(options);
    again.tune(options, Context{});
    return again.timed.size();
  };
  EXPECT_EQ(timed_anew([](auto& s) { s.name = "conv7", s.weight.offset = 0, s.epilogue.dropout = 0.5F; }), 0U);
  EXPECT_GT(timed_anew([](auto& s) { s.conv.n = s.epilogue.v.n = s.epilogue.y.n = 3; }), 0U);
  EXPECT_GT(timed_anew([](auto& s) { s.conv.geometry.pad_end.w = 0, --s.conv.out.w, --s.epilogue.v.w; }), 0U);
  EXPECT_GT(timed_anew([](auto& s) { s.conv.type = s.epilogue.type = DType::kBf16; }), 0U);
  EXPECT_GT(timed_anew([](auto& s) { s.epilogue.pool.kind = PoolKind::kAverage; }), 0U);
  EXPECT_GT(timed_anew([](auto& s) { s.kernels[0].tiles = s.kernels[1].tiles = s.kernels[2].tiles = false; }), 0U);

  ConvStage::Options again = stage();
  Fake silent([](const ConvPassOptions&) { return 1.0; });
  silent.table = tuning.table;
  std::vector<std::string> heard;
  silent.on_choice = [&](const std::string& layer, Pass pass, const std::string&, const TunedPass& choice) {
    heard.push_back(layer + " " + name_of(pass) + " " + choice.trials.front().impl->name);
  };
  silent.tune(again, Context{});
  EXPECT_EQ(heard, (std::vector<std::string>{"conv1 forward kokkos", "conv1 backward_weights kokkos",
                                             "conv1 backward_data kokkos"}));
  for (const Pass pass : kPasses) EXPECT_EQ(of(again, pass).conv.impl, kKokkos);
}

TEST(ConvTuning, ATableCannotForceWhatDoesNotAccept) {
  Fake tuning([](const ConvPassOptions&) { return 1.0; });
  ConvStage::Options tuned = stage();
  if (!kOnHost) GTEST_SKIP() << "SKIPPED: one implementation";
  const ConvImpl* narrow = find_conv("narrow");  // not for 16 channels
  tuning.table[describe_problem(tuned, Pass::kForward)] = {{{narrow, true, 0.5, 1.0}}, "a file"};
  tuning.tune(tuned, Context{});
  EXPECT_NE(of(tuned, Pass::kForward).conv.impl, narrow);
  EXPECT_NE(tuning.table.at(describe_problem(stage(), Pass::kForward)).trials.front().impl, narrow);
}

TEST(ConvTuning, ALookTimesNothing) {
  Fake tuning([](const ConvPassOptions&) { return 1.0; });
  tuning.measures = false;
  ConvStage::Options looked = stage();
  tuning.tune(looked, Context{});
  EXPECT_TRUE(tuning.timed.empty());
  EXPECT_EQ(tuning.unknown, 3);
  EXPECT_EQ(of(looked, Pass::kForward).conv, ConvRequest{});
}

TEST(ConvTuning, TimesRealPasses) {
  ConvStage::Options options = stage();
  options.epilogue.dropout = 0.5F;
  for (const Pass pass : kPasses) {
    for (ConvPassOptions& kernels : options.kernels) kernels.conv = {};
    for (const std::string& name : accepting(options, pass)) {
      of(options, pass).conv = {Rule::kOnly, find_conv(name)};
      const double s = time_conv_pass(options, pass, Context{}, 1e9);
      EXPECT_GT(s, 0) << name;
      EXPECT_LT(s, 10) << name;
    }
  }
}

// A convolution writes y itself where nothing follows it, and copies where something does.
TEST(ConvTuning, WhatFollowsIsPartOfTheProblem) {
  ConvStage::Options without_bias = stage(), into_slice = stage(), both = stage();
  without_bias.bias.reset(), both.bias.reset();
  into_slice.y_is_slice = both.y_is_slice = true;
  std::set<std::string> texts;
  for (const ConvStage::Options& each : {stage(), without_bias, into_slice, both}) {
    texts.insert(describe_problem(each, Pass::kForward));
  }
  EXPECT_EQ(texts.size(), 4U);
}

// A kernel that reads pixels as far apart as the stage says, from a dense tensor, would leave its memory.
TEST(ConvTuning, SlicesAreTimedAsSlices) {
  ConvStage::Options slice = stage();
  slice.conv.x_strides = Strides::of(slice.conv.in, 800);
  for (ConvPassOptions& kernels : slice.kernels) kernels.conv = {};
  for (const Pass pass : kPasses) {
    EXPECT_NE(describe_problem(slice, pass), describe_problem(stage(), pass));
    for (const std::string& name : accepting(slice, pass)) {
      of(slice, pass).conv = {Rule::kOnly, find_conv(name)};
      EXPECT_GT(time_conv_pass(slice, pass, Context{}, 1e9), 0) << name;
    }
  }
}

TEST(ConvTuning, WhatRefusesSlicesIsNeitherTunedNorForced) {
  if (!kOnHost) GTEST_SKIP() << "SKIPPED: one implementation";
  const ConvImpl* narrow = find_conv("narrow");
  ConvStage::Options first = stage();
  first.conv.in_channels = 3;
  first.conv.x_strides = Strides::of(first.conv.in, 3);
  first.wants_dx = false;
  ConvStage::Options slice = first;
  slice.conv.x_strides = Strides::of(slice.conv.in, 5);
  Fake tuning([&](const ConvPassOptions& k) { return k.conv.impl == narrow ? 1.0 : 2.0; });
  ConvStage::Options tuned_first = first, tuned_slice = slice;
  tuning.tune(tuned_first, Context{});
  tuning.tune(tuned_slice, Context{});
  EXPECT_EQ(of(tuned_first, Pass::kForward).conv.impl, narrow);
  EXPECT_NE(of(tuned_slice, Pass::kForward).conv.impl, narrow);
  ConvStage(tuned_slice, Context{});
  EXPECT_EQ(tuning.table.size(), 4U) << "a slice is another pass";

  for (ConvPassOptions& kernels : slice.kernels) kernels.conv = {Rule::kPrefer, narrow};
  EXPECT_TRUE(ConvStage(slice, Context{}).refusals().front().starts_with("conv1: not narrow: for neighbouring pixels"));
  for (ConvPassOptions& kernels : slice.kernels) kernels.conv = {Rule::kOnly, narrow};
  try {
    ConvStage(slice, Context{});
    ADD_FAILURE() << "narrow took a slice";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_TRUE(std::string(error.what()).starts_with("layer conv1: kernels.conv = \"narrow\" does not take its"))
        << error.what();
  }
}

TEST(ConvTuning, ATunedNetworkComputesTheSame) {
  Graph graph({1, 3, 1, 40, 24});
  graph.add<Conv>("conv1", ConvOptions::same_2d(16, 3)).add<Relu>("relu1");
  graph.add<Pool>("pool1", Pool::square(PoolKind::kMax, 2)).add<Conv>("conv2", ConvOptions::same_2d(16, 3));
  const auto outputs = [&](const ConvRequest& conv, ConvTuning* tuning) {
    const Context context;
    Network network(graph, {.batch = 2, .kernels = {.conv = conv}}, context, tuning);
    network.initialise(context, 5);
    std::vector<float> x(static_cast<std::size_t>(network.input().shape.elements()));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    testing_support::to_device(x, network.input());
    Context inference = context;
    inference.training = false;
    network.forward(inference);
    return testing_support::to_host(network.output());
  };
  ConvTuning tuning;
  const std::vector<float> a = outputs({Rule::kTune}, &tuning), b = outputs({Rule::kOnly, kKokkos}, nullptr);
  EXPECT_EQ(tuning.table.size(), 5U);  // three passes, and two of the first layer
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-4) << i;
}

}  // namespace
}  // namespace petaflow
