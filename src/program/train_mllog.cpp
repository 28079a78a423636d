#include "program/train_mllog.hpp"

#include <map>
#include <set>
#include <tuple>

#include "comm/agree.hpp"
#include "measure/binding.hpp"

namespace petaflow {

std::unique_ptr<MlLog> begin_mllog(const CommandLine& line, const CommonOptions& options, const Task& task,
                                   Communicator& comm) {
  if (!options.mllog) return nullptr;
  agree(comm, [&] {
    if (task.mlperf_benchmark().name.empty()) user_error("mllog = true: {} is no benchmark of MLPerf HPC", task.name());
    if (line.resume) user_error("mllog = true: the time of a run for MLPerf is that of one training, without --resume");
    if (options.data.validation.empty()) user_error("mllog = true: a run for MLPerf needs data.validation");
  });
  return comm.rank() == 0 ? std::make_unique<MlLog>() : nullptr;
}

namespace {

using Settings = std::vector<std::pair<const char*, nlohmann::json>>;

/// What the rules for DeepCAM call the optimizers that they allow.  CosmoFlow's is "sgd" there too.
const std::map<std::string, const char*> kDeepcamNames = {{"adam", "Adam"}, {"adamw", "AdamW"}, {"lamb", "LAMB"}};
std::string mlperf_name(const std::string& optimizer) {
  return kDeepcamNames.contains(optimizer) ? kDeepcamNames.at(optimizer) : optimizer;
}

/// The optimizer and the rate by the names of DeepCAM: in steps where CosmoFlow's are in epochs.
Settings deepcam_settings(const CommonOptions& options, const Trainer& trainer) {
  const auto& [optimizer, schedule] = std::tie(options.optimizer, options.schedule);
  const double rate = scaled_rate(options);
  const std::int64_t warmup = trainer.schedule().warmup_steps();
  Settings settings = {{"opt_lr", rate},
                       {"opt_max_grad_norm", optimizer.clip_norm},
                       {"scheduler_lr_warmup_steps", warmup},
                       {"scheduler_lr_warmup_factor", 1}};  // of opt_lr, where the warm-up ends
  if (kDeepcamNames.contains(optimizer.name)) {
    settings.insert(settings.end(), {{"opt_betas", {optimizer.beta1, optimizer.beta2}},
                                     {"opt_eps", optimizer.epsilon},
                                     {"opt_bias_correction", true},   // adam_moments.hpp
                                     {"opt_grad_averaging", true}});  // a new gradient counts 1 - beta1
  }
  if (schedule.name == "constant" || schedule.name == "step") {
    std::vector<std::int64_t> milestones;
    for (const double epoch : schedule.name == "step" ? schedule.step_epochs : std::vector<double>()) {
      milestones.push_back(trainer.epochs().steps_in(epoch));
    }
    settings.insert(settings.end(), {{"scheduler_type", "multistep"},
                                     {"scheduler_milestones", milestones},
                                     {"scheduler_decay_rate", schedule.name == "step" ? schedule.step_factor : 1}});
  } else if (schedule.name == "cosine") {
    settings.insert(settings.end(), {{"scheduler_type", "cosine_annealing"},
                                     {"scheduler_t_max", trainer.total_steps() - warmup},
                                     {"scheduler_eta_min", schedule.end_factor * rate}});
  } else {
    settings.emplace_back("scheduler_type", schedule.name);
  }
  return settings;
}

}  // namespace

void write_mllog_settings(MlLog* log, const std::string& path, const std::string& benchmark,
                          const CommonOptions& options, Communicator& comm, int threads, std::int64_t train_samples,
                          const Trainer& trainer, const TrainStep& step, const Dataset* validation) {
  if (!options.mllog) return;
  const std::vector<Binding> bindings = gather_bindings(comm, threads);
  agree(comm, [&] {
    if (log == nullptr) return;
    std::set<std::string> hosts;
    for (const Binding& binding : bindings) hosts.insert(binding.host);
    const auto& [data, train, optimizer, schedule] =
        std::tie(options.data, options.train, options.optimizer, options.schedule);
    const double warmup = trainer.epochs().epoch_at(trainer.schedule().warmup_steps());
    const bool decays = schedule.name == "step";
    log->open(path);
    const bool norm_over_ranks = !step.network().rank_sums().empty();
    Settings settings = {
        {"submission_benchmark", benchmark},
        {"submission_org", "petaflow"},
        {"submission_division", "open"},
        {"submission_status", "research"},
        {"submission_platform", fmt::format("{} x {}", hosts.size(), bindings.front().processor)},
        {"number_of_nodes", hosts.size()},
        {"accelerators_per_node", kOnHost ? 0 : comm.size() / std::ssize(hosts)},
        {"seed", train.seed},
        {"global_batch_size", group_options(options).batch},
        {"train_samples", train_samples},
        {"eval_samples", validation->size()},
        {"gradient_accumulation_frequency", step.share().micro_batches},
        {"batchnorm_group_size",
         !norm_over_ranks ? 1 : (options.comm.norm_ranks > 0 ? options.comm.norm_ranks : comm.size())},
        {"opt_name", mlperf_name(optimizer.name)},
        {"opt_base_learning_rate", scaled_rate(options)},
        {"opt_weight_decay", optimizer.weight_decay},
        {"opt_learning_rate_warmup_epochs", warmup},
        {"opt_learning_rate_warmup_factor", 0},  // of the base rate, where the warm-up begins
        {"opt_learning_rate_decay_boundary_epochs", decays ? schedule.step_epochs : std::vector<double>()},
        {"opt_learning_rate_decay_factor", decays ? schedule.step_factor : 1}};
    const Settings more = deepcam_settings(options, trainer);
    settings.insert(settings.end(), more.begin(), more.end());
    for (const auto& [key, value] : settings) log->point(key, value);
    log->stop("init_stop");
  });
}

}  // namespace petaflow
