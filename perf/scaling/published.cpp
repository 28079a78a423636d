#include "scaling/published.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/error.hpp"
#include "scaling/simulation.hpp"

namespace petaflow::scaling {
namespace {

constexpr std::int64_t kSteps = 4;  // of each run

struct System {
  Machine machine;
  Workload workload;
  Scheme scheme;
};

System system_of(const std::filesystem::path& inputs, const std::string& machine, const std::string& workload) {
  const std::filesystem::path path = inputs / "workloads" / (workload + ".toml");
  const TrustedWorkload trusted = read_workload(path);
  if (!(trusted.bucket_mb > 0 && trusted.poll_s > 0)) {
    user_error("{}: write published.bucket_mb and published.poll_ms, of the program that was published", path.string());
  }
  System system{read_machine(inputs / "machines" / (machine + ".toml")), trusted.workload, {}};
  print_inputs(system.machine.inputs);
  print_inputs(trusted.inputs);
  system.machine.noise = {};
  system.scheme.steps = kSteps;
  system.scheme.reduction = "two_level";
  system.scheme.bucket_mb = trusted.bucket_mb;
  system.scheme.poll_s = trusted.poll_s;
  return system;
}

double step_ms(const System& system, int ranks) {
  return 1e3 * simulate(ranks, system.machine, system.workload, system.scheme).step_s;
}

/// Root of a rising function by false positions; the first guess is good.
double fit(double guess, double target, int corrections, const std::function<double(double)>& value_of) {
  const double low = 0, low_value = value_of(low);
  double best = guess;
  for (int time = 0; time < corrections; ++time) {
    const double value = value_of(best);
    best = low + (best - low) * (target - low_value) / (value - low_value);
  }
  return best;
}

/// Sigma at which the slowest of so many ranks takes that many times as long as they do on average (Blom's estimate of
/// the largest of normal numbers).
double sigma_of(double factor, int ranks) {
  // The quantile of 1 - p, p small: Abramowitz and Stegun, 26.2.23.
  const double p = 0.625 / (ranks + 0.25), t = std::sqrt(-2 * std::log(p));
  const double z =
      t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  return z - std::sqrt(z * z - 2 * std::log(factor));
}

void fit_noise(System& system, int ranks, double alone_ms, double target_ms, int corrections) {
  const double compute_ms = 1e3 * system.workload.step_s();
  const double guess = sigma_of(1 + std::max(0.0, target_ms - alone_ms) / compute_ms, ranks);
  system.machine.noise.step_sigma = fit(guess, target_ms, corrections, [&](double sigma) {
    if (sigma == 0) return alone_ms;
    system.machine.noise.step_sigma = sigma;
    return step_ms(system, ranks);
  });
}

void head() { std::printf("%-24s %-44s %10s %10s %9s\n", "system", "point", "published", "simulated", ""); }

void line(const std::string& system, const std::string& point, double published, double simulated,
          const std::string& how) {
  std::printf("%-24s %-44s %10.1f %10.1f %+7.1f %%  %s\n", system.c_str(), point.c_str(), published, simulated,
              100 * (simulated / published - 1), how.c_str());
  std::fflush(stdout);
}

void scale(Workload& workload, double factor) {
  workload.other_s *= factor;
  for (StageTimes& stage : workload.stages) stage.forward_s *= factor, stage.backward_s *= factor;
}

/// The noise of the whole machine, from the efficiency of one run; then the steps of another stack, whose step on one
/// node is not known.
void print_cosmoflow(const std::filesystem::path& inputs) {
  constexpr double kEfficiency = 77;
  System paper = system_of(inputs, "cori", "cosmoflow_knl");
  System march = system_of(inputs, "cori", "cosmoflow_march_knl");
  head();
  const double alone_ms = 1e3 * paper.workload.step_s();
  fit_noise(paper, 8192, step_ms(paper, 8192), 100 * alone_ms / kEfficiency, 1);
  line("CosmoFlow", "efficiency at 8,192 nodes, %", kEfficiency, 100 * alone_ms / step_ms(paper, 8192),
       fmt::format("fitted: noise.step_sigma = {:.4f}", paper.machine.noise.step_sigma));
  march.machine.noise = paper.machine.noise;
  const Workload one = march.workload;
  const auto take_factor = [&](double factor) {
    march.workload = one;
    scale(march.workload, factor);
  };
  const double factor = fit(256 / step_ms(march, 512), 256, 2, [&](double times) {
    take_factor(std::max(times, 1e-3));
    return step_ms(march, 512);
  });
  take_factor(factor);
  line("CosmoFlow, March 2018", "step at 512 nodes, ms", 256, step_ms(march, 512),
       fmt::format("fitted: a step of one node = {:.1f} ms", 1e3 * march.workload.step_s()));
  for (const auto& [nodes, published] : {std::pair(1024, 282.0), std::pair(4096, 288.0), std::pair(8192, 270.0)}) {
    line("CosmoFlow, March 2018", fmt::format("step at {} nodes, ms", nodes), published, step_ms(march, nodes),
         "predicted");
  }
}

/// With the machine's noise, which is fitted to CosmoFlow.
void print_hep(const std::filesystem::path& inputs) {
  System hep = system_of(inputs, "cori", "hep_knl");
  head();
  hep.machine = read_machine(inputs / "machines" / "cori.toml");
  hep.scheme.reduction = "auto";
  hep.scheme.servers = 6;
  hep.scheme.groups = 9;
  hep.scheme.steps = 5 * hep.scheme.groups;
  line("HEP", "step of 9 groups, 9,600 nodes, ms", 106, step_ms(hep, 9600), "predicted with CosmoFlow's noise");

  // A batch of 2,048 for each group: updates of one group, of the most rewarding number of nodes, against groups on
  // 1,024.
  const auto images_per_s = [&](int nodes, int groups) {
    System strong = hep;
    scale(strong.workload, 2048.0 * groups / nodes / 8);
    strong.scheme.groups = groups;
    strong.scheme.servers = groups > 1 ? 6 : 0;
    strong.scheme.steps = 12 * groups;
    return 2048.0 *
           simulate(nodes + strong.scheme.servers, strong.machine, strong.workload, strong.scheme).updates_per_s;
  };
  double synchronous = 0, hybrid = 0;
  for (const int nodes : {256, 512, 1024}) synchronous = std::max(synchronous, images_per_s(nodes, 1));
  for (const int groups : {2, 4, 8}) hybrid = std::max(hybrid, images_per_s(1024, groups));
  line("HEP", "best hybrid / best synchronous, 1,024 nodes", 1.66, hybrid / synchronous,
       "predicted: images per second alone, not what an update is worth");
}

void print_daint(const std::filesystem::path& inputs) {
  System daint = system_of(inputs, "daint", "tiramisu_p100");
  head();
  const double alone_ms = 1e3 * daint.workload.step_s();
  fit_noise(daint, 5300, step_ms(daint, 5300), 100 * alone_ms / 79.0, 1);
  line("Tiramisu, Piz Daint", "efficiency at 5,300 GPUs, %", 79.0, 100 * alone_ms / step_ms(daint, 5300),
       fmt::format("fitted: noise.step_sigma = {:.4f}", daint.machine.noise.step_sigma));
  line("Tiramisu, Piz Daint", "efficiency at 2,048 GPUs, %", 83.4, 100 * alone_ms / step_ms(daint, 2048), "predicted");
}

void print_summit(const std::filesystem::path& inputs) {
  System summit = system_of(inputs, "summit", "deeplab_v100");
  head();
  const double summit_ms = 1e3 * summit.workload.step_s(), quiet_ms = step_ms(summit, 27360);
  line("DeepLabv3+, Summit", "efficiency at 27,360 GPUs, %", 90.7, 100 * summit_ms / quiet_ms,
       "without noise, nothing fitted");
  fit_noise(summit, 27360, quiet_ms, 100 * summit_ms / 90.7, 0);
  line("DeepLabv3+, Summit", "efficiency at 27,360 GPUs, %", 90.7, 100 * summit_ms / step_ms(summit, 27360),
       fmt::format("fitted: noise.step_sigma = {:.4f}", summit.machine.noise.step_sigma));
}

}  // namespace

void print_published(const std::string& inputs, const std::string& only) {
  const std::vector<std::pair<std::string, void (*)(const std::filesystem::path&)>> systems = {
      {"cosmoflow", print_cosmoflow}, {"hep", print_hep}, {"daint", print_daint}, {"summit", print_summit}};
  for (const auto& [name, print] : systems) {
    if (only.empty() || only == name) print(inputs);
  }
}

}  // namespace petaflow::scaling
