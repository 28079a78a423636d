#include "train/run_folder.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/atomic_file.hpp"
#include "train/agree.hpp"
#include "train/manifest.hpp"

namespace petaflow {
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().starts_with(kEventsPrefix)) files.push_back(entry.path());
  }
  return files;
}

}  // namespace

void check_run_folder(Job& job) {
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    const fs::path folder = job.run_folder();
    const bool exists = fs::exists(folder);
    if (exists && !fs::is_directory(folder)) {
      user_error("{} is to be the folder of the run, but it is a file; choose another run.name or run.folder",
                 folder.string());
    }
    if (exists && !fs::is_empty(folder) && !job.line.overwrite) {
      user_error("{} exists; give this run another run.name, or --overwrite to replace it", folder.string());
    }
    fs::path parent = fs::absolute(folder);  // the nearest one that exists must be ours to write
    while (!fs::exists(parent)) parent = parent.parent_path();
    if (!fs::is_directory(parent)) {
      user_error("cannot make the run folder {}: {} is not a folder", folder.string(), parent.string());
    }
    if (access(parent.c_str(), W_OK | X_OK) != 0) {
      user_error("cannot write to {} (for the run folder {}): {}; choose another run.folder", parent.string(),
                 folder.string(), std::strerror(errno));
    }
  });
}

std::unique_ptr<MetricsLog> open_run_folder(Job& job) {
  std::unique_ptr<MetricsLog> metrics;
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    const fs::path folder = job.run_folder();
    std::error_code status;
    fs::create_directories(folder, status);
    if (status) user_error("cannot make the run folder {}: {}", folder.string(), status.message());
    for (const char* file : {kCheckpointFile, kMetricsFile, kConfigFile, kManifestFile, kPerformanceFile,
                             kEvaluationFile, kTraceFile, kReportFile}) {
      fs::remove(folder / file, status);
      if (status) user_error("cannot remove {}: {}", (folder / file).string(), status.message());
    }
    for (const fs::path& events : event_files(folder)) {
      fs::remove(events, status);
      if (status) user_error("cannot remove {}: {}", events.string(), status.message());
    }
    write_file_atomically((folder / kConfigFile).string(), job.schema.resolved());
    metrics = std::make_unique<MetricsLog>((folder / kMetricsFile).string(), folder.string());
  });
  write_manifest(job);
  return metrics;
}

std::string provenance(const Job& job) { return describe_process(job).dump(); }

}  // namespace petaflow
