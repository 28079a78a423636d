// schemes: loss against time of synchronous training and of 2, 4 and 8 groups with parameter servers, with and without
// a slow worker, each with the rate and momentum (of Adam: beta1) that suit it best (Kurth et al., "Deep Learning at
// 15PF", SC17).
//   build/host/bin/schemes inputs/hep_quick.toml
// Networks are really trained, on virtual ranks, so the number of updates is real; times of computation and of messages
// are modelled.  Real ranks that wait as long as the model says check the latter:
//   mpirun -n 9 build/host/bin/schemes inputs/hep_quick.toml --real 40 --sample-ms 40
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>

#include "base/build_info.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "measure/binding.hpp"
#include "measure/threads.hpp"
#include "program/configuration.hpp"
#include "program/open_data.hpp"
#include "program/say_failure.hpp"
#include "report/html.hpp"
#include "report/page.hpp"
#include "scheme_run.hpp"

namespace petaflow::perf {
namespace {

struct Settings {
  CommandLine line;
  std::vector<int> groups = {1, 2, 4, 8};
  std::vector<double> rates = {0.001, 0.002, 0.004, 0.008}, momenta = {0, 0.4, 0.7, 0.9};
  int workers = 8, servers = 1, seeds = 3;
  std::int64_t samples = 4;                // of each worker per step
  double target = 0.2;                     // training loss
  std::int64_t window = 1024, cap = 1000;  // samples that the loss is a mean of; synchronous updates' worth of samples
  double sample_ms = 0;                    // 0: measured
  double slow = 5, noise = 0.05;
  double latency_us = 20, bandwidth_gb_s = 1;
  std::int64_t real = 0;  // updates on real ranks
};

/// Speeds of the workers: the first one computes so many times as long as the others.
struct Scenario {
  std::string name;
  double slow_factor = 1;
};

/// One line of the figure.
struct Scheme {
  int groups = 1;
  double rate = 0, momentum = 0;
  std::vector<Outcome> runs;  // by seed
};

std::string name_of(int groups) { return groups == 1 ? "synchronous" : fmt::format("{} groups", groups); }

class Comparison {
 public:
  Comparison(Settings settings, Configuration& config, const Problem& problem)
      : settings_(std::move(settings)), problem_(problem), options_(config.options) {
    options_.schedule = {};
    options_.log.interval = 1;
    options_.data.threads = 0;
    options_.checkpoint.interval = 0;
    options_.train.batch = settings_.workers * settings_.samples;
    pieces_s_ = measure_pieces(problem, options_, settings_.samples);
    if (settings_.sample_ms > 0) model_pieces();
  }

  /// Tunes every scheme by one seed, repeats the best setting with others, prints, and writes the page.
  void run(const std::string& page) {
    const std::vector<Scenario> scenarios = {
        {"all workers alike", 1}, {fmt::format("one worker {:g} times slower", settings_.slow), settings_.slow}};
    say(describe());
    std::vector<std::vector<Scheme>> results;
    for (const Scenario& scenario : scenarios) {
      std::vector<Scheme>& schemes = results.emplace_back();
      for (const int groups : settings_.groups) {
        // Synchronous updates are the same whatever the workers' speeds.
        const bool tuned = groups == 1 && results.size() > 1;
        Scheme scheme = tuned ? results.front()[schemes.size()] : tune(scenario, groups);
        if (tuned) scheme.runs = {train(scenario, scheme, 1, INFINITY)};
        for (int seed = 2; reached_by(scheme) && seed <= settings_.seeds; ++seed) {
          scheme.runs.push_back(train(scenario, scheme, seed, INFINITY));
        }
        schemes.push_back(std::move(scheme));
      }
    }
    for (std::size_t i = 0; i < scenarios.size(); ++i) say("\n" + text_table(scenarios[i], results[i]));
    write_page(page, scenarios, results);
  }

