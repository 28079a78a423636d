// simulate: a training run on thousands of virtual ranks, by the communication code of real ones.
//   build/host/bin/simulate run --machine cori --workload cosmoflow_knl --ranks 8192 --reduction two_level
//   build/host/bin/simulate published
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "base/error.hpp"
#include "scaling/published.hpp"
#include "scaling/simulation.hpp"

namespace petaflow::scaling {
namespace {

struct Arguments {
  std::string inputs = PETAFLOW_SCALING_INPUTS, machine = "flat", workload = "cosmoflow_knl", performance;
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
  machine.network.group_byte_s = 0;
  again("... nor limits of groups");
  machine.network.byte_s = machine.network.node_byte_s = 0;
  again("... nor limits of interfaces");
}

void run(Arguments& given) {
  const std::filesystem::path inputs = given.inputs;
  Machine machine = read_machine(inputs / "machines" / (given.machine + ".toml"));
  TrustedWorkload workload = read_workload(inputs / "workloads" / (given.workload + ".toml"));
  if (!given.performance.empty()) take_times(workload, given.performance);
  if (given.step_sigma >= 0) machine.noise.step_sigma = given.step_sigma;
  given.scheme.overlap = !given.whole;
  if (given.wire == "bf16") given.scheme.wire = Wire::kBf16;
  print_inputs(machine.inputs);
  print_inputs(workload.inputs);
  const Outcome outcome = simulate(given.ranks, machine, workload.workload, given.scheme, given.seed);
  print(fmt::format("{} ranks, {} groups", given.ranks, given.scheme.groups), outcome, workload.workload,
        given.scheme.servers > 0);
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
  run->add_option("--machine", given.machine, "name of a file in machines/")->capture_default_str();
  run->add_option("--workload", given.workload, "name of a file in workloads/")->capture_default_str();
  run->add_option("--performance", given.performance, "performance.json that has the times of stages");
  run->add_option("--ranks", given.ranks, "workers and servers")->capture_default_str();
  run->add_option("--groups", given.scheme.groups, "of workers")->capture_default_str();
  run->add_option("--servers", given.scheme.servers, "0: there are none")->capture_default_str();
  run->add_flag("--colocate-servers", given.scheme.colocate_servers, "servers are inside workers");
  run->add_option("--steps", given.scheme.steps, "of all groups together")->capture_default_str();
  run->add_option("--lag", given.scheme.lag, "steps")->capture_default_str();
  run->add_flag("--sharded", given.scheme.sharded, "every rank updates slices of the weights");
  run->add_option("--average-every", given.scheme.average_every,
                  "groups average weights and states after so many steps of each; 0: never")
      ->check(CLI::NonNegativeNumber);
  run->add_option("--average-late", given.scheme.average_late, "averages of weights are used so many steps later")
      ->check(CLI::NonNegativeNumber);
  run->add_option("--averaged-arrays", given.scheme.averaged_arrays, "weights and states of the optimizer: 3 with Adam")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  run->add_option("--bucket-mb", given.scheme.bucket_mb, "smallest bucket, MiB")->capture_default_str();
  run->add_option("--reduction", given.scheme.reduction, "ring, doubling, halving, two_level")->capture_default_str();
  run->add_option("--wire", given.wire, "f32 or bf16")->check(CLI::IsMember({"f32", "bf16"}));
  given.scheme.poll_s = 0.0005;  // a tile of a convolution, behind which training looks after its sums
  run->add_option("--poll-s", given.scheme.poll_s, "sums move on so often during a stage; 0: at its end alone")
      ->capture_default_str();
  run->add_flag("--no-overlap", given.whole, "sums begin at the end of the backward pass");
  run->add_option("--step-sigma", given.step_sigma, "instead of the machine's: sigma of a rank's factor of a step");
  run->add_option("--seed", given.seed, "of noise and of the order of events")->capture_default_str();
  run->add_flag("--terms", given.terms, "again without one cause of delay after the other");
  CLI::App* const referee = program.add_subcommand("referee", "seconds of a case that smpi/compare.py compares");
  referee->add_option("--machine", given.machine, "name of a file in machines/")->capture_default_str();
  referee->add_option("--ranks", given.ranks)->capture_default_str();
  referee->add_option("--what", given.referee.what, "a reduction, or \"servers\"")->capture_default_str();
  referee->add_option("--elements", given.referee.elements)->capture_default_str();
  referee->add_option("--groups", given.referee.groups)->capture_default_str();
  CLI::App* const published = program.add_subcommand("published", "points of papers: one of each system fitted");
  std::string system;
  published->add_option("--system", system, "one alone")->check(CLI::IsMember({"cosmoflow", "hep", "daint", "summit"}));
  CLI11_PARSE(program, argc, argv);
  try {
    if (run->parsed()) scaling::run(given);
    if (referee->parsed()) {
      const auto machine = scaling::read_machine(given.inputs + "/machines/" + given.machine + ".toml");
      std::printf("%.9f\n", scaling::simulate_case(given.ranks, machine, given.referee));
    }
    if (published->parsed()) scaling::print_published(given.inputs, system);
  } catch (const Error& error) {
    std::fprintf(stderr, "simulate: %s\n", error.what());
    return error.kind() == ErrorKind::kUser ? 1 : 2;
  }
  return 0;
}
