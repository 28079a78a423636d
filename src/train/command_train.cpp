// train INPUT: everything is validated, then the run folder is made, then the network learns.
#include "io/progress.hpp"
#include "train/agree.hpp"
#include "train/commands.hpp"
#include "train/peak.hpp"
#include "train/run_folder.hpp"
#include "train/run_report.hpp"
#include "train/run_results.hpp"
#include "train/stop_signal.hpp"
#include "train/trainer.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

void load_initial_weights(Job& job, Network& network) {
  if (job.options.train.init.empty()) return;
  const std::string path = checkpoint_path(job.options.train.init);
  const Checkpoint checkpoint = load_checkpoint(path);
  set_weights(network, job.context, checkpoint, path);
  job.say("weights from {}{}", path, checkpoint.checked ? "" : " (a file of another tool, without checksums)");
}

void say_what_runs(const Job& job, const Dataset& train, const Dataset* validation, TrainStep& step) {
  job.say("{}: {} rank(s) x {} thread(s) ({}), {} training samples{}, batch {}{}", job.options.run.name,
          job.comm->size(), job.context.threads, job.comm->name(), train.size(),
          validation == nullptr ? "" : fmt::format(", {} for validation", validation->size()), job.options.train.batch,
          job.options.train.deterministic ? fmt::format(" in {} shards", job.options.train.shards) : "");
  for (const StageReport& stage : step.network().report()) {
    for (const std::string& refusal : stage.refusals) job.say("{}", refusal);
  }
}

void say_estimate(Job& job, Trainer& trainer, TrainStep& step) {
  const double step_s = trainer.measure_step();
  const Network& network = step.network();
  const auto weights = static_cast<std::size_t>(network.parameter_elements()) * sizeof(float);
  job.say("memory per rank: {} for a pass of {} samples, {} for weights, gradients and optimizer",
          format_bytes(network.arena_bytes()), network.batch(), format_bytes(2 * weights + step.optimizer_bytes()));
  job.say("time: {:.3f} s per step, {} steps, {} for all of them (validation comes on top)", step_s,
          trainer.total_steps(), format_duration(step_s * static_cast<double>(trainer.total_steps())));
  job.say("everything is in order; nothing was written");
}

void say_rates(Job& job, const FitResult& result, TrainStep& step, double peak) {
  const Rates& rates = result.rates;
  job.say("{} steps, {} samples in {:.1f} s; {:.1f} samples/s and {:.1f} GFLOP/s sustained, {:.1f} GFLOP/s at best",
          rates.steps, rates.samples, rates.seconds, rates.sustained_samples_per_s, rates.sustained_gflops,
          rates.peak_gflops);
  job.say("time per rank: {}", describe(result.times));
  job.say("stages of a pass of {} samples on rank 0, whose processor reaches {:.0f} GFLOP/s ({} threads):\n{}",
          step.network().batch(), peak, job.context.threads,
          stage_table(step.network(), rates.steps * step.share().passes, peak));
}

void leave_results(Job& job, const FitResult& result, TrainStep& step, const Loss& loss, const Dataset* validation,
                   double peak) {
  agree(*job.comm, [&] { write_performance(job, result, step, peak); });
  if (!result.stopped) write_evaluation(job, step.network(), loss, validation);  // stopped: there is no time for it
  agree(*job.comm, [&] {
    if (job.is_root()) write_report(job.app, job.run_folder());
  });
  job.say("wrote {}/{}", job.run_folder(), kReportFile);
}

}  // namespace

int command_train(Job& job) {
  job.load_input();
  check_run_folder(job);
  std::unique_ptr<Dataset> train, validation;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<TrainStep> step;
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<MetricsLog> metrics;
  agree(*job.comm, [&] {
    if (job.options.data.train.empty()) user_error("data.train is empty: name the files to train on");
    train = job.app.open(job.options.data.train, "data.train", DataRole::kTrain);
    check_shape(*train, job.app.sample_shape(), "data.train");
    if (!job.options.data.validation.empty()) {
      validation = job.app.open(job.options.data.validation, "data.validation", DataRole::kEvaluate);
      check_shape(*validation, job.app.sample_shape(), "data.validation");
    }
    loss = job.app.loss();
    step =
        std::make_unique<TrainStep>(*job.comm, job.context, job.options, job.app.model(job.app.sample_shape()), *loss);
    load_initial_weights(job, step->network());
    say_what_runs(job, *train, validation.get(), *step);
  });
  const auto make_trainer = [&] {
    trainer = std::make_unique<Trainer>(job, *step, *loss, *train, validation.get(), metrics.get());
  };
  if (job.line.check) {
    agree(*job.comm, [&] { make_trainer(); });
    say_estimate(job, *trainer, *step);
    return kDone;
  }

  metrics = open_run_folder(job);
  agree(*job.comm, [&] { make_trainer(); });
  watch_stop_signals();
  const FitResult result = trainer->fit();
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    const std::string path = job.run_folder() + "/" + kCheckpointFile;
    Checkpoint checkpoint;
    checkpoint.model = job.app.description();
    checkpoint.config = job.schema.resolved();
    checkpoint.provenance = provenance(job);
    checkpoint.weights = weights_of(step->network());
    save_checkpoint(path, checkpoint);
    job.say("wrote {}", path);
    if (result.validation && !result.validation->table.empty()) job.say_line(result.validation->table);
  });
  const double peak = measure_peak_gflops(job.context);
  if (result.steps > 0) say_rates(job, result, *step, peak);
  leave_results(job, result, *step, *loss, validation.get(), peak);
  if (result.stopped) job.say("stopped by a signal after step {}", result.steps);
  return result.stopped ? kStopped : kDone;
}

}  // namespace petaflow
