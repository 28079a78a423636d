// bench INPUT: training steps at the batch and shape of the input file, on samples in memory or on the training data.
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/progress.hpp"
#include "measure/peak.hpp"
#include "measure/rates.hpp"
#include "measure/synthetic_data.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"
#include "run/tuning.hpp"
#include "train/schedule.hpp"
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

/// Rates of reading the training data, from the beginning of the epoch to the end of the last step.
struct IoRates {
  double samples = 0;             // of the global batches
  double bytes = 0;               // that all ranks read, for batches made ahead too; NaN: not known
  std::size_t held_bytes = 0;     // of the data in each rank's memory, which was read before
  std::vector<ReadCount> counts;  // at the beginning of the epoch; of all ranks since then, in the end
  // The largest of any rank:
  double seconds = 0;
  double waited_steps = 0;  // found their batch not ready
  double waited_s = 0;
  double first_s = 0;  // of waited_s, for the first batch, before which nothing can be read
};

/// Bytes that the loader's threads read; NaN where the kernel does not count them.
double bytes_read(const Loader& loader, bool from_files) try {
  const auto bytes = static_cast<double>(loader.bytes_read());
  return bytes == 0 && from_files ? NAN : bytes;  // some that keep no count say 0
} catch (const Error&) {
  return NAN;
}

/// Adds what the loaders and data sets of all ranks counted.
void finish(IoRates& io, Communicator& comm, const Loader& loader, const Dataset& data) {
  const std::vector<ReadCount> counts = data.read_counts();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    auto count = static_cast<double>(counts[i].count - io.counts[i].count);
    comm.all_reduce_sum(std::span<double>(&count, 1));
    io.counts[i].count = static_cast<std::int64_t>(count);
  }
  io.bytes = bytes_read(loader, io.held_bytes == 0);
  comm.all_reduce_sum(std::span<double>(&io.bytes, 1));
  const LoaderWaits& waits = loader.waits();
  std::array<double, 4> largest = {io.seconds, static_cast<double>(waits.batches), waits.seconds, io.first_s};
  comm.all_reduce_max(largest);
  io.seconds = largest[0], io.waited_steps = largest[1], io.waited_s = largest[2], io.first_s = largest[3];
}

nlohmann::json io_json(const IoRates& io, std::int64_t steps) {
  nlohmann::json json = {{"bytes_read", nullptr},
                         {"mb_per_s", nullptr},
                         {"samples_per_s", io.samples / io.seconds},
                         {"waited_steps", static_cast<std::int64_t>(io.waited_steps)},
                         {"waited_share", io.waited_steps / static_cast<double>(steps)},
                         {"waited_s", io.waited_s},
                         {"first_batch_s", io.first_s},
                         {"held_bytes", io.held_bytes}};
  for (const auto& [name, count] : io.counts) json[name] = count;
  if (std::isnan(io.bytes)) return json;
  json["bytes_read"] = static_cast<std::int64_t>(io.bytes);
  json["mb_per_s"] = 1e-6 * io.bytes / io.seconds;
  return json;
}

std::string io_text(const IoRates& io, std::int64_t steps) {
  const std::string held =
      io.held_bytes == 0 ? "" : fmt::format(" (data.cache_gb: {} are held in memory)", format_bytes(io.held_bytes));
  const std::string bytes = std::isnan(io.bytes) ? "this kernel does not count the bytes read (/proc/self/task/*/io)"
                                                 : fmt::format("{:.0f} bytes read{}, {:.1f} MB/s", io.bytes, held,
                                                               1e-6 * io.bytes / io.seconds);
  std::string counts;
  for (const auto& [name, count] : io.counts) counts += fmt::format(", {} {}", name, count);
  return fmt::format(
      "files: {}; {:.2f} samples/s delivered in {:.2f} s{}\n"
      "steps that waited for data: {:.0f} of {} ({:.0f} %), {:.3f} s, of these {:.3f} s for the first batch",
      bytes, io.samples / io.seconds, io.seconds, counts, io.waited_steps, steps,
      100 * io.waited_steps / static_cast<double>(steps), io.waited_s, io.first_s);
}

}  // namespace

