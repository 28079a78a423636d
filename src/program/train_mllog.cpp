#include "program/train_mllog.hpp"

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

void write_mllog_settings(MlLog* log, const std::string& path, const std::string& benchmark,
                          const CommonOptions& options, Communicator& comm, int threads, std::int64_t train_samples,
                          const Trainer& trainer, const Dataset* validation) {
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
    const std::vector<std::pair<const char*, nlohmann::json>> settings = {
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
        {"opt_name", optimizer.name},
        {"opt_base_learning_rate", scaled_rate(options)},
        {"opt_weight_decay", optimizer.weight_decay},
        {"opt_learning_rate_warmup_epochs", warmup},
        {"opt_learning_rate_warmup_factor", 0},  // of the base rate, where the warm-up begins
        {"opt_learning_rate_decay_boundary_epochs", decays ? schedule.step_epochs : std::vector<double>()},
        {"opt_learning_rate_decay_factor", decays ? schedule.step_factor : 1}};
    for (const auto& [key, value] : settings) log->point(key, value);
    log->stop("init_stop");
  });
}

}  // namespace petaflow
