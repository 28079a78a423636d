// simulate: a training run on thousands of virtual ranks, by the communication code of real ones.
//   build/host/bin/simulate run --machine cori --workload cosmoflow_knl --ranks 8192 --reduction two_level
//   build/host/bin/simulate published
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "program/say_failure.hpp"
#include "scaling/published.hpp"
#include "scaling/simulation.hpp"

namespace petaflow::scaling {
namespace {

struct Arguments {
  std::string inputs = PETAFLOW_SCALING_INPUTS, machine = "flat", workload = "cosmoflow_knl", performance,
              optimizer_performance;
  int ranks = 64;
  std::uint64_t seed = 1;
  double step_sigma = -1;
  std::string wire = "f32";
  bool whole = false, terms = false;
  Scheme scheme;
  RefereeCase referee;
};

void print(const std::string& what, const Outcome& outcome, const Workload& workload, bool served) {
  const double alone_s = workload.step_s() - (served ? workload.optimizer_s : 0);
  std::printf("%-34s %9.2f ms a step, %5.1f %% of it what one rank alone needs\n", what.c_str(), 1e3 * outcome.step_s,
              100 * alone_s / outcome.step_s);
  std::fflush(stdout);
}

/// The step again without one cause of delay after the other.
void print_terms(const Arguments& given, Machine machine, const Workload& workload) {
  const auto again = [&](const std::string& what) {
    print(what, simulate(given.ranks, machine, workload, given.scheme, given.seed), workload, given.scheme.servers > 0);
  };
  machine.noise = {};
  again("without noise");
  machine.byte_added_s = 0;
  again("... nor time of additions");
  machine.network.overhead_s = machine.network.latency_s = machine.network.gap_s = machine.network.handshake_s = 0;
  machine.network.group_latency_s = machine.network.node_latency_s = 0;
  again("... nor latency and overhead");
  machine.network.group_byte_s = machine.network.pair_byte_s = 0;
  again("... nor limits of groups");
  machine.network.byte_s = machine.network.node_byte_s = 0;
  again("... nor limits of interfaces");
}

/// A file of a user, or one of those in a folder of the inputs.
std::string find_input(const Arguments& given, const std::string& folder, const std::string& name) {
  if (name.ends_with(".toml")) return name;
  const std::filesystem::path all = std::filesystem::path(given.inputs) / folder, path = all / (name + ".toml");
  if (std::filesystem::exists(path)) return path;
  std::vector<std::string> known;
  for (const auto& file : std::filesystem::directory_iterator(all)) known.push_back(file.path().stem());
  std::ranges::sort(known);
  user_error("no file {} in {}; there are {}; or name a file of your own that ends with .toml", name, all.string(),
             fmt::join(known, ", "));
}

void run(Arguments& given) {
  Machine machine = read_machine(find_input(given, "machines", given.machine));
  TrustedWorkload workload = read_workload(find_input(given, "workloads", given.workload));
  if (!given.performance.empty()) {
    const std::string& optimizer = given.optimizer_performance;
    take_times(workload, given.performance, optimizer.empty() ? given.performance : optimizer);
  }
  if (given.step_sigma >= 0) machine.noise.step_sigma = given.step_sigma;
  given.scheme.overlap = !given.whole;
  if (given.wire == "bf16") given.scheme.wire = Wire::kBf16;
  const Outcome outcome = simulate(given.ranks, machine, workload.workload, given.scheme, given.seed);
  print_inputs(machine.inputs);
  print_inputs(workload.inputs);
  print(fmt::format("{} ranks, {} group{}", given.ranks, given.scheme.groups, given.scheme.groups == 1 ? "" : "s"),
        outcome, workload.workload, given.scheme.servers > 0);
  std::printf(
      "a rank computes %.2f ms of it, the slowest one %.2f; %.2f updates/s, %.0f samples/s\n%.1f s of virtual time and "
      "%.1f million messages in %.1f s (%.2f us a message), %.0f MiB resident\n",
      1e3 * outcome.compute_s, 1e3 * outcome.slowest_s, outcome.updates_per_s,
      workload.samples * outcome.updates_per_s * layout_of(given.ranks, given.scheme).members(), outcome.virtual_s,
      1e-6 * static_cast<double>(outcome.messages), outcome.real_s,
      1e6 * outcome.real_s / static_cast<double>(outcome.messages), outcome.resident_mb);
  if (given.terms) print_terms(given, machine, workload.workload);
}

}  // namespace
}  // namespace petaflow::scaling

