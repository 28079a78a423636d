// The options that every application has, as one struct per table of the input file.
#pragma once

#include <cstdint>
#include <string>

#include "comm/delayed.hpp"
#include "config/schema.hpp"
#include "nn/network_options.hpp"
#include "train/options.hpp"
#include "train/train_step.hpp"
#include "train/trainer.hpp"
#include "update/optimizer_options.hpp"

namespace petaflow {

struct RunOptions {
  std::string name;  // folder below `folder`; empty: the input file's name
  std::string folder = "runs";
  double hang_timeout = 900;  // s that a rank waits for others before it ends the run; 0: for ever
  double wall_time = 0;       // s after which the run ends with a checkpoint; 0: no limit
};

struct LogOptions {
  std::int64_t interval = 10;    // steps between lines
  std::int64_t trace_steps = 3;  // steps in trace.json; 0: none
  bool noise_scale = false;      // of gradients
};

struct CheckpointOptions {
  std::int64_t interval = 1000;  // steps between checkpoints; 0: only at the end
  std::int64_t keep = 2;         // the newest of them
};

struct ResumeOptions {
  bool accept_changes = false;  // of data, network, augmentation or precision since the checkpoint
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
  UpdateOptions update;
  CommOptions comm;
  DelayOptions inject;
  std::string precision = "f32";  // or "bf16", "fp16"
  bool mllog = false;             // event lines of MLPerf in the run folder
  KernelOptions kernels;
};

/// Binds options of input files to these, which must outlive the schema.
void declare(Schema& schema, CommonOptions& options);

DType precision_of(const CommonOptions& options);
/// Options of the network.
/// @param batch  slots of a micro-batch
NetworkOptions network_options(const CommonOptions& options, std::int64_t batch);
/// Options of a network for predictions, which is in f32.
NetworkOptions inference_options(const CommonOptions& options, std::int64_t batch);

/// optimizer.lr, scaled to train.batch as schedule.scaling says.
double scaled_rate(const CommonOptions& options);
StepOptions step_options(const CommonOptions& options);
/// Of the steps that one of update.groups works through: each with its part of train.batch.
TrainOptions group_options(const CommonOptions& options);
/// The options of a run that goes on with so many groups, whose steps take as many samples each as before.
CommonOptions with_groups(const CommonOptions& options, std::int64_t groups);
/// @param metric  that training stops by
TrainerOptions trainer_options(const CommonOptions& options, const std::string& metric);

/// That of gradients on servers: with train.deterministic by ticket.
ServingOrder serving_order(const CommonOptions& options);
/// Who is who among the ranks of a training.  Throws a user error where they cannot be divided so.
ServerLayout server_layout(const CommonOptions& options, int ranks);

/// Checks that those of single options cannot make; throw user errors.
void check(const CommonOptions& options);
/// Of what trains on several ranks.
/// @param ranks  that share the samples of a step
void check_ranks(const CommonOptions& options, int ranks);
/// With update.tune_groups: the same for all numbers of groups that it may come down to.
/// @param ranks  all, servers too
void check_fewer_groups(const CommonOptions& options, int ranks);

}  // namespace petaflow
