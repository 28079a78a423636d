// What an application adds to the program: its keys, its data, its network, and how its predictions are judged.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/random.hpp"
#include "comm/communicator.hpp"
#include "config/schema.hpp"
#include "data/augment.hpp"
#include "data/dataset.hpp"
#include "metrics/metric.hpp"
#include "metrics/regression.hpp"
#include "nn/graph.hpp"
#include "nn/objective.hpp"
#include "report/page.hpp"
#include "report/run_record.hpp"
#include "run/mllog.hpp"
#include "train/options.hpp"
#include "train/predictor.hpp"

namespace petaflow {

/// What a data set is opened for.
enum class DataRole { kTrain, kEvaluate, kPredict };

/// How much a judgement may cost: between epochs, or with errors for a report.
enum class Depth { kQuick, kFull };

struct NamedMetric {
  std::string name;
  double value = 0;
  bool higher_is_better = true;
};

/// The judgement of predictions.
struct Evaluation {
  std::vector<NamedMetric> metrics;              // those that have a value
  std::map<std::string, std::string> undefined;  // those that have none, and why: the data lack a class, say
  std::string table;                             // for people, several lines
  std::string json;                              // a JSON object for machines

  const NamedMetric* find(const std::string& name) const;
  /// To `metrics` where it has a value, else to `undefined`.
  void add(const std::string& name, const Metric& metric, bool higher_is_better);
};

/// A data set of a prediction file: a row of `width` numbers per sample.
struct PredictionColumn {
  std::string name;
  std::variant<std::vector<float>, std::vector<std::int32_t>, std::vector<std::int64_t>> values;
  std::int64_t width = 1;  // 1: without a second axis
};

/// What is written of predictions, beside where each sample comes from.
struct PredictionRows {
  std::vector<PredictionColumn> columns;
  std::map<std::string, std::string> attributes;  // of the file: what the columns mean
};

class Application {
 public:
  virtual ~Application() = default;
  virtual std::string name() const = 0;
  virtual std::string description() const = 0;

  /// Binds the application's keys; their variables are members of it.
  virtual void declare(Schema& schema) = 0;

  /// Of the network's input (n = 1), from the keys alone.
  virtual Shape sample_shape() const = 0;
  virtual Graph model(const Shape& sample) const = 0;
  /// The losses of the model's outputs, and the targets that they read.
  virtual Objective objective() const = 0;

  /// Looks into files, on rank 0.  Gives what open() must know of them, as bytes for all ranks.  Throws user errors.
  virtual std::string scan(const std::vector<std::string>& files, DataRole role) const = 0;
  /// The set that scan() found, on every rank; it is completed by others (dataset.hpp).  Opens no file.  Throws user
  /// errors; `what` names the list of files in them ("data.train").
  virtual std::unique_ptr<Dataset> open(const std::string& found, const std::string& what, DataRole role) const = 0;
  /// What a training set fixes for all others (normalisation) goes into keys, so that it is stored with the run.
  virtual void keep(const Dataset& /*train*/) {}
  /// Changes training samples; empty: no augmentation.
  virtual Augmentation augmentation(const Dataset& train) const = 0;

  /// Ways of looking at an image to average predictions over (Predictor); none: the image as it is.
  virtual std::vector<Predictor::View> views(const Dataset& /*data*/) const { return {}; }

  /// Of MLPerf HPC; none by default.
  virtual MlperfBenchmark mlperf_benchmark() const { return {}; }

  /// Names of the metrics that evaluate() may give, besides "loss"; training stops by the first unless the user says
  /// otherwise.
  virtual std::vector<std::string> metrics() const = 0;
  /// On all ranks, before a judgement in full: what methods without a network estimate for `data`, to be judged beside
  /// it; the result is on rank 0.  Throws on all ranks alike; a user error where there can be none.
  virtual std::vector<Estimates> classical_estimates(const CommonOptions& /*options*/, Communicator& /*comm*/,
                                                     const Dataset& /*data*/) {
    return {};
  }
  /// On rank 0; `data` is what open() gave.  Which metrics are undefined depends on the data, not on the predictions.
  virtual Evaluation evaluate(const Dataset& data, const Predictions& predictions, const std::vector<Estimates>& others,
                              Depth depth) const = 0;
  virtual PredictionRows rows(const Dataset& data, const Predictions& predictions) const = 0;

  /// What the report of a run shows of predictions beside their judgement (curves, histograms, pictures): a compact
  /// JSON object, kept in the run folder.  On rank 0.
  virtual std::string curves(const Dataset& /*data*/, const Predictions& /*predictions*/) const { return "{}"; }
  /// The most important results of a run, for the head of its report.
  virtual std::vector<KeyNumber> key_numbers(const RunRecord& /*run*/) const { return {}; }
  /// The application's sections of a report, from what evaluate() and curves() left in the folders of the runs.  A run
  /// without an evaluation is left out; runs[i] has the colour "s<i + 1>".
  virtual void add_sections(Page& /*page*/, const std::vector<RunRecord>& /*runs*/) const {}

  /// On all ranks: writes a small valid data set, to the files that the keys data.train, data.validation and data.test
  /// name where nothing else says so.  Throws on all ranks alike.
  /// @param overwrite  existing files are replaced instead of refused
  virtual void generate(const CommonOptions& options, Communicator& comm, bool overwrite) const = 0;
};

}  // namespace petaflow
