#include "program/options.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "comm/reduction.hpp"
#include "io/progress.hpp"
#include "update/group_search.hpp"
#include "update/rule.hpp"

namespace petaflow {
namespace {

std::vector<std::string> reductions() {
  std::vector<std::string> names = {"auto", "tune"};
  for (const ReductionImpl* impl : reduction_impls()) names.emplace_back(impl->name);
  names.emplace_back("tree");
  return names;
}

}  // namespace

void declare(Schema& schema, CommonOptions& options) {
  schema.add("precision", options.precision, one_of({"f32", "bf16"}));
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
  schema.add("train.recompute", train.recompute, at_least(1));
  schema.add("train.validate_epochs", train.validate_epochs, in_range(0, 1e9));

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
  schema.add("comm.wire", options.comm.wire, {{"f32", Wire::kF32}, {"bf16", Wire::kBf16}, {"fp16", Wire::kFp16}});
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
  schema.add("kernels.f32", options.kernels.f32, {{"fma", F32Products::kFma}, {"split3", F32Products::kSplit3}});
  schema.add("kernels.tiles", options.kernels.tiles);
  schema.add_former_name("kernels.bands", "kernels.tiles");

  schema.add_use({"train.shards"}, "train.deterministic");
  schema.add_neutral("train.shards", std::int64_t{1});
  schema.add_use({"train.validate_epochs"}, "data.validation");
  schema.add_neutral("train.validate_epochs", std::int64_t{0});
  schema.add_use({"train.batch_factor"}, "train.batch_epochs");
  schema.add_use({"optimizer.momentum", "optimizer.nesterov"}, "optimizer.name", {"sgd"});
  schema.add_neutral("optimizer.momentum", 0.0);
  schema.add_use({"optimizer.nesterov"}, "optimizer.momentum");
  schema.add_use({"optimizer.beta1", "optimizer.beta2", "optimizer.epsilon"}, "optimizer.name",
                 {"adam", "adamw", "lamb"});
  schema.add_use({"optimizer.decay_scope"}, "optimizer.weight_decay");
  schema.add_use({"optimizer.larc_form"}, "optimizer.larc");
  schema.add_use({"optimizer.trust_scope"}, {UsedBy{"optimizer.larc"}, UsedBy{"optimizer.name", {"lamb"}}});
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

NetworkOptions network_options(const CommonOptions& options, std::int64_t batch) {
  NetworkOptions network;
  network.batch = batch;
  network.precision = options.precision == "bf16" ? DType::kBf16 : DType::kF32;
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
        "{}, "
        "or change one of the two",
        format_count(ranks, "rank"), apart, std::max(workers, 0), groups, format_count(fewest + apart, "rank"));
  }
  if (colocated && servers > ranks) {
    user_error(
        "update.servers = {} servers are inside ranks that train (update.colocate_servers), one in each, but there are "
        "{}; set update.servers to {} or less, or start more ranks",
        servers, format_count(ranks, "rank"), ranks);
  }
  return {workers, groups, servers, options.update.cut_layers, colocated};
}

