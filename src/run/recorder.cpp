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

/// Calls a part of the record; where that fails there is no such part any more, and the run goes on.
template <class Part, class Call>
void warn_and_drop(std::unique_ptr<Part>& part, const Call& call) {
  if (!part) return;
  try {
    call(*part);
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    log_info("warning: {}; the run goes on", error.what());
    part.reset();
  }
}

}  // namespace

// There is a trace where no other tool listens to Kokkos.
void TraceRecorder::begin() {
  if (steps_ == 0) return;
  if (StepTrace::tool_is_loaded()) {
    log_info("no {}: a tool of Kokkos is loaded and takes its calls", kTraceFile);
  } else {
    trace_ = std::make_unique<StepTrace>(steps_, path_);
  }
}

void TraceRecorder::begin_step(std::int64_t step) {
  warn_and_drop(trace_, [&](StepTrace& trace) { trace.begin_step(step); });
}

void TraceRecorder::end_step() {
  warn_and_drop(trace_, [](StepTrace& trace) { trace.end_step(); });
}

void TraceRecorder::end(bool /*reached_target*/) {
  warn_and_drop(trace_, [](StepTrace& trace) { trace.finish(); });
}

void TraceRecorder::write_trace(Communicator& comm) {
  if (steps_ == 0) return;
  if (!trace_) trace_ = std::make_unique<StepTrace>(0, "");  // it has none, others wait for it
  warn_and_drop(trace_, [&](StepTrace& trace) { trace.write_all(comm); });
}

RunRecorder::RunRecorder(RecorderOptions options, std::int64_t trace_steps, std::unique_ptr<MetricsLog> metrics,
                         std::unique_ptr<MlLog> mllog)
    : TraceRecorder(trace_steps, options.folder + "/" + kTraceFile),
      options_(std::move(options)),
      metrics_(std::move(metrics)),
      mllog_(std::move(mllog)) {}

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

template <class Call>
void RunRecorder::write(const Call& call) {
  warn_and_drop(mllog_, call);
}

void RunRecorder::begin() {
  TraceRecorder::begin();
  write([](MlLog& log) { log.start("run_start"); });
}

void RunRecorder::end(bool reached_target) {
  write([&](MlLog& log) { log.stop("run_stop", {{"status", reached_target ? "success" : "aborted"}}); });
  TraceRecorder::end(reached_target);
}

// MLPerf has one global_batch_size for a run; where the batch grows, these differ from it.
void RunRecorder::begin_epoch(std::int64_t epoch, std::int64_t batch) {
  nlohmann::json metadata = epoch_number(epoch);
  metadata["global_batch_size"] = batch;
  write([&](MlLog& log) { log.start("epoch_start", metadata); });
}

void RunRecorder::end_epoch(std::int64_t epoch) {
  write([&](MlLog& log) { log.stop("epoch_stop", epoch_number(epoch)); });
}

void RunRecorder::begin_validation(std::int64_t epoch) {
  write([&](MlLog& log) { log.start("eval_start", epoch_number(epoch)); });
}

void RunRecorder::end_validation(std::int64_t epoch) {
  write([&](MlLog& log) { log.stop("eval_stop", epoch_number(epoch)); });
}

void RunRecorder::interval(const IntervalLine& line) {
  nlohmann::json json = {{"step", line.step},    {"epoch", line.epoch + 1},  // from 1, as in the log
                         {"loss", line.loss},    {"lr", line.lr},           {"samples_per_s", line.samples_per_s},
                         {"gflops", line.gflops}};
  if (line.noise_scale) json["noise_scale"] = *line.noise_scale;
  log(json);
}

void RunRecorder::validated(const ValidationLine& line) {
  write([&](MlLog& log) {
    const NamedMetric* metric = line.evaluation.find(options_.benchmark.metric);
    if (metric != nullptr) log.point(options_.benchmark.key, metric->value, epoch_number(line.epoch));
  });
  nlohmann::json values;
  for (const NamedMetric& metric : line.evaluation.metrics) values[metric.name] = metric.value;
  log({{"step", line.step}, {"epoch", line.epoch + 1}, {"loss", line.loss}, {"validation", values}});
}

void RunRecorder::tuned(const TuningLine& line) {
  log({{"step", line.step},
       {"epoch", line.epoch + 1},
       {"tuning",
        {{"groups", line.groups},
         {"momentum", line.momentum},
         {"lr", line.lr},
         {"loss", line.loss},
         {"chosen", line.chosen}}}});
}

std::string RunRecorder::save(std::int64_t step, Checkpoint checkpoint) {
  checkpoint.model = options_.model;
  checkpoint.config = options_.config;
  checkpoint.provenance = options_.provenance();
  return save_to_folder(options_.folder, step, checkpoint, options_.keep);
}

}  // namespace petaflow
