// Metrics of a two-class score against brute force, scikit-learn and cases counted by hand.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/random.hpp"
#include "metrics/classification.hpp"
#include "report/metric_json.hpp"

namespace petaflow {
namespace {

// Normal scores, signal shifted by `shift`, rounded to 1/steps so that there are ties; weights as asked.
ScoredSet normal_set(int events, double signal_share, double shift, double steps, bool weighted, int sample = 0) {
  ScoredSet set;
  for (int i = 0; i < events; ++i) {
    RandomSequence draw(random_stream(7, RandomPurpose::kGenerate, static_cast<std::uint64_t>(sample)),
                        static_cast<std::uint64_t>(i));
    set.label.push_back(draw.uniform() < signal_share ? 1 : 0);
    set.score.push_back(static_cast<float>(std::round((draw.normal() + shift * set.label.back()) * steps) / steps));
    if (weighted) set.weight.push_back(draw.exponential());
  }
  return set;
}

ClassificationOptions no_bootstrap(std::vector<double> rates = {}) {
  ClassificationOptions options;
  options.background_rates = std::move(rates);
  options.replicas = 0;
  options.min_background = 0;
  return options;
}

double brute_force_auc(const ScoredSet& set) {
  double won = 0, all = 0;
  for (std::size_t i = 0; i < set.score.size(); ++i) {
    for (std::size_t j = 0; j < set.score.size(); ++j) {
      if (set.label[i] != 1 || set.label[j] != 0) continue;
      const double w = set.weight.empty() ? 1 : set.weight[i] * set.weight[j];
      all += w;
      if (set.score[i] > set.score[j]) won += w;
      if (set.score[i] == set.score[j]) won += w / 2;
    }
  }
  return won / all;
}

TEST(Classification, AucOfBruteForce) {
  for (const bool weighted : {false, true}) {
    for (const double steps : {1.0, 4.0, 1e6}) {
      const ScoredSet set = normal_set(700, 0.4, 0.8, steps, weighted);
      EXPECT_NEAR(*classify(set, no_bootstrap()).auc.value, brute_force_auc(set), 1e-12) << weighted << " " << steps;
    }
  }
}

// import numpy as np; from sklearn.metrics import roc_auc_score, accuracy_score, roc_curve
// i = np.arange(1, 201); label = i * i * 7 % 31 % 2; weight = 0.25 + i * 13 % 19 / 8
// score = ((i * 37 % 101 * 60 // 101 + 30 * label + i * i % 17 * 10 // 17) / 100).astype(np.float32)
// for w in (None, weight):
//     f, t, _ = roc_curve(label, score, sample_weight=w, drop_intermediate=False)
//     print(roc_auc_score(label, score, sample_weight=w), accuracy_score(label, score >= 0.5, sample_weight=w),
//           *[t[f <= r][-1] for r in (0.1, 0.3)], len(f))
TEST(Classification, NumbersOfScikitLearn) {
  ScoredSet set;
  std::vector<double> weight;
  for (int i = 1; i <= 200; ++i) {
    const int label = i * i * 7 % 31 % 2;
    set.label.push_back(label);
    set.score.push_back(static_cast<float>((i * 37 % 101 * 60 / 101 + 30 * label + i * i % 17 * 10 / 17) / 100.0));
    weight.push_back(0.25 + i * 13 % 19 / 8.0);
  }
  const ClassificationReport plain = classify(set, no_bootstrap({0.1, 0.3}));
  EXPECT_EQ(plain.signal_events, 77);
  EXPECT_EQ(plain.background_events, 123);
  EXPECT_NEAR(*plain.auc.value, 0.8759370710590222, 1e-14);
  EXPECT_NEAR(*plain.accuracy.value, 0.755, 1e-14);
  EXPECT_NEAR(*plain.at_rates[0].signal_efficiency.value, 0.5844155844155844, 1e-14);
  EXPECT_NEAR(*plain.at_rates[1].signal_efficiency.value, 0.7662337662337663, 1e-14);
  EXPECT_EQ(roc_curve(set).size(), 85U);

  set.weight = weight;
  const ClassificationReport weighted = classify(set, no_bootstrap({0.1, 0.3}));
  EXPECT_NEAR(*weighted.auc.value, 0.9145339944136034, 1e-14);
  EXPECT_NEAR(*weighted.accuracy.value, 0.8075523202911737, 1e-14);
  EXPECT_NEAR(*weighted.at_rates[0].signal_efficiency.value, 0.6729857819905213, 1e-14);
  EXPECT_NEAR(*weighted.at_rates[1].signal_efficiency.value, 0.9158767772511849, 1e-14);
}

// Scores from the top: S 0.9, S 0.8, B 0.7, (S, B) 0.6, S 0.4, B 0.3, B 0.2: four of each.
const ScoredSet kByHand = {{0.2F, 0.9F, 0.6F, 0.8F, 0.3F, 0.6F, 0.4F, 0.7F}, {0, 1, 1, 1, 0, 0, 1, 0}, {}};

TEST(Classification, RocCountedByHand) {
  const std::vector<RocPoint> roc = roc_curve(kByHand);
  const std::vector<std::pair<double, double>> expected = {{0, 0},      {0, 0.25}, {0, 0.5},  {0.25, 0.5},
                                                           {0.5, 0.75}, {0.5, 1},  {0.75, 1}, {1, 1}};
  ASSERT_EQ(roc.size(), expected.size());
  for (std::size_t i = 0; i < roc.size(); ++i) {
    EXPECT_EQ(roc[i].background_rate, expected[i].first) << i;
    EXPECT_EQ(roc[i].signal_efficiency, expected[i].second) << i;
  }
  EXPECT_TRUE(std::isinf(roc[0].threshold));
  EXPECT_EQ(roc[3].threshold, double{0.7F});
}

TEST(Classification, EfficiencyCountedByHand) {
  const ClassificationReport report = classify(kByHand, no_bootstrap({0, 0.2499, 0.25, 0.4999, 0.5, 1}));
  const std::vector<double> efficiency = {0.5, 0.5, 0.5, 0.5, 1, 1};
  const std::vector<float> threshold = {0.8F, 0.8F, 0.7F, 0.7F, 0.4F, 0.2F};
  for (std::size_t i = 0; i < efficiency.size(); ++i) {
    EXPECT_EQ(report.at_rates[i].signal_efficiency.value, efficiency[i]) << i;
    EXPECT_EQ(report.at_rates[i].threshold, double{threshold[i]}) << i;
  }
  EXPECT_EQ(report.accuracy.value, 5.0 / 8);
  EXPECT_EQ(report.auc.value, 12.5 / 16);
  EXPECT_FALSE(report.auc.error);
}

TEST(Classification, TiesAboveTheRateGiveNothing) {
  ScoredSet set;
  for (int i = 0; i < 200; ++i) {
    set.label.push_back(i % 2);
    set.score.push_back(i < 100 ? 1.0F : 0.0F);
  }
  const EfficiencyAtRate point = classify(set, no_bootstrap({0.49})).at_rates[0];
  EXPECT_EQ(point.signal_efficiency.value, 0.0);
  EXPECT_TRUE(std::isinf(*point.threshold));
}

TEST(Classification, TooFewBackgroundEventsForARate) {
  ClassificationOptions options = no_bootstrap({0.01});
  options.min_background = 10;
  const auto point = [&](int background, double weight_of_best) {
    ScoredSet set{{2.0F}, {1}, {1.0}};
    for (int i = 0; i < background; ++i) {
      set.score.push_back(1 - static_cast<float>(i) / static_cast<float>(background));
      set.label.push_back(0);
      set.weight.push_back(i == 0 ? weight_of_best : 1);
    }
    return classify(set, options).at_rates[0].signal_efficiency;
  };
  EXPECT_EQ(point(1000, 1).value, 1.0);
  EXPECT_FALSE(point(999, 1).value);
  EXPECT_EQ(point(999, 1).reason,
            "a background rate of 0.01 needs at least 10 effective background events above the threshold; 999 "
            "background events give 9.99");
  // One event that weighs as much as the 20 that may pass: the threshold hangs on it alone.
  EXPECT_TRUE(point(2000, 1).value);
  EXPECT_FALSE(point(2000, 100).value);
  EXPECT_FALSE(point(2000, 15).value);
}

TEST(Classification, MissingClassesHaveReasons) {
  const ClassificationReport none = classify({}, {});
  EXPECT_EQ(none.accuracy.reason, "no events");
  EXPECT_FALSE(none.accuracy.value);
  const ClassificationReport signal = classify({{0.7F, 0.2F}, {1, 1}, {}}, {});
  EXPECT_EQ(signal.accuracy.value, 0.5);
  EXPECT_EQ(signal.auc.reason, "no background events");
  EXPECT_EQ(signal.at_rates[0].signal_efficiency.reason, "no background events");
  const ClassificationReport background = classify({{0.7F, 0.2F}, {0, 0}, {}}, {});
  EXPECT_EQ(background.auc.reason, "no signal events");
  EXPECT_EQ(background.at_rates[2].signal_efficiency.reason, "no signal events");
  const ClassificationReport weightless = classify({{0.7F, 0.2F}, {0, 1}, {0, 1}}, {});
  EXPECT_EQ(weightless.auc.reason, "an event class has no weight");
  EXPECT_FALSE(weightless.auc.value);
  EXPECT_THROW(roc_curve({{0.7F}, {1}, {}}), Error);
}

TEST(Classification, RefusesWhatIsNotANumber) {
  const auto error = [](const ScoredSet& set) {
    try {
      classify(set);
    } catch (const Error& e) {
      return std::pair(e.kind(), std::string(e.what()));
    }
    return std::pair(ErrorKind::kUser, std::string("no error"));
  };
  EXPECT_EQ(error({{0.1F, NAN}, {0, 1}, {}}),
            std::pair(ErrorKind::kFailure, std::string("the score of event 1 is NaN")));
  EXPECT_EQ(error({{0.1F, 1}, {0, 2}, {}}),
            std::pair(ErrorKind::kUser, std::string("event 1 must have label 0 or 1, found 2")));
  EXPECT_EQ(error({{0.1F, 1}, {0, 1}, {1, -2}}),
            std::pair(ErrorKind::kUser, std::string("event 1 must have a weight of at least 0, found -2")));
  EXPECT_EQ(error({{0.1F, 1}, {0}, {}}).first, ErrorKind::kFailure);
}

TEST(Classification, BootstrapErrorsAgreeWithTheFormulas) {
  const int n = 4000;
  const ScoredSet set = normal_set(n, 0.5, 2, 1e6, false);
  ClassificationOptions options;
  options.threshold = 1;
  options.replicas = 1000;
  options.background_rates = {0.1};
  const ClassificationReport report = classify(set, options);
  const double a = *report.accuracy.value, auc = *report.auc.value;
  EXPECT_NEAR(*report.accuracy.error, std::sqrt(a * (1 - a) / n), 0.08 * *report.accuracy.error);
  // Hanley and McNeil, Radiology 143 (1982) 29.
  const double q1 = auc / (2 - auc), q2 = 2 * auc * auc / (1 + auc), s = static_cast<double>(report.signal_events),
               b = static_cast<double>(report.background_events);
  const double variance = (auc * (1 - auc) + (s - 1) * (q1 - auc * auc) + (b - 1) * (q2 - auc * auc)) / (s * b);
  EXPECT_NEAR(*report.auc.error, std::sqrt(variance), 0.12 * std::sqrt(variance));
}

// At a background rate the error scatters from sample to sample (the local density is estimated too): the mean of 30.
TEST(Classification, BootstrapErrorAtARateAgreesWithTheFormula) {
  double error = 0, expected = 0;
  ClassificationOptions options;
  options.background_rates = {0.1};
  for (int sample = 0; sample < 30; ++sample) {
    const ClassificationReport report = classify(normal_set(4000, 0.5, 2, 1e6, false, sample), options);
    const double e = *report.at_rates[0].signal_efficiency.value, t = *report.at_rates[0].threshold;
    const double slope = std::exp(2 * t - 2);  // of the ROC curve: density of signal over background
    error += *report.at_rates[0].signal_efficiency.error;
    expected += std::sqrt(e * (1 - e) / static_cast<double>(report.signal_events) +
                          slope * slope * 0.1 * 0.9 / static_cast<double>(report.background_events));
  }
  EXPECT_NEAR(error, expected, 0.08 * expected);
}

TEST(Classification, BootstrapIsReproducibleAndFollowsTheSeed) {
  const ScoredSet set = normal_set(500, 0.5, 1, 1e6, true);
  ClassificationOptions options;
  const double error = *classify(set, options).auc.error;
  EXPECT_EQ(*classify(set, options).auc.error, error);
  options.seed = 1;
  EXPECT_NE(*classify(set, options).auc.error, error);
}

TEST(Classification, ASelectionEqualToTheScoreDiffersInNoReplica) {
  const ScoredSet set = normal_set(3000, 0.5, 1.5, 1e6, false);
  std::vector<std::uint8_t> cuts, noise;
  double all[2] = {0, 0}, passed[2] = {0, 0};
  for (std::size_t i = 0; i < set.score.size(); ++i) {
    cuts.push_back(set.score[i] >= 1.2F);
    all[set.label[i]] += 1;
    passed[set.label[i]] += cuts.back();
    noise.push_back(i % 10 == 0);
  }
  const SelectionComparison same = *classify(set, {}, cuts).selection;
  EXPECT_EQ(same.background_rate.value, passed[0] / all[0]);
  EXPECT_EQ(same.signal_efficiency.value, passed[1] / all[1]);
  const double efficiency = passed[1] / all[1];
  EXPECT_NEAR(*same.signal_efficiency.error, std::sqrt(efficiency * (1 - efficiency) / 1500),
              0.2 * *same.signal_efficiency.error);
  // The signal between the lowest selected and the highest rejected background event is the only difference.
  EXPECT_GE(*same.difference.value, 0);
  EXPECT_LT(*same.difference.value, 0.005);
  EXPECT_LT(*same.difference.error, 0.25 * *same.score_efficiency.error);

  const SelectionComparison poor = *classify(set, {}, noise).selection;
  EXPECT_NEAR(*poor.background_rate.value, 0.1, 0.02);
  EXPECT_NEAR(*poor.signal_efficiency.value, 0.1, 0.02);
  EXPECT_GT(*poor.difference.value, 10 * *poor.difference.error);
  EXPECT_EQ(*poor.difference.value, *poor.score_efficiency.value - *poor.signal_efficiency.value);
}

TEST(Classification, ASelectionWithoutBackgroundHasNoComparison) {
  const ScoredSet set = normal_set(200, 0.5, 1, 1e6, false);
  const SelectionComparison empty = *classify(set, {}, std::vector<std::uint8_t>(200, 0)).selection;
  EXPECT_EQ(empty.background_rate.value, 0.0);
  EXPECT_EQ(empty.signal_efficiency.value, 0.0);
  EXPECT_FALSE(empty.score_efficiency.value);
  EXPECT_FALSE(empty.difference.value);
  EXPECT_NE(empty.difference.reason.find("a background rate of 0 needs"), std::string::npos);
}

TEST(Classification, Json) {
  const std::vector<std::uint8_t> cuts(400, 1);
  const nlohmann::json json = classify(normal_set(400, 0.5, 1, 1e6, false), {}, cuts);
  EXPECT_TRUE(json["auc"].is_number());
  EXPECT_TRUE(json["auc_error"].is_number());
  EXPECT_FALSE(json.contains("auc_reason"));
  ASSERT_EQ(json["at_background_rate"].size(), 3U);
  const nlohmann::json& point = json["at_background_rate"][0];
  EXPECT_EQ(point["background_rate"], 0.0002);
  EXPECT_TRUE(point["signal_efficiency"].is_null());
  EXPECT_TRUE(point["signal_efficiency_error"].is_null());
  EXPECT_TRUE(point["signal_efficiency_reason"].is_string());
  EXPECT_EQ(json["selection"]["signal_efficiency"], 1.0);
  EXPECT_EQ(json["selection"]["score_signal_efficiency"], 1.0);
  EXPECT_EQ(json["selection"]["difference"], 0.0);
}

TEST(Classification, AHundredThousandEventsReachSmallRates) {
  const ScoredSet set = normal_set(100000, 0.5, 2, 1e6, true);
  const ClassificationReport report = classify(set, {}, std::vector<std::uint8_t>(100000, 1));
  EXPECT_TRUE(report.at_rates[2].signal_efficiency.error);
}

}  // namespace
}  // namespace petaflow
