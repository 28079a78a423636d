#include "run/results.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"
#include "measure/rates.hpp"
#include "run/files.hpp"

namespace petaflow {
namespace {

nlohmann::json to_json(const StepTimes& times) {
  nlohmann::json json = nlohmann::json::array();
  for (const auto& [name, seconds] : parts(times)) json.push_back({{"part", name}, {"seconds", seconds}});
  return json;
}

}  // namespace

void write_performance(const std::string& folder, const FitResult& result, TrainStep& step, const Trainers& trainers) {
  const Network& network = step.network();
  const Rates& rates = result.rates;
  const std::int64_t micro_batches = step.micro_batches();
  nlohmann::json json = {{"end", name_of(result.end)},
                         {"last_step", result.steps},
                         {"steps", rates.steps},
                         {"own_steps", rates.own_steps},
                         {"group_steps", result.group_steps},
                         {"samples", rates.samples},
                         {"seconds", rates.seconds},
                         {"samples_per_s", rates.sustained_samples_per_s},
                         {"gflops", rates.sustained_gflops},
                         {"best_gflops", rates.peak_gflops},
                         {"peak_gflops_per_rank", trainers.peak_gflops},
                         {"ranks", trainers.ranks},
                         {"threads_per_rank", trainers.threads_per_rank},
                         {"batch", trainers.batch},
                         {"pass", network.batch()},
                         {"passes_per_step", static_cast<double>(micro_batches) /
                                                 static_cast<double>(std::max<std::int64_t>(1, rates.own_steps))},
                         {"parameters", network.trained_elements()},
                         {"flop_per_sample", flop_per_sample(network)},
                         {"arena_bytes", network.arena_bytes()},
                         {"peak_resident_bytes", peak_resident_bytes()},
                         {"time", to_json(result.times)},  // of all steps, mean over ranks
                         {"time_of_rank_0", to_json(step.times())},
                         {"communication", to_json(result.communication)},
                         {"stages", stage_json(network, micro_batches, trainers.peak_gflops)}};  // of one, on rank 0
  if (result.noise_scale) json["noise_scale"] = *result.noise_scale;
  if (result.loss_scale) {
    json["loss_scale"] = result.loss_scale->scale;
    json["skipped_steps"] = result.loss_scale->skipped;  // of the run
  }
  for (const LayerService& service : result.service) {
    const auto gradients = static_cast<double>(std::max<std::int64_t>(1, service.gradients()));
    json["staleness"].push_back({{"layer", service.layer},
                                 {"gradients", service.staleness},  // with each staleness, from 0 on
                                 {"queue_mean", static_cast<double>(service.queue_sum) / gradients},
                                 {"queue_most", service.queue_most}});
    json["communication"]["pushes"].push_back(to_json(service));
  }
  write_file_atomically(folder + "/" + kPerformanceFile, json.dump(1) + "\n");
}

void write_evaluation(const std::string& folder, const EvaluationRecord& record) {
  nlohmann::json json = {{"set", record.set},
                         {"files", record.files},
                         {"samples", record.samples},
                         {"loss", record.loss},
                         {"results", record.results},
                         {"curves", record.curves},
                         {"seen_in_training", record.seen_in_training}};
  for (const NamedMetric& metric : record.evaluation.metrics) json["metrics"][metric.name] = metric.value;
  write_file_atomically(folder + "/" + kEvaluationFile, json.dump() + "\n");
}

}  // namespace petaflow
