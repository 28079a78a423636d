#include "metrics/calibration.hpp"

#include <algorithm>
#include <cmath>

namespace petaflow {
namespace {

double weight_of(const ScoredSet& set, std::size_t event) { return set.weight.empty() ? 1 : set.weight[event]; }

}  // namespace

ConfusionMatrix confusion_matrix(const ScoredSet& set, double threshold) {
  ConfusionMatrix matrix{};
  for (std::size_t i = 0; i < set.score.size(); ++i) {
    const std::size_t called = static_cast<double>(set.score[i]) >= threshold ? 1 : 0;
    matrix[static_cast<std::size_t>(set.label[i])][called] += weight_of(set, i);
  }
  return matrix;
}

Calibration calibration(const ScoredSet& set, int bins) {
  std::vector<CalibrationBin> all(static_cast<std::size_t>(bins));
  double weight = 0;
  for (std::size_t i = 0; i < set.score.size(); ++i) {
    const double probability = 1 / (1 + std::exp(-static_cast<double>(set.score[i])));
    CalibrationBin& bin = all[static_cast<std::size_t>(std::min(bins - 1, static_cast<int>(probability * bins)))];
    bin.weight += weight_of(set, i);
    bin.probability += weight_of(set, i) * probability;
    bin.signal_share += set.label[i] == 1 ? weight_of(set, i) : 0;
    weight += weight_of(set, i);
  }
  Calibration result;
  for (CalibrationBin& bin : all) {
    if (!(bin.weight > 0)) continue;
    result.error += std::abs(bin.probability - bin.signal_share) / weight;
    bin.probability /= bin.weight;
    bin.signal_share /= bin.weight;
    result.bins.push_back(bin);
  }
  if (result.bins.empty()) result.error = NAN;
  return result;
}

}  // namespace petaflow
