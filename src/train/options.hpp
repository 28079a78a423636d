// The keys that every application has, as one struct per table of the input file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema.hpp"
#include "nn/network_options.hpp"
#include "update/optimizer_options.hpp"

namespace petaflow {

struct RunOptions {
  std::string name;  // folder below `folder`; empty: the input file's name
  std::string folder = "runs";
  double hang_timeout = 900;  // s that a rank waits for others before it ends the run; 0: for ever
  double wall_time = 0;       // s after which the run ends with a checkpoint; 0: no limit
};

struct DataOptions {
  std::vector<std::string> train, validation, test;  // files or patterns
  bool shuffle = true;
  int threads = 1;   // loader threads per rank, of idle priority
  int prefetch = 2;  // batches made ahead
  bool hdf5_locking = true;
};

struct TrainOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;  // 0: as many as the epochs have; otherwise the run ends there
  std::int64_t batch = 8;  // samples per step over all ranks
  std::int64_t seed = 1;
  std::string init;                  // checkpoint or run folder to take the weights from; empty: draw them
  bool deterministic = false;        // the same bits on any number of ranks
  std::int64_t recompute = 1;        // segments of the network whose values are made again for backward; 1: kept
  std::int64_t shards = 4;           // deterministic: parts of the batch whose gradients are summed in a fixed tree
  std::int64_t validate_epochs = 1;  // epochs between validations; 0: only at the end
};

struct ScheduleOptions {
  std::string name = "constant";
  std::int64_t warmup_steps = 0;
  double warmup_epochs = 0;         // added to warmup_steps
  double end_factor = 0;            // cosine, polynomial: lr at the end / optimizer.lr
  double power = 1;                 // polynomial
  std::vector<double> step_epochs;  // step: epochs after which the rate is multiplied
  double step_factor = 0.1;         // step: by this
};

/// Ends training early, by a metric of the validation set.
struct StopOptions {
  std::string metric;         // "auc", "loss", ...; empty: the first of Application::metrics()
  double target = 0;          // ends as soon as it is reached; 0: off
  std::int64_t patience = 0;  // validations without a better value before the end; 0: off
  bool keep_best = false;     // the checkpoint holds the weights of the best validation, not the last

  bool needs_metric() const { return target != 0 || patience > 0 || keep_best; }
};

struct LogOptions {
  std::int64_t interval = 10;    // steps between lines
  std::int64_t trace_steps = 3;  // steps in trace.json; 0: none
};

struct CheckpointOptions {
  std::int64_t interval = 1000;  // steps between checkpoints; 0: only at the end
  std::int64_t keep = 2;         // the newest of them
};

struct ResumeOptions {
  bool accept_changes = false;  // of data, network, augmentation or precision since the checkpoint
};

struct CommOptions {
  double bucket_mb = 1;  // smallest all-reduce that starts during the backward pass
};

struct CommonOptions {
  RunOptions run;
  DataOptions data;
  TrainOptions train;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  StopOptions stop;
  LogOptions log;
  CheckpointOptions checkpoint;
  ResumeOptions resume;
  CommOptions comm;
  std::string precision = "f32";  // or "bf16"
  bool mllog = false;             // event lines of MLPerf in the run folder
  KernelOptions kernels;
};

/// Binds the keys to the options, which must outlive the schema.
void declare(Schema& schema, CommonOptions& options);

/// @param batch  slots of a pass
NetworkOptions network_options(const CommonOptions& options, std::int64_t batch);
/// Of a network for predictions, which is in f32.
NetworkOptions inference_options(const CommonOptions& options, std::int64_t batch);

/// What the checks of single keys cannot see; throws user errors.
/// @param ranks that train together
void check(const CommonOptions& options, int ranks);

}  // namespace petaflow
