// evaluate RUN FILE...: the network of a run judged on files, on all ranks together.
#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/progress.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"

namespace petaflow {

int command_evaluate(Job& job) {
  const TrainedNetwork trained = load_trained(job);
  const auto data = open_data(*job.comm, job.app, job.line.files, "FILE", DataRole::kEvaluate);
  for (const std::string& note : data->notes()) job.say("{}", note);
  const Predictions predictions = predict(job, *trained.network, *trained.loss, *data);
  const std::vector<Estimates> others = classical_estimates(job, *data);
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    const Evaluation evaluation = job.app.evaluate(*data, predictions, others, Depth::kFull);
    nlohmann::json json = nlohmann::json::parse(evaluation.json);
    json["run"] = job.line.input;
    json["files"] = job.line.files;
    json["samples"] = data->size();
    json["loss"] = predictions.loss;
    print(job, job.line.json ? json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                             : fmt::format("{} on {}: loss {:.4f}\n{}", job.line.input,
                                           format_count(data->size(), "sample"), predictions.loss, evaluation.table));
  });
  return kDone;
}

}  // namespace petaflow
