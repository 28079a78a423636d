// evaluate RUN FILE...: the network of a run evaluated on files, on all ranks together.
#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"

namespace petaflow {

int command_evaluate(const CommandLine& line, Configuration& config, Task& task, const Reporter& reporter,
                     Communicator& comm) {
  const Context context;
  const TrainedNetwork trained = load_trained(line, config, task, comm, context);
  const auto data = open_data(comm, task, line.files, "FILE", DataRole::kEvaluate);
  for (const std::string& note : data->notes()) log_info("{}", note);
  const DataOptions& options = config.options.data;
  const auto predictor = make_predictor(options, task, comm, context, *trained.network, *trained.objective, *data);
  const FullEvaluation full = evaluate_in_full(options, task, comm, *predictor, *data);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (line.json) {
      nlohmann::json json = reporter.results(*full.evaluator);
      json["run"] = line.input;
      json["files"] = line.files;
      json["samples"] = data->size();
      json["loss"] = full.run.loss;
      print(comm, json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    } else {
      print(comm, fmt::format("{} on {}: loss {:.4f}\n{}", line.input, format_count(data->size(), "sample"),
                              full.run.loss, reporter.table(*full.evaluator)));
    }
  });
  return kDone;
}

}  // namespace petaflow
