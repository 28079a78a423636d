// Metrics of a data set, found batch by batch on all ranks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "metrics/metric.hpp"

namespace petaflow {

/// What a network says of some samples of a data set, of one rank or of several; memory of the host.
struct PredictedBatch {
  std::vector<std::int64_t> indices;  // (n) in the data set
  std::int64_t channels = 0, targets_per_sample = 0;
  std::vector<float> outputs;  // (n, channels) of the network
  std::vector<float> scores;   // (n, channels) of the loss: probabilities, estimates
  std::vector<float> targets;  // (n, targets_per_sample) of the data set

  std::size_t size() const { return indices.size(); }
  /// Of sample i of the batch.
  std::span<const float> output(std::size_t i) const { return row(outputs, i, channels); }
  std::span<const float> score(std::size_t i) const { return row(scores, i, channels); }
  std::span<const float> target(std::size_t i) const { return row(targets, i, targets_per_sample); }

 private:
  static std::span<const float> row(const std::vector<float>& rows, std::size_t i, std::int64_t width) {
    return std::span(rows).subspan(i * static_cast<std::size_t>(width), static_cast<std::size_t>(width));
  }
};

struct NamedMetric {
  std::string name;
  double value = 0;
  bool higher_is_better = true;
};

/// What training stops by and logs.
struct Evaluation {
  std::vector<NamedMetric> metrics;              // those that have a value
  std::map<std::string, std::string> undefined;  // those that have none, and why: the data lack a class, say

  const NamedMetric* find(const std::string& name) const;
  /// To `metrics` where it has a value, else to `undefined`.
  void add(const std::string& name, const Metric& metric, bool higher_is_better);
};

/// One evaluation of one data set.  All results of it, as a struct, are the derived class' own.
class Evaluator {
 public:
  virtual ~Evaluator() = default;

  /// Takes up some of this rank's samples; each sample of the data set comes once, on one rank.  Does not communicate.
  virtual void add(const PredictedBatch& batch) = 0;
  /// On all ranks, after the last add(): brings to rank 0 what it needs of the others.
  virtual void merge(Communicator& comm) = 0;
  /// On all ranks, of an evaluation in full: works out what methods without a network, fitted to the files of the
  /// training, say of the data, so that evaluate() sets them beside the network.  Throws on all ranks alike; a user
  /// error where there can be none.
  virtual void add_baselines(Communicator& /*comm*/, const std::vector<std::string>& /*training_files*/) {}
  /// On rank 0, at last.  Which metrics are undefined depends on the data, not on the predictions.
  virtual Evaluation evaluate() = 0;
};

/// Numbers of each sample, brought together on rank 0: for metrics that need all at once, such as the area under a ROC
/// curve or a bootstrap.  Nothing else of a prediction is kept: no images, no maps.
class SampleRows {
 public:
  /// @param width  numbers per sample
  explicit SampleRows(std::int64_t width) : width_(width) {}
  void add(std::int64_t index, std::span<const float> row);
  /// On all ranks: on rank 0 (N, width) by index, for N samples with indices 0 to N - 1; empty elsewhere.
  std::vector<float> merge(Communicator& comm) const;

 private:
  std::int64_t width_;
  std::vector<std::int64_t> indices_;
  std::vector<float> rows_;  // (indices, width)
};

}  // namespace petaflow
