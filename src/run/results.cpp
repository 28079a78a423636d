#include "run/results.hpp"

#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "data/files.hpp"
#include "io/atomic_file.hpp"
#include "io/progress.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"
#include "run/folder.hpp"

namespace petaflow {
namespace {

nlohmann::json to_json(const StepTimes& times) {
  nlohmann::json json = nlohmann::json::array();
  for (const auto& [name, seconds] : parts(times)) json.push_back({{"part", name}, {"seconds", seconds}});
  return json;
}

}  // namespace

void write_performance(const Job& job, const FitResult& result, TrainStep& step, double peak_gflops) {
  if (!job.is_root() || result.rates.steps == 0) return;  // no step: all were done before a resume
  static constexpr const char* kEnds[] = {"done", "target", "patience"};
  const Network& network = step.network();
  const Rates& rates = result.rates;
  const nlohmann::json json = {
      {"end", kEnds[static_cast<std::size_t>(result.end)]},
      {"last_step", result.steps},
      {"steps", rates.steps},
      {"samples", rates.samples},
      {"seconds", rates.seconds},
      {"samples_per_s", rates.sustained_samples_per_s},
      {"gflops", rates.sustained_gflops},
      {"best_gflops", rates.peak_gflops},
      {"peak_gflops_per_rank", peak_gflops},
      {"ranks", job.comm->size()},
      {"threads_per_rank", job.context.threads},
      {"batch", job.options.train.batch},
      {"pass", network.batch()},
      {"passes_per_step", step.share().passes},
      {"parameters", network.trained_elements()},
      {"flop_per_sample", flop_per_sample(network)},
      {"arena_bytes", network.arena_bytes()},
      {"peak_resident_bytes", peak_resident_bytes()},
      {"time", to_json(result.times)},  // of all steps, mean over ranks
      {"time_of_rank_0", to_json(step.times())},
      {"stages", stage_json(network, rates.steps * step.share().passes, peak_gflops)}};  // per pass, on rank 0
  write_file_atomically(job.run_folder() + "/" + kPerformanceFile, json.dump(1) + "\n");
}

StopRequest write_evaluation(Job& job, Network& network, const Loss& loss, const Dataset* validation) {
  const bool test = !job.options.data.test.empty();
  if (!test && validation == nullptr) return StopRequest::kNone;
  const Dataset* data = validation;
  std::unique_ptr<Dataset> opened;
  if (test) {
    opened = open_data(*job.comm, job.app, job.options.data.test, "data.test", DataRole::kEvaluate);
    data = opened.get();
  }
  const Predictions predictions = predict(job, network, loss, *data);
  if (predictions.stopped != StopRequest::kNone) return predictions.stopped;
  const std::vector<Estimates> others = classical_estimates(job, *data);
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    const Evaluation evaluation = job.app.evaluate(*data, predictions, others, Depth::kFull);
    nlohmann::json json = {{"set", test ? "data.test" : "data.validation"},
                           {"files", test ? job.options.data.test : job.options.data.validation},
                           {"samples", data->size()},
                           {"loss", predictions.loss},
                           {"judgement", nlohmann::json::parse(evaluation.json)},
                           {"curves", nlohmann::json::parse(job.app.curves(*data, predictions))}};
    json["seen_in_training"] =
        common_files(job.options.data.train, test ? job.options.data.test : job.options.data.validation);
    for (const NamedMetric& metric : evaluation.metrics) json["metrics"][metric.name] = metric.value;
    write_file_atomically(job.run_folder() + "/" + kEvaluationFile, json.dump() + "\n");
    if (!evaluation.table.empty()) {
      job.say("on the {} of {}:\n{}", format_count(data->size(), "sample"), test ? "data.test" : "data.validation",
              evaluation.table);
    }
  });
  return StopRequest::kNone;
}

}  // namespace petaflow
