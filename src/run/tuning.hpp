// The findings of kernels.conv = "tune": where they are kept, for which machine, and how all ranks come to use them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "nn/conv_tuning.hpp"
#include "nn/graph.hpp"
#include "nn/network_options.hpp"

namespace petaflow {

/// Facts that times depend on beside the layer: processor, instruction sets, cache, threads, the sources of the kernels
/// and how they were compiled, and the libraries.
std::string machine_text(int threads);

/// $XDG_CACHE_HOME/petaflow/tuning.json, or the same below ~/.cache; empty where neither variable is set.
std::string tuning_cache_path();

/// Adds what the file holds for this machine to the table, in place of what is there.  No file: nothing; one that is
/// damaged or of another version is warned of and passed over.
void read_tuning(const std::string& path, const std::string& machine, std::map<std::string, TunedPass>& table);

/// Adds the table to the file, in whose place a new one is put; what it holds of this and of other machines when it is
/// read stays.  A file that is damaged or of another version is replaced.  Throws a user error where it cannot be
/// written.
void write_tuning(const std::string& path, const std::string& machine, const std::map<std::string, TunedPass>& table);

/// The same with a file that several jobs write, in a folder that may have to be made: what they add at the same time
/// stays too.
void share_tuning(const std::string& path, const std::string& machine, const std::map<std::string, TunedPass>& table);

/// Says that the machine was busy where, in a quarter or more of the passes in the table that this process timed, the
/// times of what is kept differed by more than 25 % between rounds (TunedPass::spread); empty: it was quiet.
std::string busy_warning(const std::map<std::string, TunedPass>& table);

/// Where choices are kept beside the cache of the user.
struct TuningFiles {
  std::string run_file;     // of a run that goes on, whose choices come before those of the cache; empty: none
  bool keeps_times = true;  // what is timed goes to the cache
};

/// On all ranks, before networks with kernels.conv = "tune" are made: rank 0 reads what is known, times the rest of
/// what these networks ask for and keeps it, and all ranks get its table.  A file that cannot be read or written is
/// warned of.
std::unique_ptr<ConvTuning> tune_convolutions(Communicator& comm, const Context& context, const Graph& graph,
                                              std::vector<NetworkOptions> networks, const TuningFiles& files);

/// Choices that the cache holds, on rank 0, without timing anything.
std::unique_ptr<ConvTuning> look_up_tuning(const Communicator& comm, int threads);

}  // namespace petaflow