  /// Time per update on real ranks beside the model's.
  void check(Communicator& world) {
    const int needed = ranks_of(*std::ranges::max_element(settings_.groups));
    if (world.size() < needed) user_error("--real wants {} ranks for these --workers and --servers", needed);
    for (const double slow_factor : {1.0, settings_.slow}) {
      for (const int groups : settings_.groups) {
        Scheme scheme{groups, settings_.rates.front(), 0, {}};
        CommonOptions options = options_of(scheme, 1);
        options.train.steps = settings_.real * groups;
        const int ranks = ranks_of(groups);
        const bool takes_part = world.rank() < ranks;
        std::unique_ptr<Transport> transport = world.transport().split(takes_part ? 0 : 1);
        Outcome real;
        const StepModel model = model_of(slow_factor, 1);
        if (takes_part) train_rank(problem_, options, {}, with_model(std::move(transport), model, false), real);
        world.barrier();
        if (world.rank() != 0) continue;
        const Outcome predicted = train_virtually(problem_, options, {}, ranks, model, network());
        if (real.failed || predicted.failed) failure("{}: the loss is not finite; set --rates", name_of(groups));
        say(fmt::format("slowest worker x {:g}, {}: {:.1f} ms per update predicted, {:.1f} on real ranks ({:+.1f} %)",
                        slow_factor, name_of(groups), 1e3 * predicted.later_update_s(), 1e3 * real.later_update_s(),
                        100 * (real.later_update_s() / predicted.later_update_s() - 1)));
      }
    }
  }

 private:
  static void say(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }

  // A third of the time is forward's, as of its operations; backward's pieces are alike.
  void model_pieces() {
    const double step_s = 1e-3 * settings_.sample_ms * static_cast<double>(settings_.samples);
    const auto backward = static_cast<double>(pieces_s_.size() - 1);
    std::ranges::fill(pieces_s_, 2 * step_s / 3 / backward);
    pieces_s_.front() = step_s / 3;
  }

  int ranks_of(int groups) const { return settings_.workers + (groups > 1 ? settings_.servers : 0); }
  SimpleNetwork network() const { return {1e-6 * settings_.latency_us, 1e9 * settings_.bandwidth_gb_s}; }

  StepModel model_of(double slow_factor, int seed) const {
    return {pieces_s_, settings_.noise, settings_.workers - 1, slow_factor, static_cast<std::uint64_t>(seed)};
  }

  CommonOptions options_of(const Scheme& scheme, int seed) const {
    CommonOptions options = options_;
    options.update.groups = scheme.groups;
    options.update.servers = scheme.groups > 1 ? settings_.servers : 0;
    options.optimizer.lr = scheme.rate;
    options.optimizer.momentum = options.optimizer.beta1 = scheme.momentum;
    options.train.seed = seed;
    options.train.steps = settings_.cap * scheme.groups;
    petaflow::check(options);
    check_ranks(options, server_layout(options, ranks_of(scheme.groups)).members());
    return options;
  }

  Outcome train(const Scenario& scenario, const Scheme& scheme, int seed, double limit_s) const {
    const CommonOptions options = options_of(scheme, seed);
    const std::int64_t update = options.train.batch / scheme.groups;
    const Goal goal{settings_.target, std::max<std::int64_t>(1, settings_.window / update), limit_s};
    const Outcome outcome = train_virtually(problem_, options, goal, ranks_of(scheme.groups),
                                            model_of(scenario.slow_factor, seed), network());
    const std::string end =
        outcome.failed ? "the loss is not finite"
        : outcome.reached
            ? fmt::format("{} updates x {:.2f} ms = {:.2f} s, staleness {:.1f}, AUC {:.3f}", outcome.updates(),
                          1e3 * outcome.update_s(), outcome.end_s(), outcome.staleness, outcome.auc)
            : fmt::format("a loss of {:.3f} after {} updates, {:.2f} s",
                          outcome.mean.empty() ? NAN : outcome.mean.back(), outcome.updates(), outcome.end_s());
    say(fmt::format("{}, {}, rate {:g}, momentum {:g}, seed {}: {}", scenario.name, name_of(scheme.groups), scheme.rate,
                    scheme.momentum, seed, end));
    return outcome;
  }

  /// The fastest of the rates and momenta by one seed; others end where they are slower.  Where none reaches the
  /// target, the one that ends nearest to it.
  Scheme tune(const Scenario& scenario, int groups) const {
    Scheme best;
    const auto is_better = [](const Outcome& a, const Outcome& b) {
      if (a.reached != b.reached) return a.reached;
      if (a.reached) return a.end_s() < b.end_s();
      const auto loss = [](const Outcome& run) { return run.failed || run.mean.empty() ? INFINITY : run.mean.back(); };
      return loss(a) < loss(b);
    };
    for (const double rate : settings_.rates) {
      for (const double momentum : settings_.momenta) {
        Scheme scheme{groups, rate, momentum, {}};
        const double limit_s = reached_by(best) ? best.runs.front().end_s() : INFINITY;
        scheme.runs.push_back(train(scenario, scheme, 1, limit_s));
        if (best.runs.empty() || is_better(scheme.runs.front(), best.runs.front())) best = std::move(scheme);
      }
    }
    if (!reached_by(best)) {
      say(fmt::format("{}, {}: no rate and momentum reach a loss of {:g}; try others, or a larger --cap", scenario.name,
                      name_of(groups), settings_.target));
    }
    return best;
  }
  /// By the first seed; the others are not tried where it does not reach the target.
  static bool reached_by(const Scheme& scheme) { return !scheme.runs.empty() && scheme.runs.front().reached; }