namespace {

void check_tuning(const CommonOptions& options) {
  const UpdateOptions& update = options.update;
  const OptimizerOptions& optimizer = options.optimizer;
  if (update.tune_groups == 0) return;
  if (update.colocate_servers) {
    user_error(
        "update.colocate_servers = true: which ranks have servers inside depends on the number of groups, which "
        "update.tune_groups = {} changes; set that to 0, or update.colocate_servers to false",
        update.tune_groups);
  }
  if (optimizer.name == "yellowfin" || (optimizer.name == "sgd" && optimizer.momentum == 0)) {
    user_error("update.tune_groups = {} finds the momentum, {}; set that to {}, or update.tune_groups to 0",
               update.tune_groups,
               optimizer.name == "sgd" ? "but with optimizer.momentum = 0 there is none"
                                       : "as optimizer.name = \"yellowfin\" does by itself",
               optimizer.name == "sgd" ? "another value, which the first search replaces" : "\"sgd\"");
  }
  if (optimizer.larc_form == TrustForm::kSc18) {
    user_error(
        "optimizer.larc_form = \"sc18\" divides by the number of ranks of a group, which update.tune_groups = {} "
        "changes; set that to 0, or optimizer.larc_form to \"larc\"",
        update.tune_groups);
  }
  if (options.mllog) {
    user_error(
        "mllog = true: a run for MLPerf has one batch from its beginning to its end; set update.tune_groups, which is "
        "{}, to 0",
        update.tune_groups);
  }
}

void check_servers(const CommonOptions& options) {
  const UpdateOptions& update = options.update;
  const bool averages = update.average_every > 0;
  if (update.servers == 0 && !averages && update.groups > 1) {
    user_error(
        "update.groups = {} groups share their weights by servers or by averages: set "
        "update.servers or update.average_every to 1 or more, or update.groups to 1",
        update.groups);
  }
  if (averages && update.servers > 0) {
    user_error(
        "update.average_every = {} and update.servers = {} both say how groups share their weights; set one of them to "
        "0",
        update.average_every, update.servers);
  }
  if (update.average_late > update.average_every) {
    user_error(
        "update.average_late is {}, but the next average begins after update.average_every = {}; set it to {} or less",
        update.average_late, format_count(update.average_every, "step"), update.average_every);
  }
  if (options.train.batch % update.groups != 0) {
    user_error("train.batch is {}, which update.groups = {} does not divide; set it to {}", options.train.batch,
               update.groups, (options.train.batch / update.groups + 1) * update.groups);
  }
  if (update.lag > 0 && (averages || update.servers > 0)) {
    user_error(
        "update.lag = {} is for steps of all ranks together; set it to 0, or update.servers and "
        "update.average_every to 0",
        update.lag);
  }
  if (update.max_staleness > 0 && update.max_staleness < update.groups - 1) {
    user_error(
        "update.max_staleness is {}, but while one of update.groups = {} groups computes, each of the others updates "
        "the "
        "weights once; set it to {} or more, or to 0 for no bound",
        update.max_staleness, update.groups, update.groups - 1);
  }
  if (update.servers == 0) return;
  if (update.sharded) {
    user_error(
        "update.sharded = true and update.servers = {} both say who keeps the optimizer's state; set update.sharded to "
        "false or update.servers to 0",
        update.servers);
  }
  if (options.optimizer.clip_norm > 0) {
    user_error(
        "optimizer.clip_norm = {} is for the norm of the whole gradient, of which a server sees single layers; set it "
        "or update.servers to 0",
        options.optimizer.clip_norm);
  }
  if (update.cut_layers && needs_whole_tensors(options.optimizer)) {
    user_error(
        "update.cut_layers = true divides layers over servers, but {} needs norms of whole arrays; set "
        "update.cut_layers to false, or {}",
        options.optimizer.larc > 0 ? fmt::format("optimizer.larc = {}", options.optimizer.larc)
                                   : fmt::format("optimizer.name = \"{}\"", options.optimizer.name),
        options.optimizer.larc > 0 ? "optimizer.larc to 0" : "take \"adam\", \"adamw\" or \"sgd\"");
  }
  if (options.optimizer.ema > 0) {
    user_error(
        "optimizer.ema = {} averages the weights after every update, and workers with update.servers = {} do not see "
        "all "
        "of these; set one of them to 0",
        options.optimizer.ema, update.servers);
  }
  const std::string& reduction = options.comm.reduction;
  if (reduction != "auto" && reduction != "tree") {
    user_error(
        "comm.reduction = \"{}\" gives all ranks the whole sum, but with update.servers that of a layer goes to one of "
        "them; set comm.reduction to \"auto\" or \"tree\"",
        reduction);
  }
}

}  // namespace

void check_fewer_groups(const CommonOptions& options, int ranks) {
  for (std::int64_t groups = options.update.groups; groups > 1;) {
    groups = GroupSearch::fewer(groups);
    const CommonOptions fewer = with_groups(options, groups);
    try {
      check_ranks(fewer, server_layout(fewer, ranks).members());
    } catch (const Error& error) {
      user_error("update.tune_groups may come down to {} with a train.batch of {}: {}", format_count(groups, "group"),
                 fewer.train.batch, error.what());
    }
  }
}

