// The options of a training, as one struct per table of the input file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/reduction.hpp"
#include "servers/protocol.hpp"

namespace petaflow {

struct DataOptions {
  std::vector<std::string> train, validation, test;  // files or patterns
  std::string source;                                // what they are and who has them: said where they are not there
  bool shuffle = true;
  int threads = 1;   // loader threads per rank, of idle priority
  int prefetch = 2;  // batches made ahead
  bool hdf5_locking = true;
};

/// What losses are multiplied by: nothing; a number; one that finds itself; this for fp16, else nothing.
enum class LossScaling : std::uint8_t { kAuto, kNone, kStatic, kDynamic };

struct TrainOptions {
  std::int64_t epochs = 1;
  std::int64_t steps = 0;  // 0: as many as the epochs have; otherwise the run ends there
  std::int64_t batch = 8;  // samples per step over all ranks
  std::int64_t seed = 1;
  std::string init;                        // checkpoint or run folder to take the weights from; empty: draw them
  bool deterministic = false;              // the same bits on any number of ranks
  std::int64_t recompute = 1;              // segments of the network whose values are made again for backward; 1: kept
  std::vector<std::int64_t> batch_epochs;  // epochs after which a step takes batch_factor times as many samples
  std::int64_t batch_factor = 2;
  std::int64_t accumulate = 1;       // micro-batches of a step, whose gradients are added before the update
  std::int64_t shards = 4;           // deterministic: parts of the batch whose gradients are summed in a fixed tree
  std::int64_t validate_epochs = 1;  // epochs between validations; 0: only at the end
  LossScaling loss_scaling = LossScaling::kAuto;
  double loss_scale = 65536;             // dynamic: the first one
  std::int64_t loss_scale_steps = 2000;  // dynamic: updates after which it is doubled
};

/// What a larger batch does to the learning rate: nothing; batch / base_batch (Goyal et al. 2017, section 2.1); the
/// root of that (Krizhevsky 2014, arXiv:1404.5997, section 5).
enum class RateScaling : std::uint8_t { kNone, kLinear, kSqrt };

struct ScheduleOptions {
  std::string name = "constant";
  std::int64_t warmup_steps = 0;
  double warmup_epochs = 0;  // added to warmup_steps
  RateScaling scaling = RateScaling::kNone;
  std::int64_t base_batch = 256;    // scaling: train.batch for which optimizer.lr is meant
  double end_factor = 0;            // cosine, polynomial: lr at the end / optimizer.lr
  double power = 1;                 // polynomial
  std::vector<double> step_epochs;  // step: epochs after which the rate is multiplied
  double step_factor = 0.1;         // step: by this
};

/// Ends training early, by a metric of the validation set.
struct StopOptions {
  std::string metric;         // "auc", "loss", ...; empty: the first of Task::metrics()
  double target = 0;          // ends as soon as it is reached; 0: off
  std::int64_t patience = 0;  // validations without a better value before the end; 0: off
  bool keep_best = false;     // the checkpoint holds the weights of the best validation, not the last

  bool needs_metric() const { return target != 0 || patience > 0 || keep_best; }
};

/// When gradients change the weights.
struct UpdateOptions {
  std::int64_t lag = 0;                       // steps between a gradient and its update
  bool sharded = false;                       // ranks update slices of their own, and keep the state of these alone
  std::int64_t groups = 1;                    // of ranks; each works through steps of its own
  std::int64_t servers = 0;                   // that keep and update the weights for all groups
  bool colocate_servers = false;              // inside ranks that train, instead of on ranks of their own
  bool cut_layers = false;                    // over servers
  std::int64_t average_every = 0;             // steps of each group between averages over groups; 0: none
  std::int64_t average_late = 0;              // steps of each group between an average's start and its use; 0: it waits
  std::int64_t average_warmup_epochs = 0;     // at the start that average after every step
  std::int64_t average_cooldown_epochs = 0;   // at the end
  UpdateOrder order = UpdateOrder::kArrival;  // of the groups' gradients on servers
  std::int64_t max_staleness = 0;             // of a gradient there, updates; 0: no bound
  std::int64_t tune_groups = 0;  // updates of a trial of momentum, rate and number of groups; 0: these stay
  std::int64_t tune_epochs = 1;  // between searches by such trials; 0: one search, at the start
};

struct CommOptions {
  double bucket_mb = 0.5;          // smallest all-reduce that starts during the backward pass
  std::string reduction = "auto";  // name of a ReductionImpl, "tree", or on GPUs "nccl", "nccl_mpi"
  Wire wire = Wire::kF32;          // numbers of gradients between ranks
  bool fixed_order = false;     // gradients of ranks are added in the order of a tree; train.deterministic: of shards
  bool overlap = true;          // with the backward pass
  std::int64_t norm_ranks = 0;  // neighbouring ranks whose samples batch norm over ranks takes together; 0: all
};

}  // namespace petaflow