  std::string describe() const {
    return fmt::format(
        "{} workers x {} samples, {:.3f} ms per sample ({}), log-normal factor of sigma {:g} per step; messages "
        "take {:g} us + bytes / {:g} GB/s\ntarget: a training loss of {:g}, mean of {} samples",
        settings_.workers, settings_.samples,
        1e3 * std::accumulate(pieces_s_.begin(), pieces_s_.end(), 0.0) / static_cast<double>(settings_.samples),
        settings_.sample_ms > 0 ? "given" : "measured", settings_.noise, settings_.latency_us, settings_.bandwidth_gb_s,
        settings_.target, settings_.window);
  }

  /// "1.23 (1.10 - 1.31)" of one value per seed: median and range.
  template <class Value>
  std::string over_seeds(const Scheme& scheme, int decimals, const Value& value) const {
    std::vector<double> values;
    for (std::size_t seed = 0; seed < scheme.runs.size(); ++seed) {
      if (!scheme.runs[seed].reached) return "not reached";
      values.push_back(value(seed));
    }
    std::ranges::sort(values);
    const double median = values[values.size() / 2];
    if (values.size() == 1) return fmt::format("{:.{}f}", median, decimals);
    return fmt::format("{:.{}f} ({:.{}f} - {:.{}f})", median, decimals, values.front(), decimals, values.back(),
                       decimals);
  }

  std::vector<std::vector<std::string>> rows(const std::vector<Scheme>& schemes) const {
    std::vector<std::vector<std::string>> rows = {{"", "rate", "momentum", "updates to target", "ms per update",
                                                   "s to target", "times as fast", "staleness", "AUC"}};
    for (const Scheme& scheme : schemes) {
      const auto each = [&](int decimals, const auto& value) {
        return over_seeds(scheme, decimals, [&](std::size_t seed) { return value(scheme.runs[seed], seed); });
      };
      const std::vector<Outcome>& first = schemes.front().runs;
      rows.push_back(
          {name_of(scheme.groups), fmt::format("{:g}", scheme.rate), fmt::format("{:g}", scheme.momentum),
           each(0, [](const Outcome& run, std::size_t) { return static_cast<double>(run.updates()); }),
           each(2, [](const Outcome& run, std::size_t) { return 1e3 * run.update_s(); }),
           each(2, [](const Outcome& run, std::size_t) { return run.end_s(); }),
           reached_by(schemes.front())
               ? each(2, [&](const Outcome& run, std::size_t seed) { return first[seed].end_s() / run.end_s(); })
               : "-",
           each(1, [](const Outcome& run, std::size_t) { return run.staleness; }),
           each(3, [](const Outcome& run, std::size_t) { return run.auc; })});
    }
    return rows;
  }

  std::string text_table(const Scenario& scenario, const std::vector<Scheme>& schemes) const {
    std::string text = scenario.name;
    for (const std::vector<std::string>& row : rows(schemes)) text += fmt::format("\n| {} |", fmt::join(row, " | "));
    return text;
  }

  void write_page(const std::string& path, const std::vector<Scenario>& scenarios,
                  const std::vector<std::vector<Scheme>>& results) const {
    if (path.empty()) return;
    Page page("Schemes of updates", fmt::format("{}, {}", settings_.line.input, own_binding(0, 1).processor));
    std::vector<std::string> figures, tables;
    for (std::size_t i = 0; i < scenarios.size(); ++i) {
      Plot plot({"modelled time in s", false, 0.0}, {"training loss"});
      for (std::size_t s = 0; s < results[i].size(); ++s) {
        const Scheme& scheme = results[i][s];
        const Outcome& run = scheme.runs.front();
        plot.line(run.mean_s, run.mean, fmt::format("s{}", s + 1), name_of(scheme.groups));
      }
      plot.rule_y(settings_.target, "target");
      figures.push_back(figure(plot, html_escape(scenarios[i].name)));
      tables.push_back(table(rows(results[i]), html_escape(scenarios[i].name) + ": median and range of " +
                                                   format_count(settings_.seeds, "seed")));
    }
    page.section("Loss against time", side_by_side(figures));
    page.section("To the target",
                 fmt::format("<p>{}</p>", html_escape(describe())) + fmt::format("{}", fmt::join(tables, "")));
    write_file_atomically(path, page.html());
    say("wrote " + path);
  }

