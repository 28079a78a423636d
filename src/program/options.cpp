#include "program/options.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "comm/reduction.hpp"
#include "io/progress.hpp"
#include "train/loss_scale.hpp"
#include "update/rule.hpp"

namespace petaflow {
namespace {

std::vector<std::string> reductions() {
  std::vector<std::string> names = {"auto", "tune"};
  for (const ReductionImpl* impl : reduction_impls()) names.emplace_back(impl->name);
  names.emplace_back("nccl");
  names.emplace_back("nccl_mpi");
  names.emplace_back("tree");
  return names;
}

/// The values of an enumeration by their names.
template <class T>
std::vector<std::pair<std::string, T>> words_of(std::initializer_list<T> values) {
  std::vector<std::pair<std::string, T>> words;
  for (const T value : values) words.emplace_back(name_of(value), value);
  return words;
}

/// Options that some optimizers read and others do not.
void add_uses_by_rules(Schema& schema) {
  std::map<std::string, std::vector<std::string>> rules;  // by option
  for (const std::string& name : rule_names()) {
    for (const char* option : make_rule({.name = name})->options()) rules[option].push_back(name);
  }
  for (const auto& [option, names] : rules) schema.add_use({"optimizer." + option}, "optimizer.name", names);
}

}  // namespace

void declare(Schema& schema, CommonOptions& options) {
  schema.add("precision", options.precision, one_of({"f32", "bf16", "fp16"}));
  schema.add("mllog", options.mllog);

  schema.add("run.name", options.run.name);
  schema.add("run.folder", options.run.folder, not_empty());
  schema.add("run.hang_timeout", options.run.hang_timeout, at_least(0));
  schema.add("run.wall_time", options.run.wall_time, at_least(0));

  DataOptions& data = options.data;
  schema.add("data.train", data.train);
  schema.add("data.validation", data.validation);
  schema.add("data.test", data.test);
  schema.add("data.source", data.source);
  schema.add("data.shuffle", data.shuffle);
  schema.add("data.threads", data.threads, in_range(1, 64));
  schema.add("data.prefetch", data.prefetch, in_range(1, 64));
  schema.add("data.hdf5_locking", data.hdf5_locking);

  TrainOptions& train = options.train;
  schema.add("train.epochs", train.epochs, in_range(0, 1e9));
  schema.add("train.steps", train.steps, in_range(0, 1e12));
  schema.add("train.batch", train.batch, in_range(1, 1e7));
  schema.add("train.batch_epochs", train.batch_epochs, in_range(1, 1e9));
  schema.add("train.batch_factor", train.batch_factor, in_range(2, 1000));
  schema.add("train.seed", train.seed, at_least(0));
  schema.add("train.init", train.init);
  schema.add("train.deterministic", train.deterministic);
  schema.add("train.accumulate", train.accumulate, in_range(1, 1e6));
  schema.add("train.shards", train.shards, in_range(1, 1e7));
  schema.add("train.recompute", train.recompute, at_least(0));
  schema.add("train.validate_epochs", train.validate_epochs, in_range(0, 1e9));
  schema.add("train.loss_scaling", train.loss_scaling,
             {{"auto", LossScaling::kAuto},
              {"none", LossScaling::kNone},
              {"static", LossScaling::kStatic},
              {"dynamic", LossScaling::kDynamic}});
  schema.add("train.loss_scale", train.loss_scale, in_range(1e-9, LossScale::kMost));
  schema.add("train.loss_scale_steps", train.loss_scale_steps, in_range(1, 1e12));

  OptimizerOptions& optimizer = options.optimizer;
  schema.add("optimizer.name", optimizer.name, one_of(rule_names()));
  schema.add("optimizer.lr", optimizer.lr, in_range(0, 1e30));
  schema.add("optimizer.momentum", optimizer.momentum, from_to_below(0, 1));
  schema.add("optimizer.beta1", optimizer.beta1, from_to_below(0, 1));
  schema.add("optimizer.beta2", optimizer.beta2, from_to_below(0, 1));
  schema.add("optimizer.epsilon", optimizer.epsilon, positive());
  schema.add("optimizer.weight_decay", optimizer.weight_decay, in_range(0, 1e30));
  const std::vector<std::pair<std::string, ArrayScope>> scopes = {{"all", ArrayScope::kAll},
                                                                  {"weights", ArrayScope::kWeights}};
  schema.add("optimizer.decay_scope", optimizer.decay_scope, scopes);
  schema.add("optimizer.trust_scope", optimizer.trust_scope, scopes);
  schema.add("optimizer.clip_norm", optimizer.clip_norm, at_least(0));
  schema.add("optimizer.larc", optimizer.larc, in_range(0, 1e30));
  schema.add("optimizer.larc_form", optimizer.larc_form,
             {{"larc", TrustForm::kLarc},
              {"lars", TrustForm::kLars},
              {"cosmoflow", TrustForm::kCosmoFlow},
              {"sc18", TrustForm::kSc18}});
  schema.add("optimizer.nesterov", optimizer.nesterov);
  schema.add("optimizer.ema", optimizer.ema, from_to_below(0, 1));

  ScheduleOptions& schedule = options.schedule;
  schema.add("schedule.name", schedule.name, one_of({"constant", "cosine", "polynomial", "step"}));
  schema.add("schedule.warmup_steps", schedule.warmup_steps, in_range(0, 1e12));
  schema.add("schedule.warmup_epochs", schedule.warmup_epochs, at_least(0));
  schema.add("schedule.scaling", schedule.scaling,
             {{"none", RateScaling::kNone}, {"linear", RateScaling::kLinear}, {"sqrt", RateScaling::kSqrt}});
  schema.add("schedule.base_batch", schedule.base_batch, in_range(1, 1e7));
  schema.add("schedule.end_factor", schedule.end_factor, in_range(0, 1));
  schema.add("schedule.power", schedule.power, positive());
  schema.add("schedule.step_epochs", schedule.step_epochs, positive());
  schema.add("schedule.step_factor", schedule.step_factor, positive());

  StopOptions& stop = options.stop;
  schema.add("stop.metric", stop.metric);
  schema.add("stop.target", stop.target);
  schema.add("stop.patience", stop.patience, at_least(0));
  schema.add("stop.keep_best", stop.keep_best);

  schema.add("log.interval", options.log.interval, at_least(1));
  schema.add("log.noise_scale", options.log.noise_scale);
  schema.add("log.trace_steps", options.log.trace_steps, at_least(0));

  schema.add("checkpoint.interval", options.checkpoint.interval, at_least(0));
  schema.add("checkpoint.keep", options.checkpoint.keep, at_least(1));

  schema.add("resume.accept_changes", options.resume.accept_changes);

  schema.add("update.lag", options.update.lag, in_range(0, 16));
  schema.add("update.sharded", options.update.sharded);
  schema.add("update.groups", options.update.groups, in_range(1, 1e6));
  schema.add("update.servers", options.update.servers, in_range(0, 1e6));
  schema.add("update.colocate_servers", options.update.colocate_servers);
  schema.add("update.cut_layers", options.update.cut_layers);
  schema.add("update.average_every", options.update.average_every, in_range(0, 1e9));
  schema.add("update.average_late", options.update.average_late, in_range(0, 1e9));
  schema.add("update.average_warmup_epochs", options.update.average_warmup_epochs, in_range(0, 1e9));
  schema.add("update.average_cooldown_epochs", options.update.average_cooldown_epochs, in_range(0, 1e9));
  schema.add("update.order", options.update.order,
             {{"arrival", UpdateOrder::kArrival}, {"ticket", UpdateOrder::kTicket}});
  schema.add("update.max_staleness", options.update.max_staleness, in_range(0, 1e9));
  schema.add("update.tune_groups", options.update.tune_groups, in_range(0, 1e9));
  schema.add("update.tune_epochs", options.update.tune_epochs, in_range(0, 1e9));

  schema.add("comm.bucket_mb", options.comm.bucket_mb, in_range(1e-6, 1e6));
  schema.add("comm.reduction", options.comm.reduction, one_of(reductions()));
  schema.add("comm.wire", options.comm.wire, words_of({Wire::kF32, Wire::kBf16, Wire::kFp16}));
  schema.add("comm.order", options.comm.fixed_order, {{"any", false}, {"fixed", true}});
  schema.add("comm.overlap", options.comm.overlap);
  schema.add("comm.norm_ranks", options.comm.norm_ranks, in_range(0, 1e7));

  schema.add("inject.latency_ms", options.inject.latency_ms, in_range(0, 1e6));
  schema.add("inject.bandwidth_mb_s", options.inject.bandwidth_mb_s, at_least(0));
  schema.add("inject.jitter", options.inject.jitter, in_range(0, 10));
  schema.add("inject.slow_rank", options.inject.slow_rank, at_least(-1));
  schema.add("inject.slow_factor", options.inject.slow_factor, in_range(1, 1e6));
  schema.add("inject.straggle", options.inject.straggle, in_range(0, 10));
  schema.add("inject.seed", options.inject.seed, at_least(0));
  schema.add("inject.drop", options.inject.drop, in_range(0, 1));
  schema.add("inject.kill_rank", options.inject.kill_rank, at_least(-1));
  schema.add("inject.kill_s", options.inject.kill_s, at_least(0));

  schema.add("kernels.conv", options.kernels.conv, conv_requests());
  schema.add("kernels.gemm", options.kernels.gemm, gemm_requests());
  schema.add("kernels.f32", options.kernels.f32,
             {{"fma", F32Products::kFma}, {"split3", F32Products::kSplit3}, {"tf32", F32Products::kTf32}});
  schema.add("kernels.tiles", options.kernels.tiles);
  schema.add("kernels.replay", options.kernels.replay);
  schema.add_former_name("kernels.bands", "kernels.tiles");

  schema.add_use({"train.shards"}, "train.deterministic");
  schema.add_neutral("train.shards", std::int64_t{1});
  schema.add_use({"train.validate_epochs"}, "data.validation");
  schema.add_neutral("train.validate_epochs", std::int64_t{0});
  schema.add_use({"train.batch_factor"}, "train.batch_epochs");
  const UsedBy in_fp16{"precision", {"fp16"}};
  schema.add_use({"train.loss_scale"}, {in_fp16, UsedBy{"train.loss_scaling", {"static", "dynamic"}}});
  schema.add_use({"train.loss_scale_steps"}, {in_fp16, UsedBy{"train.loss_scaling", {"dynamic"}}});
  schema.add_use({"train.loss_scale"}, "train.loss_scaling", {"auto", "static", "dynamic"});
  schema.add_use({"train.loss_scale_steps"}, "train.loss_scaling", {"auto", "dynamic"});
  add_uses_by_rules(schema);
  schema.add_neutral("optimizer.momentum", 0.0);
  schema.add_use({"optimizer.nesterov"}, "optimizer.momentum");
  schema.add_use({"optimizer.decay_scope"}, "optimizer.weight_decay");
  schema.add_use({"optimizer.larc_form"}, "optimizer.larc");
  schema.add_use({"optimizer.trust_scope"},
                 {UsedBy{"optimizer.larc"}, UsedBy{"optimizer.name", rule_names(&OptimizerRule::gives_update)}});
  schema.add_use({"schedule.base_batch"}, "schedule.scaling");
  schema.add_use({"schedule.end_factor"}, "schedule.name", {"cosine", "polynomial"});
  schema.add_neutral("schedule.end_factor", 1.0);
  schema.add_use({"schedule.power"}, "schedule.name", {"polynomial"});
  schema.add_use({"schedule.step_epochs", "schedule.step_factor"}, "schedule.name", {"step"});
  schema.add_neutral("schedule.step_factor", 1.0);
  schema.add_use({"stop.target", "stop.patience", "stop.keep_best"}, "data.validation");
  schema.add_use({"stop.target", "stop.patience", "stop.keep_best"}, "train.validate_epochs");
  schema.add_use({"stop.metric"}, {UsedBy{"stop.target"}, UsedBy{"stop.patience"}, UsedBy{"stop.keep_best"}});
  schema.add_use(
      {"update.order", "update.max_staleness", "update.cut_layers", "update.colocate_servers", "update.tune_groups"},
      "update.servers");
  schema.add_use({"update.max_staleness", "update.average_every", "update.tune_groups"}, "update.groups");
  schema.add_use({"update.max_staleness"}, "update.order", {"arrival"});
  schema.add_use({"update.tune_epochs"}, "update.tune_groups");
  schema.add_use({"update.average_late", "update.average_warmup_epochs", "update.average_cooldown_epochs"},
                 "update.average_every");
  schema.add_use_on_ranks(
      {"comm.bucket_mb", "comm.reduction", "comm.wire", "comm.order", "comm.overlap", "comm.norm_ranks"});
  schema.add_use({"inject.jitter"}, "inject.latency_ms");
  schema.add_use({"inject.slow_factor"}, "inject.slow_rank");
  schema.add_use({"inject.slow_rank"}, "inject.slow_factor");
  schema.add_use({"inject.kill_s"}, "inject.kill_rank");
  schema.add_use({"inject.seed"}, {UsedBy{"inject.jitter"}, UsedBy{"inject.straggle"}, UsedBy{"inject.drop"}});
}

DType precision_of(const CommonOptions& options) {
  if (options.precision == "fp16") return DType::kFp16;
  return options.precision == "bf16" ? DType::kBf16 : DType::kF32;
}

NetworkOptions network_options(const CommonOptions& options, std::int64_t batch) {
  NetworkOptions network;
  network.batch = batch;
  network.precision = precision_of(options);
  network.recompute = options.train.recompute;
  network.fixed_order = options.train.deterministic;
  network.kernels = options.kernels;
  return network;
}

NetworkOptions inference_options(const CommonOptions& options, std::int64_t batch) {
  NetworkOptions network = network_options(options, batch);
  network.precision = DType::kF32;
  network.backward = false;
  return network;
}

StepOptions step_options(const CommonOptions& options) {
  return {group_options(options), options.optimizer,           options.update,
          options.comm,           network_options(options, 0), options.log.noise_scale};
}

TrainOptions group_options(const CommonOptions& options) {
  TrainOptions train = options.train;
  train.batch /= options.update.groups;
  return train;
}

CommonOptions with_groups(const CommonOptions& options, std::int64_t groups) {
  CommonOptions changed = options;
  changed.train.batch = group_options(options).batch * groups;
  changed.update.groups = groups;
  return changed;
}

double scaled_rate(const CommonOptions& options) {
  const double factor =
      static_cast<double>(group_options(options).batch) / static_cast<double>(options.schedule.base_batch);
  switch (options.schedule.scaling) {
    case RateScaling::kLinear:
      return options.optimizer.lr * factor;
    case RateScaling::kSqrt:
      return options.optimizer.lr * std::sqrt(factor);
    case RateScaling::kNone:
      break;
  }
  return options.optimizer.lr;
}

TrainerOptions trainer_options(const CommonOptions& options, const std::string& metric) {
  TrainerOptions trainer{group_options(options), options.data, options.schedule, options.stop, scaled_rate(options)};
  trainer.stop.metric = metric;
  trainer.log_interval = options.log.interval;
  trainer.checkpoint_interval = options.checkpoint.interval;
  trainer.update = options.update;
  return trainer;
}

ServingOrder serving_order(const CommonOptions& options) {
  return {options.train.deterministic ? UpdateOrder::kTicket : options.update.order, options.update.max_staleness};
}

ServerLayout server_layout(const CommonOptions& options, int ranks) {
  const int groups = static_cast<int>(options.update.groups), servers = static_cast<int>(options.update.servers);
  if (servers == 0 && options.update.average_every == 0) return {ranks, 1, 0};
  const bool colocated = options.update.colocate_servers;
  const int apart = colocated ? 0 : servers, workers = ranks - apart;
  if (workers < groups || workers % groups != 0) {
    const int fewest = groups * std::max(1, (workers + groups - 1) / groups);
    user_error(
        "{} can form no groups of equal size: update.servers takes {}, and {} are left for update.groups = {}; start "
        "{}{}",
        format_count(ranks, "rank"), apart, std::max(workers, 0), groups, format_count(fewest + apart, "rank"),
        workers > 0 ? fmt::format(", or set update.groups to one of {}", format_divisors(workers))
                    : ", or set update.servers to fewer than there are ranks");
  }
  if (colocated && servers > ranks) {
    user_error(
        "update.servers = {} servers are inside ranks that train (update.colocate_servers), one in each, but there are "
        "{}; set update.servers to {} or less, or start more ranks",
        servers, format_count(ranks, "rank"), ranks);
  }
  return {workers, groups, servers, options.update.cut_layers, colocated};
}

}  // namespace petaflow
