// How fast a run was: tables for people and files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "nn/network.hpp"
#include "train/communication.hpp"
#include "train/train_step.hpp"

namespace petaflow {

/// Parts of the time, in the order of a step: name, seconds.
std::vector<std::pair<std::string, double>> parts(const StepTimes& times);

/// "input 0.1 s (2 %), forward ..."
std::string describe(const StepTimes& times);

/// "gradient all-reduce: 0.14 MiB in 2 buckets per step, 3.20 ms, of which 0.40 ms not overlapped; longest wait: rank 1
/// for ..."; "" where nothing was sent.
std::string describe(const CommunicationTimes& communication);
nlohmann::json to_json(const CommunicationTimes& communication);

/// "pushes to servers: 0.14 MiB there and back in 3 layers a step, 3.2 ms under way ...": mean of all steps.
std::string describe(const std::vector<LayerService>& service);
/// Bytes and times of a push and of the weights that answer it, mean over all groups.
nlohmann::json to_json(const LayerService& service);

/// A line per stage: time, GFLOP, GFLOP/s and share of the machine's peak, forward and backward, per micro-batch.  The
/// time of backward is divided into data and weights where the stage is a convolution; of others it stands under data.
/// @param micro_batches  that the times of the report add up
/// @param peak_gflops    of the host; 0: no share
std::string stage_table(const Network& network, std::int64_t micro_batches, double peak_gflops);
nlohmann::json stage_json(const Network& network, std::int64_t micro_batches, double peak_gflops);

/// Largest resident set of this process so far.
std::size_t peak_resident_bytes();

/// "arena: 180.000 MiB, 178.000 MiB of it on huge pages"
std::string describe_arena(const Network& network);

/// "2.27 MiB"
std::string format_bytes(std::size_t bytes);

/// Lines of cells under a head, columns as wide as their cells; the first column is left aligned, the others right.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace petaflow