  Settings settings_;
  const Problem& problem_;
  CommonOptions options_;
  std::vector<double> pieces_s_;
};

void compare(Settings settings, const std::string& page, Communicator& world) {
  hep::HepTask task;
  Configuration config(task);
  config.load_input(world, settings.line);
  const DataOptions& data = config.options.data;
  agree(world, [&] {
    Communicator alone;
    const bool there = data.train.empty() || std::filesystem::exists(data.train.front());
    if (world.rank() == 0 && !there) task.generate(data, alone, false);
  });
  const auto train = open_data(world, task, data.train, "data.train", DataRole::kTrain);
  const auto validation = open_data(world, task, data.validation, "data.validation", DataRole::kEvaluate);
  const Problem problem{task, *train, *validation};
  const bool real = settings.real > 0;
  if (world.size() > 1 && !real) user_error("virtual ranks take one process; --real takes those of mpirun");
  Comparison comparison(std::move(settings), config, problem);
  if (real) {
    comparison.check(world);
  } else {
    comparison.run(page);
  }
}

int run(int argc, char** argv) {
  Settings settings;
  std::string page = "schemes.html";
  CLI::App program("Loss against time of synchronous and hybrid training, on virtual ranks.");
  program.add_option("INPUT", settings.line.input, "input file of hep; data that is not there is generated")
      ->required();
  program.add_option("OPTION=VALUE", settings.line.overrides, "options of the input file");
  const auto add = [&](const char* names, auto& value, const char* text) {
    return program.add_option(names, value, text)->capture_default_str();
  };
  // One argument, so that options of the input file may stand behind it.
  const auto add_list = [&](const char* names, auto& values, const char* text) {
    return add(names, values, text)->delimiter(',')->allow_extra_args(false);
  };
  add_list("--groups", settings.groups, "numbers of groups; 1: synchronous")->check(CLI::Range(1, 1'000'000));
  add_list("--rates", settings.rates, "learning rates to choose from")->check(CLI::Range(1e-9, 1e9));
  add_list("--momenta", settings.momenta, "momenta to choose from; of Adam: beta1")->check(CLI::Range(0.0, 0.99));
  add("--workers", settings.workers, "virtual ranks that compute")->check(CLI::Range(1, 1'000'000'000));
  add("--servers", settings.servers, "parameter servers, where there are groups")->check(CLI::Range(1, 1'000'000'000));
  add("--samples", settings.samples, "samples of a worker's step")->check(CLI::Range(1, 1'000'000'000));
  add("--seeds", settings.seeds, "runs of the best setting")->check(CLI::Range(1, 1'000'000'000));
  add("--target", settings.target, "training loss to reach")->check(CLI::Range(0.0, 1e9));
  add("--window", settings.window, "samples that this loss is a mean of")->check(CLI::Range(1, 1'000'000'000));
  add("--cap", settings.cap, "most samples of a run, as synchronous updates")->check(CLI::Range(1, 1'000'000'000));
  add("--sample-ms", settings.sample_ms, "computation per sample; 0: measured")->check(CLI::Range(0.0, 1e9));
  add("--slow", settings.slow, "factor of the slow worker's time")->check(CLI::Range(1e-9, 1e9));
  add("--noise", settings.noise, "sigma of a log-normal factor of every step")->check(CLI::Range(0.0, 1e9));
  add("--latency-us", settings.latency_us, "of a message")->check(CLI::Range(0.0, 1e9));
  add("--bandwidth-gb-s", settings.bandwidth_gb_s, "of a rank")->check(CLI::Range(1e-9, 1e9));
  add("--real", settings.real, "so many updates of each group on real ranks instead")->check(CLI::Range(4, 1'000'000));
  add("-o,--output", page, "page with the figure; empty: none");
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 1;
  }
  settings.line.command = "bench";

  const MpiSession mpi(&argc, &argv);
  const std::unique_ptr<Communicator> world = make_communicator();
  log_start(world->rank());
  log_nothing_but_warnings();
  std::vector<std::string> arguments = kokkos_arguments(*world, {});
  std::vector<char*> pointers = {argv[0]};
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  pointers.push_back(nullptr);
  const Kokkos::ScopeGuard kokkos(count, pointers.data());
  try {
    compare(std::move(settings), page, *world);
  } catch (...) {
    return say_failure("schemes", world.get());
  }
  return 0;
}

}  // namespace
}  // namespace petaflow::perf

int main(int argc, char** argv) { return petaflow::perf::run(argc, argv); }
