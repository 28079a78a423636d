// What a run did and how fast: numbers, and the tables that people read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "comm/communicator.hpp"
#include "nn/network.hpp"
#include "train/train_step.hpp"

namespace petaflow {

/// Rates of training over all ranks.  Flop: 2 per multiply-add of convolutions and dense layers, forward and backward,
/// of real samples (Kurth et al., SC17, section V: peak is the best interval, sustained the mean).
struct Rates {
  std::int64_t steps = 0, samples = 0;
  double seconds = 0;                  // of steps, without validation
  double sustained_samples_per_s = 0;  // after the first step
  double sustained_gflops = 0, peak_gflops = 0;
};

/// Forward and backward of one sample.
double flop_per_sample(const Network& network);

/// Parts of the time, in the order of a step: name, seconds.
std::vector<std::pair<std::string, double>> parts(const StepTimes& times);

/// The mean over ranks.
StepTimes mean_times(Communicator& comm, StepTimes times);

/// "input 0.1 s (2 %), forward ..."
std::string describe(const StepTimes& times);

/// A line per stage: time, GFLOP, GFLOP/s and share of the machine's peak, forward and backward, per pass.  The time of
/// backward is divided into data and weights where the stage is a convolution; of others it stands under data.
/// @param passes     that the times of the report add up
/// @param peak_gflops of the host; 0: no share
std::string stage_table(const Network& network, std::int64_t passes, double peak_gflops);
nlohmann::json stage_json(const Network& network, std::int64_t passes, double peak_gflops);

/// Largest resident set of this process so far.
std::size_t peak_resident_bytes();

/// "arena: 180.000 MiB, 178.000 MiB of it on huge pages"
std::string describe_arena(const Network& network);

/// "2.27 MiB"
std::string format_bytes(std::size_t bytes);

/// Lines of cells under a head, columns as wide as their cells; the first column is left aligned, the others right.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace petaflow
