// What kernels.conv = "tune" has found out: where it is kept, for which machine, and how all ranks come to use it.
#pragma once

#include <string>

#include "nn/conv_tuning.hpp"
#include "program/job.hpp"

namespace petaflow {

/// What times depend on beside the layer: processor, instruction sets, cache, threads, the sources of the kernels and
/// how they were compiled, and the libraries.
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

/// On all ranks, before a network of job.app is made from job.options: with kernels.conv = "tune", rank 0 reads what is
/// known, times the rest and keeps it, and all ranks get its table (job.tuning).  A file that cannot be read or written
/// is warned of.
/// @param backward  the network is to be trained
void tune_convolutions(Job& job, bool backward);

/// On all ranks: the same from the cache alone, without timing anything.
void look_up_tuning(Job& job);

}  // namespace petaflow
