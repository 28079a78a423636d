#include "run/recorder.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "io/log.hpp"
#include "run/checkpoint_folder.hpp"
#include "run/files.hpp"

namespace petaflow {
namespace {

nlohmann::json epoch_number(std::int64_t epoch) { return {{"epoch_num", epoch + 1}}; }

}  // namespace

RunRecorder::RunRecorder(RecorderOptions options, std::unique_ptr<MetricsLog> metrics, std::unique_ptr<MlLog> mllog)
    : options_(std::move(options)), metrics_(std::move(metrics)), mllog_(std::move(mllog)) {}

// The log tries a line again with the next one.
void RunRecorder::log(const nlohmann::json& line) {
  if (!metrics_) return;
  try {
    metrics_->write(line);
    log_failed_ = false;
  } catch (const Error& error) {
    if (!log_failed_) log_info("warning: {}; the run goes on", error.what());
    log_failed_ = true;
  }
}

template <class Part, class Call>
void RunRecorder::write(std::unique_ptr<Part>& part, const Call& call) {
  if (!part) return;
  try {
    call(*part);
  } catch (const Error& error) {
    log_info("warning: {}; the run goes on", error.what());
    part.reset();
  }
}

// There is a trace where no other tool listens to Kokkos.
void RunRecorder::begin() {
  if (options_.trace_steps > 0 && StepTrace::tool_is_loaded()) {
    log_info("no {}: a tool of Kokkos is loaded and takes its calls", kTraceFile);
  } else if (options_.trace_steps > 0) {
    trace_ = std::make_unique<StepTrace>(options_.trace_steps, options_.folder + "/" + kTraceFile);
  }
  write(mllog_, [](MlLog& log) { log.start("run_start"); });
}

void RunRecorder::end(bool reached_target) {
  write(mllog_, [&](MlLog& log) { log.stop("run_stop", {{"status", reached_target ? "success" : "aborted"}}); });
  write(trace_, [](StepTrace& trace) { trace.finish(); });
}

void RunRecorder::begin_epoch(std::int64_t epoch) {
  write(mllog_, [&](MlLog& log) { log.start("epoch_start", epoch_number(epoch)); });
}

void RunRecorder::end_epoch(std::int64_t epoch) {
  write(mllog_, [&](MlLog& log) { log.stop("epoch_stop", epoch_number(epoch)); });
}

void RunRecorder::begin_step(std::int64_t step) {
  write(trace_, [&](StepTrace& trace) { trace.begin_step(step); });
}

void RunRecorder::end_step() {
  write(trace_, [](StepTrace& trace) { trace.end_step(); });
}

void RunRecorder::begin_validation(std::int64_t epoch) {
  write(mllog_, [&](MlLog& log) { log.start("eval_start", epoch_number(epoch)); });
}

void RunRecorder::end_validation(std::int64_t epoch) {
  write(mllog_, [&](MlLog& log) { log.stop("eval_stop", epoch_number(epoch)); });
}

void RunRecorder::interval(const IntervalLine& line) {
  log({{"step", line.step},
       {"epoch", line.epoch + 1},  // from 1, as in the log
       {"loss", line.loss},
       {"lr", line.lr},
       {"samples_per_s", line.samples_per_s},
       {"gflops", line.gflops}});
}

void RunRecorder::validated(const ValidationLine& line) {
  write(mllog_, [&](MlLog& log) {
    const NamedMetric* metric = line.evaluation.find(options_.benchmark.metric);
    if (metric != nullptr) log.point(options_.benchmark.key, metric->value, epoch_number(line.epoch));
  });
  nlohmann::json values;
  for (const NamedMetric& metric : line.evaluation.metrics) values[metric.name] = metric.value;
  log({{"step", line.step}, {"epoch", line.epoch + 1}, {"loss", line.loss}, {"validation", values}});
}

std::string RunRecorder::save(std::int64_t step, Checkpoint checkpoint) {
  checkpoint.model = options_.model;
  checkpoint.config = options_.config;
  checkpoint.provenance = options_.provenance();
  return save_to_folder(options_.folder, step, checkpoint, options_.keep);
}

}  // namespace petaflow