int command_bench(const CommandLine& line, Configuration& config, Task& task, Communicator& world) {
  config.load_input(world, line);
  agree(world, [&] {
    if (config.options.update.servers > 0 || config.options.update.groups > 1) {
      user_error(
          "bench takes the steps of one group whose ranks update the weights themselves; set update.groups=1 "
          "update.servers=0 update.average_every=0");
    }
  });
  const CommonOptions& options = config.options;
  const std::unique_ptr<Communicator> slower = delayed(world, options.inject);
  Communicator& comm = slower ? *slower : world;
  const Context context;
  say_binding(comm, context.threads);
  std::unique_ptr<Dataset> made_up, train;
  std::unique_ptr<Objective> objective;
  std::unique_ptr<TrainStep> step;
  std::unique_ptr<Loader> loader;
  std::int64_t steps = line.steps;
  const auto tuning = tune(line, config, task, comm, context, true);
  if (line.io) train = open_data(comm, task, options.data.train, "data.train", DataRole::kTrain);
  agree(comm, [&] {
    const Graph graph = task.model(task.sample_shape());
    objective = std::make_unique<Objective>(task.objective());
    made_up = std::make_unique<SyntheticData>(options.train.batch * (kWarmupSteps + steps), graph,
                                              objective->targets(output_shapes(graph)));
    step = std::make_unique<TrainStep>(comm, context, step_options(options), graph, *objective, tuning.get());
    loader = std::make_unique<Loader>(*made_up, loader_options(options.train, options.data, step->share()));
  });
  loader->start_epoch(0);
  for (std::int64_t s = 0; s < kWarmupSteps; ++s) step->run(*loader, 0);  // a rate of 0: the weights stay
  if (train) {
    agree(comm, [&] {
      LoaderOptions shuffled = loader_options(options.train, options.data, step->share());
      shuffled.augment = task.augmentation(*train);
      loader = std::make_unique<Loader>(*train, shuffled);
    });
    steps = std::min(steps, loader->steps_per_epoch());
  }
  const EpochPlan epochs(options.train, train ? train->size() : made_up->size());
  const Schedule schedule(options.schedule, options.optimizer.lr, epochs, epochs.first_step_of(options.train.epochs));
  step->reset_times();
  IoRates io;
  std::vector<double> seconds;
  const Kokkos::Timer whole;
  if (train) {
    io.counts = train->read_counts();
    loader->start_epoch(0);
  }
  for (std::int64_t s = 0; s < steps; ++s) {
    comm.barrier();
    const Kokkos::Timer timer;
    io.samples += static_cast<double>(step->run(*loader, schedule.rate(s)).samples);
    seconds.push_back(timer.seconds());
    if (s == 0) io.first_s = loader->waits().seconds;
  }
  const double whole_s = whole.seconds();
  step->settle();  // with update.lag the last sums are still under way
  if (train) {
    io.seconds = whole_s;
    io.held_bytes = train->memory().size_bytes();
    finish(io, comm, *loader, *train);
  }
  const Network& network = step->network();
  const StepTimes times = mean_times(comm, step->times());
  const CommunicationTimes communication = communication_times(comm, *step, nullptr);
  const std::size_t resident_bytes = peak_resident_bytes();
  const Peaks peaks = measure_peaks(context);
  const double median_s = median(seconds), peak = peaks.of(options.precision);
  const double samples_per_s = static_cast<double>(options.train.batch) / median_s;
  const double gflops = 1e-9 * samples_per_s * flop_per_sample(network);
  const std::int64_t micro_batches = steps * step->share().micro_batches;
  if (line.json) {
    nlohmann::json json = {{"samples_per_s", samples_per_s},
                           {"ms_per_step", 1e3 * median_s},
                           {"gflops", gflops},
                           {"precision", options.precision},
                           {"peak_gflops", peak},  // in that precision
                           {"peak_gflops_f32_fma", peaks.f32_fma},
                           {"peak_gflops_bf16_dot", peaks.bf16_dot},
                           {"peak_gflops_bf16_tile", peaks.bf16_tile},
                           {"batch", options.train.batch},
                           {"ranks", comm.size()},
                           {"threads_per_rank", context.threads},
                           {"steps", steps},
                           {"arena_bytes", network.arena_bytes()},
                           {"arena_huge_page_bytes", network.arena_huge_page_bytes()},
                           {"peak_resident_bytes", resident_bytes},
                           {"communication", to_json(communication)},
                           {"stages", stage_json(network, micro_batches, peak)}};
    for (const auto& [name, part_s] : parts(times)) json["shares"][name] = part_s / times.total();
    if (train) json["io"] = io_json(io, steps);
    print(comm, json.dump(2));
    return kDone;
  }
  std::string lines;
  if (const std::string text = describe(communication); !text.empty()) lines += text + "\n";
  if (train) lines += io_text(io, steps) + "\n";
  print(comm, fmt::format("{:.2f} samples/s, {:.2f} ms per step of {} (median of {}), {:.1f} GFLOP/s\n"
                          "{} x {} in {}; this processor reaches {}\ntime per rank: {}\n{}\n{}\n\n"
                          "{}\npeak resident memory of rank 0: {}",
                          samples_per_s, 1e3 * median_s, format_count(options.train.batch, "sample"), steps, gflops,
                          format_count(comm.size(), "rank"), format_count(context.threads, "thread"), options.precision,
                          peaks.describe(), describe(times), lines, stage_table(network, micro_batches, peak),
                          describe_arena(network), format_bytes(resident_bytes)));
  return kDone;
}

}  // namespace petaflow
