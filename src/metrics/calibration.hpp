// Which class events are taken for, and whether predicted probabilities are what comes true.
#pragma once

#include <array>
#include <vector>

#include "metrics/classification.hpp"

namespace petaflow {

/// Sums of weights: [class][what it is called], 0 background, 1 signal.  Events with score >= threshold are called
/// signal.
using ConfusionMatrix = std::array<std::array<double, 2>, 2>;
ConfusionMatrix confusion_matrix(const ScoredSet& set, double threshold);

/// Events of about the same probability of signal.
struct CalibrationBin {
  double weight = 0;        // sum
  double probability = 0;   // mean of the predicted ones
  double signal_share = 0;  // what came true
};

struct Calibration {
  std::vector<CalibrationBin> bins;  // those that hold events, by probability
  double error = 0;                  // mean over events of |probability - signal_share| of their bin
};

/// Expected calibration error (Naeini et al., AAAI 2015) over bins of equal width in the probability.  NaN without
/// events.
/// @param set  its scores are log-odds of signal
Calibration calibration(const ScoredSet& set, int bins = 10);

}  // namespace petaflow
