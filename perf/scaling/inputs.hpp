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

/// Throw a user error that names file, line and key where a key is unknown or no such list, or its number is out of
/// range.  What a machine's file does not say costs nothing and limits nothing; it must have nic_gb_s.
Machine read_machine(const std::string& path);
TrustedWorkload read_workload(const std::string& path);

/// Times of rank 0 from runs of the same network: of its input, of the stages whose names begin as those of the
/// workload and of what lies between stages, which counts as of the backward pass, and of the optimizer.
/// @param stages_path     a performance.json
/// @param optimizer_path  another one, of a run in which every rank updates all parameters: neither with servers nor
///                        with sharded state
/// Throws a user error where a file is of no training or a stage is missing there.
void take_times(TrustedWorkload& workload, const std::string& stages_path, const std::string& optimizer_path);

}  // namespace petaflow::scaling
