// Machines and workloads of the simulator, from files that say of every number where it comes from and how far it can
// be trusted.
#pragma once

#include <string>
#include <vector>

#include "scaling/worker.hpp"
#include "simulate/loggp_network.hpp"

namespace petaflow::scaling {

/// A number of a file: name = [value, trust, source].
struct Input {
  std::string file, name;
  double value = 0;
  std::string trust, source;
};

struct Machine {
  LogGpOptions network;
  double byte_added_s = 0;  // of a vector that is added to another one
  Noise noise;
  std::vector<Input> inputs;
};

struct TrustedWorkload {
  Workload workload;
  double samples = 1;  // of a rank and step
  /// Of the program that was published (`simulate published`): its buckets, and how often it looked after their sums;
  /// 0: the file does not say.
  double bucket_mb = 0, poll_s = 0;
  std::vector<Input> inputs;
};

/// A table of them on standard output.
void print_inputs(const std::vector<Input>& inputs);

/// Throw a user error that names file and key where a key is unknown, missing, or no such list.
Machine read_machine(const std::string& path);
TrustedWorkload read_workload(const std::string& path);

/// Times of stages from a performance.json of a run of the same network: of those that begin with the name of a stage.
/// Throws a user error where a stage is missing there.
void take_times(TrustedWorkload& workload, const std::string& performance_path);

}  // namespace petaflow::scaling
