// bench INPUT: training steps on samples in memory, at the batch and shape of the input file.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "train/agree.hpp"
#include "train/commands.hpp"
#include "train/peak.hpp"
#include "train/rates.hpp"
#include "train/synthetic_data.hpp"
#include "train/trainer.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kWarmupSteps = 2;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

int command_bench(Job& job) {
  job.load_input();
  say_binding(job);
  std::unique_ptr<Dataset> data;
  std::unique_ptr<Loss> loss;
  std::unique_ptr<TrainStep> step;
  std::unique_ptr<Loader> loader;
  agree(*job.comm, [&] {
    const Graph graph = job.app.model(job.app.sample_shape());
    loss = job.app.loss();
    data = std::make_unique<SyntheticData>(job.options.train.batch * (kWarmupSteps + job.line.steps), graph,
                                           graph.output().c, loss->targets(graph.output()));
    step = std::make_unique<TrainStep>(*job.comm, job.context, job.options, graph, *loss);
    loader = std::make_unique<Loader>(*data, loader_options(job.options, step->share()));
  });
  std::vector<double> seconds;
  loader->start_epoch(0);
  const auto rate = static_cast<float>(job.options.optimizer.lr);
  for (std::int64_t s = 0; s < kWarmupSteps + job.line.steps; ++s) {
    if (s == kWarmupSteps) step->reset_times();
    job.comm->barrier();
    const Kokkos::Timer timer;
    step->run(*loader, rate);
    if (s >= kWarmupSteps) seconds.push_back(timer.seconds());
  }
  const Network& network = step->network();
  const StepTimes times = mean_times(*job.comm, step->times());
  const double median_s = median(seconds), peak = measure_peak_gflops(job.context);
  const double samples_per_s = static_cast<double>(job.options.train.batch) / median_s;
  const double gflops = 1e-9 * samples_per_s * flop_per_sample(network);
  const std::int64_t passes = job.line.steps * step->share().passes;
  if (job.line.json) {
    nlohmann::json json = {{"samples_per_s", samples_per_s},
                           {"ms_per_step", 1e3 * median_s},
                           {"gflops", gflops},
                           {"peak_gflops", peak},
                           {"batch", job.options.train.batch},
                           {"ranks", job.comm->size()},
                           {"threads_per_rank", job.context.threads},
                           {"steps", job.line.steps},
                           {"arena_bytes", network.arena_bytes()},
                           {"peak_resident_bytes", peak_resident_bytes()},
                           {"stages", stage_json(network, passes, peak)}};
    for (const auto& [name, part_s] : parts(times)) json["shares"][name] = part_s / times.total();
    print(job, json.dump(2));
    return kDone;
  }
  print(job, fmt::format("{:.2f} samples/s, {:.2f} ms per step of {} samples (median of {}), {:.1f} GFLOP/s\n"
                         "{} rank(s) x {} thread(s); this processor reaches {:.0f} GFLOP/s\ntime per rank: {}\n\n{}\n\n"
                         "peak resident memory of rank 0: {}",
                         samples_per_s, 1e3 * median_s, job.options.train.batch, job.line.steps, gflops,
                         job.comm->size(), job.context.threads, peak, describe(times),
                         stage_table(network, passes, peak), format_bytes(peak_resident_bytes())));
  return kDone;
}

}  // namespace petaflow