int main(int argc, char** argv) {
  using namespace petaflow;
  scaling::Arguments given;
  CLI::App program("Simulates training on thousands of ranks with the communication code of real ones.");
  program.require_subcommand(1);
  program.add_option("--inputs", given.inputs, "folder with machines/*.toml and workloads/*.toml")
      ->capture_default_str();
  CLI::App* const run = program.add_subcommand("run", "one run");
  run->add_option("--machine", given.machine, "name of a file in machines/, or another .toml")->capture_default_str();
  run->add_option("--workload", given.workload, "name of a file in workloads/, or another .toml")
      ->capture_default_str();
  CLI::Option* const performance =
      run->add_option("--performance", given.performance, "performance.json that has the times of stages");
  run->add_option("--optimizer-performance", given.optimizer_performance,
                  "another one, of the same network, that has the time of the optimizer: where the former is of a run "
                  "with servers or sharded state")
      ->needs(performance);
  run->add_option("--ranks", given.ranks, "workers and servers")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  run->add_option("--groups", given.scheme.groups, "of workers")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  run->add_option("--servers", given.scheme.servers, "0: there are none")
      ->check(CLI::Range(0, 1'000'000'000))
      ->capture_default_str();
  run->add_flag("--colocate-servers", given.scheme.colocate_servers, "servers are inside workers");
  run->add_option("--steps", given.scheme.steps, "of all groups together")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  run->add_option("--lag", given.scheme.lag, "steps")->check(CLI::Range(0, 1'000'000'000))->capture_default_str();
  run->add_flag("--sharded", given.scheme.sharded, "every rank updates slices of the weights");
  run->add_option("--average-every", given.scheme.average_every,
                  "groups average weights and states after so many steps of each; 0: never")
      ->check(CLI::NonNegativeNumber);
  run->add_option("--average-late", given.scheme.average_late, "averages of weights are used so many steps later")
      ->check(CLI::Range(0, 1'000'000'000));
  run->add_option("--averaged-arrays", given.scheme.averaged_arrays, "weights and states of the optimizer: 3 with Adam")
      ->check(CLI::Range(1, 1'000))
      ->capture_default_str();
  run->add_option("--bucket-mb", given.scheme.bucket_mb, "smallest bucket, MiB")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  run->add_option("--reduction", given.scheme.reduction, "how gradients are summed")
      ->check(CLI::IsMember({"auto", "ring", "doubling", "halving", "two_level", "tree"}))
      ->capture_default_str();
  run->add_option("--wire", given.wire, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  given.scheme.poll_s = 0.0005;  // a tile of a convolution, behind which training looks after its sums
  run->add_option("--poll-s", given.scheme.poll_s,
                  "seconds after which sums move on during a stage; 0: at its end alone")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  run->add_flag("--no-overlap", given.whole, "sums begin at the end of the backward pass");
  run->add_option("--step-sigma", given.step_sigma, "instead of the machine's: sigma of a rank's factor of a step")
      ->check(CLI::Range(0.0, 10.0));
  run->add_option("--seed", given.seed, "of noise")->capture_default_str();
  run->add_flag("--terms", given.terms,
                "runs again with causes of delay taken away one after the other: noise, additions, latency, limits");
  CLI::App* const referee = program.add_subcommand("referee", "seconds of a case that smpi/compare.py compares");
  referee->add_option("--machine", given.machine, "name of a file in machines/, or another .toml")
      ->capture_default_str();
  referee->add_option("--ranks", given.ranks)->check(CLI::Range(1, 1'000'000'000))->capture_default_str();
  referee->add_option("--what", given.referee.what, "a reduction, or \"servers\"")->capture_default_str();
  referee->add_option("--elements", given.referee.elements)->check(CLI::Range(1, 1'000'000'000))->capture_default_str();
  referee->add_option("--groups", given.referee.groups)->check(CLI::Range(1, 1'000'000'000))->capture_default_str();
  CLI::App* const published = program.add_subcommand("published", "points of papers: one of each system fitted");
  std::string system;
  published->add_option("--system", system, "one alone")->check(CLI::IsMember({"cosmoflow", "hep", "daint", "summit"}));
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 1;
  }
  try {
    if (run->parsed()) scaling::run(given);
    if (referee->parsed()) {
      const auto machine = scaling::read_machine(scaling::find_input(given, "machines", given.machine));
      std::printf("%.9f\n", scaling::simulate_case(given.ranks, machine, given.referee));
    }
    if (published->parsed()) scaling::print_published(given.inputs, system);
  } catch (...) {
    return say_failure("simulate");
  }
  return 0;
}