void check_ranks(const CommonOptions& options, int ranks) {
  const TrainOptions train = group_options(options);
  if (train.deterministic && train.shards < ranks) {
    user_error(
        "train.deterministic gives every rank at least one shard: train.shards is {}, but {} ranks run; start at most "
        "{} "
        "ranks or set train.shards to {} or more",
        train.shards, ranks, train.shards, ranks);
  }
  if (!train.deterministic && train.batch < ranks) {
    user_error("train.batch is {}, but {} ranks run: every rank needs at least one sample of a batch", train.batch,
               ranks);
  }
  if (train.accumulate > 1 && train.batch % (ranks * train.accumulate) != 0) {
    const std::int64_t micro_batches = ranks * train.accumulate;
    user_error(
        "train.batch is {}, which {} times train.accumulate = {} micro-batches do not divide; set it to a multiple of "
        "{}",
        train.batch, format_count(ranks, "rank"), train.accumulate, micro_batches);
  }
  if (const std::int64_t group = options.comm.norm_ranks; group > 0 && ranks % group != 0) {
    user_error("comm.norm_ranks is {}, which does not divide the number of ranks, {}; set it to one that does, or to 0",
               group, ranks);
  }
}

void check(const CommonOptions& options) {
  check_servers(options);
  check_tuning(options);
  const TrainOptions train = group_options(options);
  if (train.deterministic) {
    if (options.kernels.conv.rule == ConvRequest::Rule::kTune) {
      user_error(
          "train.deterministic promises the same bits on any number of ranks and threads, but kernels.conv = \"tune\" "
          "takes what was the fastest with the threads at hand; set kernels.conv to \"auto\" or train.deterministic "
          "to false");
    }
    if (train.accumulate > 1) {
      user_error(
          "train.deterministic works through a batch in train.shards, whose gradients it adds: set train.shards, here "
          "{}, "
          "instead of train.accumulate",
          train.shards);
    }
    if (train.batch % train.shards != 0) {
      user_error("train.deterministic needs train.batch divisible by train.shards, found a batch of {} and {} shards",
                 train.batch, train.shards);
    }
  }
  const OptimizerOptions& optimizer = options.optimizer;
  if (optimizer.name == "yellowfin" && optimizer.larc > 0) {
    user_error(
        "optimizer.name = \"yellowfin\" finds the learning rate itself, which optimizer.larc = {} would bound; set "
        "optimizer.larc to 0",
        optimizer.larc);
  }
  if (optimizer.larc_form == TrustForm::kSc18 && train.deterministic) {
    user_error(
        "optimizer.larc_form = \"sc18\" depends on the number of ranks, and train.deterministic promises the same bits "
        "on any; set train.deterministic to false, or optimizer.larc_form to \"larc\"");
  }
  const std::string& reduction = options.comm.reduction;
  if ((train.deterministic || options.comm.fixed_order) && reduction != "auto" && reduction != "tree") {
    user_error("comm.reduction = \"{}\" adds in no fixed order, which {} asks for; set it to \"tree\" or \"auto\"",
               reduction, train.deterministic ? "train.deterministic" : "comm.order = \"fixed\"");
  }
  if (options.update.sharded && reduction != "auto" && reduction != "tree" && reduction != "halving") {
    user_error(
        "comm.reduction = \"{}\" gives all ranks the whole sum, but with update.sharded every slice of it goes to its "
        "owner alone; set comm.reduction to \"auto\", \"halving\" or \"tree\", or update.sharded to false",
        reduction);
  }
  if (train.steps > 0 && options.update.lag >= train.steps) {
    user_error("update.lag is {}, so that {} would change no weights; set train.steps to more", options.update.lag,
               format_count(train.steps, "step"));
  }
  if (train.epochs == 0 && train.steps == 0 && train.init.empty()) {
    user_error(
        "train.epochs is 0: the network would learn nothing; set it to 1 or more (0 makes a run of the weights that "
        "train.init names)");
  }
  if (std::ranges::adjacent_find(train.batch_epochs, std::greater_equal<>()) != train.batch_epochs.end()) {
    user_error("train.batch_epochs must rise, found [{}]", fmt::join(train.batch_epochs, ", "));
  }
  if (!std::ranges::is_sorted(options.schedule.step_epochs)) {
    user_error("schedule.step_epochs must rise, found [{}]", fmt::join(options.schedule.step_epochs, ", "));
  }
  if (options.schedule.name == "step" && options.schedule.step_epochs.empty()) {
    user_error(
        "schedule.name = \"step\", but schedule.step_epochs, after which the rate falls, is empty: name epochs, as "
        "[30.0, 60.0]");
  }
}

}  // namespace petaflow
