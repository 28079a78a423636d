// The manifest of a run: who made it, with what, where and from which data; with config.toml enough to repeat it.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "program/job.hpp"

namespace petaflow {

/// What this process alone knows: program, build, libraries, command line, seed, host, time.
nlohmann::json describe_process(const Job& job);

/// On all ranks: writes manifest.json into the run folder, which exists: describe_process() of rank 0, of every rank
/// the host, processor, cores that it may use and threads, and the data files with size and time of change.  The
/// manifests of earlier parts of a resumed run stay in it under "earlier".
void write_manifest(Job& job);

/// On rank 0: the files of data.train that are not as they were when manifest.json was written, by size and time of
/// change, or are more or fewer: a phrase each.  None where there is no manifest.
std::vector<std::string> changed_data_files(const Job& job);

}  // namespace petaflow
