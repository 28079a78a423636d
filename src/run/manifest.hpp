// The manifest of a run: who made it, with what, where and from which data; with config.toml enough to repeat it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "comm/communicator.hpp"
#include "train/options.hpp"

namespace petaflow {

/// The run that the program was asked for.
struct RunIdentity {
  std::string application, run;
  std::string input;                   // input file, or run folder or checkpoint
  std::vector<std::string> overrides;  // option=value
  std::int64_t seed = 0;
};

/// Facts that this process alone knows: program, build, libraries, command line, seed, host, time.
nlohmann::json describe_process(const RunIdentity& run, const Communicator& comm, int threads);
/// The same as text, kept with results: who made them, with what.
std::string provenance(const RunIdentity& run, const Communicator& comm, int threads);

/// On all ranks: writes manifest.json into the run folder, which exists: describe_process() of rank 0, of every rank
/// the host, processor, cores that it may use and threads, and the data files with size and time of change.  The
/// manifests of earlier parts of a resumed run stay in it under "earlier".
void write_manifest(Communicator& comm, int threads, const RunIdentity& run, const DataOptions& data,
                    const std::string& folder);

/// The files of data.train, data.validation and data.test that are not as they were when manifest.json of the run
/// folder was written, by size and time of change, or are more or fewer: a phrase each.  None where there is no
/// manifest.
std::vector<std::string> changed_data_files(const std::string& folder, const DataOptions& data);

}  // namespace petaflow
