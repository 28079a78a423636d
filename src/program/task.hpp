// Interface of an application to the program: its options, its data, its network, its generator, and how predictions
// are evaluated.  What its results look like is said by its Reporter.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "comm/communicator.hpp"
#include "config/schema.hpp"
#include "data/augment.hpp"
#include "data/dataset.hpp"
#include "metrics/evaluator.hpp"
#include "nn/graph.hpp"
#include "program/command_line.hpp"
#include "run/mlperf_benchmark.hpp"
#include "train/options.hpp"

namespace petaflow {

class Objective;

/// Purpose that a data set is opened for.  Where it is to be inspected, options that files do not fit give way to them.
enum class DataRole { kTrain, kEvaluate, kPredict, kInspect };

/// How much an evaluation may cost: between epochs, or with errors for a report.
enum class Depth { kQuick, kFull };

/// A data set of a prediction file: a row of `width` numbers per sample.
struct PredictionColumn {
  std::string name;
  std::variant<std::vector<float>, std::vector<std::int32_t>, std::vector<std::int64_t>> values;
  std::int64_t width = 1;  // 1: without a second axis
};

/// What predict writes, and how the names of such files end.
struct PredictionFormat {
  std::string name = "HDF5";
  std::vector<std::string> endings = {".h5", ".hdf5"};
};

/// Columns written of some predictions, beside where each sample comes from.
struct PredictionRows {
  std::vector<PredictionColumn> columns;
  std::map<std::string, std::string> attributes;  // of the file: what the columns mean; the same in every batch
};

/// What predict writes instead of rows: on rank 0, batch by batch, in the order of the data set.
class PredictionWriter {
 public:
  virtual ~PredictionWriter() = default;
  virtual void append(const PredictedBatch& batch) = 0;
  /// After the last batch.
  /// @param attributes  of the file: where the predictions come from
  virtual void close(const std::map<std::string, std::string>& attributes) = 0;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual std::string name() const = 0;
  virtual std::string description() const = 0;

  /// Binds the application's options; their variables are members of it.
  virtual void declare(Schema& schema) = 0;

  /// Shape of the network's input (n = 1), from the options alone.
  virtual Shape sample_shape() const = 0;
  virtual Graph model(const Shape& sample) const = 0;
  /// The losses of the model's outputs, and the targets that they read.
  virtual Objective objective() const = 0;

  /// Looks into files, on rank 0.  Gives what open() must know of them, as bytes for all ranks.  Throws user errors.
  virtual std::string scan(const std::vector<std::string>& files, DataRole role) const = 0;
  /// The set that scan() found, on every rank; it is completed by others (dataset.hpp).  Opens no file.  Throws user
  /// errors; `what` names the list of files in them ("data.train").
  virtual std::unique_ptr<Dataset> open(const std::string& found, const std::string& what, DataRole role) const = 0;
  /// Keeps what a training set fixes for all others (normalisation) in the options, so that it is stored with the run.
  virtual void keep(const Dataset& /*train*/) {}
  /// Changes training samples; empty: no augmentation.
  virtual Augmentation augmentation(const Dataset& train) const = 0;
  /// Ways of looking at an image to average predictions over (Predictor); none: the image as it is.
  virtual std::vector<ImageView> views(const Dataset& /*data*/) const { return {}; }

  /// Names of the metrics that evaluators may give, besides "loss"; training stops by the first unless the user says
  /// otherwise.
  virtual std::vector<std::string> metrics() const = 0;
  /// For one evaluation of `data`, which is what open() gave and must outlive it.
  virtual std::unique_ptr<Evaluator> evaluator(const Dataset& data, Depth depth) = 0;
  /// Finds, in an evaluation of the validation set after the training, what decisions about other data need (class
  /// offsets); null: there is no such thing.
  virtual std::unique_ptr<Evaluator> calibrator(const Dataset& /*validation*/) { return nullptr; }
  /// On rank 0: what a calibrator has found, as options (option=value) that are kept with the weights.
  virtual std::vector<std::string> calibration(const Evaluator& /*calibrator*/) const { return {}; }
  /// Rows to be written of predictions for samples of `data`.
  virtual PredictionRows rows(const Dataset& /*data*/, const PredictedBatch& /*batch*/) const { return {}; }
  virtual PredictionFormat prediction_format() const { return {}; }
  /// Writes a file of another layout (maps) to `path`, on rank 0; null: rows() become HDF5 data sets.
  virtual std::unique_ptr<PredictionWriter> prediction_writer(const std::string& /*path*/,
                                                              const Dataset& /*data*/) const {
    return nullptr;
  }
  /// Commands that this application alone has.
  virtual std::vector<TaskCommand> commands() { return {}; }

  /// Names of the benchmark in MLPerf HPC; none by default.
  virtual MlperfBenchmark mlperf_benchmark() const { return {}; }

  /// On all ranks: writes a small valid data set, to the files that data.train, data.validation and data.test name
  /// where nothing else says so.  Throws on all ranks alike.
  /// @param overwrite  existing files are replaced instead of refused
  virtual void generate(const DataOptions& data, Communicator& comm, bool overwrite) const = 0;
};

}  // namespace petaflow
