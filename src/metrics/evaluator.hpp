// Metrics of a data set, found batch by batch on all ranks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/shape.hpp"
#include "base/target.hpp"
#include "comm/communicator.hpp"
#include "metrics/metric.hpp"

namespace petaflow {

/// One output of a network for some samples.
struct PredictedOutput {
  Shape shape;                // of a sample: n = 1
  std::vector<float> values;  // (n, D, H, W, C) of the network
  std::vector<float> scores;  // as values, of its loss: probabilities, estimates

  /// Value of sample i, (D, H, W, C).
  std::span<const float> value(std::size_t i) const { return row(values, i); }
  std::span<const float> score(std::size_t i) const { return row(scores, i); }

 private:
  std::span<const float> row(const std::vector<float>& rows, std::size_t i) const {
    const auto width = static_cast<std::size_t>(shape.sample_size());
    return std::span(rows).subspan(i * width, width);
  }
};

/// One target of a data set for some samples.
struct KnownTarget {
  TargetSpec spec;
  std::vector<std::byte> bytes;  // (n) as spec says

  /// Target of sample i, as TargetKind lists them: float for numbers, std::int32_t for a class, std::uint8_t for a map.
  template <class T>
  std::span<const T> of(std::size_t i) const {
    return all<T>().subspan(i * spec.bytes() / sizeof(T), spec.bytes() / sizeof(T));
  }
  template <class T>
  std::span<const T> all() const {
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// Predictions for some samples of a data set, of one rank or of several; memory of the host.
struct PredictedBatch {
  std::vector<std::int64_t> indices;     // (n) in the data set
  std::vector<PredictedOutput> outputs;  // in the order of the network
  std::vector<KnownTarget> targets;      // in the order of Dataset::targets()

  std::size_t size() const { return indices.size(); }
};

struct NamedMetric {
  std::string name;
  double value = 0;
  bool higher_is_better = true;
};

/// Metrics that training stops by and logs.
struct Evaluation {
  std::vector<NamedMetric> metrics;              // those that have a value
  std::map<std::string, std::string> undefined;  // those that have none, and why: the data lack a class, say
  std::vector<std::string> main;                 // names of those that the log says after an epoch; empty: all

  bool is_main(const std::string& name) const { return main.empty() || std::ranges::find(main, name) != main.end(); }

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
  /// On rank 0, at last.  Which metrics are undefined depends on what the data set knows without being read, not on
  /// the batches: before a training it is asked after batches of zeros.
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
