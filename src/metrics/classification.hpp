// How well a score separates signal (label 1) from background (label 0), with bootstrap errors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "metrics/metric.hpp"

namespace petaflow {

/// Events of both classes, each (events).  Any increasing function of the signal probability serves as the score; a
/// difference of logits keeps apart what a float softmax rounds to 1.
struct ScoredSet {
  std::vector<float> score;
  std::vector<std::int32_t> label;
  std::vector<double> weight;  // finite, not negative; empty: 1 each
};

struct ClassificationOptions {
  double threshold = 0.5;                                         // events with score >= threshold are called signal
  std::vector<double> background_rates = {0.0002, 0.0004, 0.01};  // Kurth et al., SC17: the first
  /// Effective background events that a rate must let through on average.  The rate at the threshold found has a
  /// relative standard deviation of 1 / sqrt(10) = 32 % then, and 0.0002 and 0.0004 are still two points.  Without
  /// weights, a rate of 0.0002 needs 50,000 background events, 0.0004 25,000 and 0.01 1,000.
  double min_background = 10;
  int replicas = 100;
  std::uint64_t seed = 0;
};

struct RocPoint {
  double threshold;  // of the events with score >= threshold
  double background_rate, signal_efficiency;
};

/// The largest signal efficiency of a threshold whose background rate is at most the given one.  No interpolation: the
/// score is never credited with a rate that no threshold reaches.
struct EfficiencyAtRate {
  double background_rate;
  std::optional<double> threshold;  // of the full sample; infinite where no event passes
  Metric signal_efficiency;
};

/// A selection of events (cuts) against the score at the selection's own background rate, replica by replica.
struct SelectionComparison {
  Metric background_rate, signal_efficiency;  // of the selection
  Metric score_efficiency;                    // of the score at that rate
  Metric difference;                          // score_efficiency - signal_efficiency
};

struct ClassificationReport {
  std::int64_t signal_events = 0, background_events = 0;
  Metric accuracy;
  Metric auc;  // area under the ROC curve; equal scores count half
  std::vector<EfficiencyAtRate> at_rates;
  std::optional<SelectionComparison> selection;
};

/// All metrics.  selected: flags (events), or empty.  Bootstrap replica r draws as many events as there are, keyed by
/// (seed, r) alone: sets of the same events in the same order have the same replicas.  Throws a failure where a score
/// is NaN, a user error where a label is not 0 or 1 or a weight is negative or not finite.
ClassificationReport classify(const ScoredSet& set, const ClassificationOptions& options = {},
                              std::span<const std::uint8_t> selected = {});

/// One point for each distinct score, from the highest, after the point where no event passes.  Both classes needed.
std::vector<RocPoint> roc_curve(const ScoredSet& set);

}  // namespace petaflow
