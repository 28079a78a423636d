// Checks of options together, which no check of a single one makes.
#include <algorithm>
#include <functional>

#include "base/element.hpp"
#include "base/error.hpp"
#include "io/progress.hpp"
#include "program/options.hpp"
#include "update/group_search.hpp"
#include "update/rule.hpp"

namespace petaflow {
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

void check_precision(const CommonOptions& options) {
  const DType precision = precision_of(options);
  if (precision == DType::kFp16 && !kTakesFp16) {
    user_error(
        "precision = \"fp16\" is for GPUs, and this program is for processors; set it to \"bf16\", which takes as many "
        "bytes and needs no loss scale, or run the program of a build for GPUs (docs/gpus.md)");
  }
  const bool grouped = options.update.servers > 0 || options.update.groups > 1;
  if (!grouped || !scales_losses(options.train, precision)) return;
  const bool by_precision = options.train.loss_scaling == LossScaling::kAuto;
  user_error(
      "{}: losses are multiplied where all ranks add their gradients; with update.groups = {} and update.servers = {} "
      "set {}",
      by_precision ? "precision = \"fp16\"" : "train.loss_scaling", options.update.groups, options.update.servers,
      by_precision ? "it to \"bf16\", or train.loss_scaling to \"none\"" : "it to \"none\"");
}

void check_servers(const CommonOptions& options) {
  const UpdateOptions& update = options.update;
  const bool averages = update.average_every > 0;
  if (update.servers == 0 && !averages && update.groups > 1) {
    user_error(
        "update.groups = {} needs servers or averages, by which groups share their weights: set update.servers or "
        "update.average_every to 1 or more, or update.groups to 1",
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
        "update.lag = {} cannot be combined with servers or averages; set it to 0, or update.servers and "
        "update.average_every to 0",
        update.lag);
  }
  if (update.max_staleness > 0 && update.max_staleness < update.groups - 1) {
    user_error(
        "update.max_staleness is {}, but while one of update.groups = {} groups computes, each of the others updates "
        "the weights once; set it to {} or more, or to 0 for no bound",
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
    const auto takes_parts = [](const OptimizerRule& rule) { return !rule.gives_update() && !rule.tuned(); };
    user_error(
        "update.cut_layers = true divides layers over servers, but {} needs norms of whole arrays; set "
        "update.cut_layers to false, or {}",
        options.optimizer.larc > 0 ? fmt::format("optimizer.larc = {}", options.optimizer.larc)
                                   : fmt::format("optimizer.name = \"{}\"", options.optimizer.name),
        options.optimizer.larc > 0 ? "optimizer.larc to 0"
                                   : fmt::format("take \"{}\"", fmt::join(rule_names(takes_parts), "\" or \"")));
  }
  if (options.optimizer.ema > 0) {
    user_error(
        "optimizer.ema = {} averages the weights after every update, and workers with update.servers = {} do not see "
        "all of these; set one of them to 0",
        options.optimizer.ema, update.servers);
  }
  if (update.max_staleness > 0 && options.train.deterministic) {
    user_error(
        "update.max_staleness = {} does nothing with train.deterministic, where servers take gradients by ticket; "
        "leave it at 0",
        update.max_staleness);
  }
  if (const double usual = CommOptions().bucket_mb; options.comm.bucket_mb != usual) {
    user_error(
        "comm.bucket_mb = {} does nothing while update.servers is {}, where the sum of every layer goes to its server "
        "by itself; leave it at {}",
        options.comm.bucket_mb, update.servers, usual);
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
    const std::int64_t batch = options.train.batch, all = ranks * options.update.groups;
    user_error(
        "train.batch is {}, but {} ranks run: every rank needs at least one sample of a batch; set train.batch to {} "
        "or more, or start at most {}",
        batch, all, all, format_count(batch, "rank"));
  }
  if (train.accumulate > 1 && train.batch % (ranks * train.accumulate) != 0) {
    const std::int64_t groups = options.update.groups, micro_batches = groups * ranks * train.accumulate;
    user_error(
        "train.batch is {}, which {} times train.accumulate = {} micro-batches do not divide; set it to a multiple of "
        "{}",
        options.train.batch,
        groups > 1 ? fmt::format("update.groups = {} times {}", groups, format_count(ranks, "rank"))
                   : format_count(ranks, "rank"),
        train.accumulate, micro_batches);
  }
  if (const std::int64_t group = options.comm.norm_ranks; group > 0 && ranks % group != 0) {
    const bool groups = options.update.groups > 1;
    user_error("comm.norm_ranks is {}, which does not divide the {}; set it to one of {}{}", group,
               format_count(ranks, "rank") + (groups ? " of a group" : ""), format_divisors(ranks),
               groups ? "" : ", or to 0");
  }
}

void check(const CommonOptions& options) {
  check_precision(options);
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
      const std::int64_t groups = options.update.groups;
      user_error(
          "train.deterministic needs train.batch divisible by {}train.shards, found a batch of {} and {} shards{}; set "
          "train.batch to {}",
          groups > 1 ? "update.groups times " : "", options.train.batch, train.shards,
          groups > 1 ? fmt::format(" for each of {} groups", groups) : "",
          (train.batch / train.shards + 1) * train.shards * groups);
    }
  }
  if (train.deterministic && options.comm.wire != Wire::kF32) {
    user_error(
        "train.deterministic promises the same bits on any number of ranks, but with comm.wire = \"{}\" numbers are "
        "rounded on their way between them; set comm.wire to \"f32\" or train.deterministic to false",
        options.comm.wire == Wire::kBf16 ? "bf16" : "fp16");
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
