#include "run/folder.hpp"

#include <filesystem>
#include <fstream>
#include <vector>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "run/checkpoint_folder.hpp"
#include "run/files.hpp"
#include "train/weights.hpp"

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

/// Makes a folder and those above it that are missing; again where try_to_make() of another process has just removed
/// one of them.
std::error_code make_folders(const fs::path& folder) {
  std::error_code status;
  for (int tries = 0; tries < 100; ++tries) {
    fs::create_directories(folder, status);
    if (status != std::errc::no_such_file_or_directory) break;
  }
  return status;
}

void remove_file(const fs::path& file) {
  std::error_code status;
  fs::remove(file, status);
  if (status) user_error("cannot remove {}: {}", file.string(), status.message());
}

/// Makes a folder beside `folder` and those above it that are missing, and removes them again.
void try_to_make(const fs::path& folder) {
  std::vector<fs::path> missing;
  std::error_code ignored;
  const fs::path beside = fmt::format("{}.{}", folder.string(), getpid());
  for (fs::path at = beside; !at.empty() && !fs::exists(at, ignored); at = at.parent_path()) missing.push_back(at);
  const std::error_code status = make_folders(beside);
  for (const fs::path& made : missing) fs::remove(made, ignored);  // but what another process has filled
  if (status) user_error("cannot make the run folder {}: {}", folder.string(), status.message());
}

}  // namespace

std::unique_ptr<WriteLock> check_run_folder(Communicator& comm, const std::string& name, const FolderUse& use) {
  std::unique_ptr<WriteLock> lock;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const fs::path folder = name;
    std::error_code status;  // a name that is too long is found out when it is to be made
    const bool exists = fs::exists(folder, status) || fs::is_symlink(folder, status);
    if (exists && !fs::is_directory(folder)) {
      user_error("{} is to be the folder of the run, but it is a file; choose another run.name or run.folder",
                 folder.string());
    }
    if (exists && !fs::is_empty(folder) && !use.overwrite && !use.resume) {
      user_error("{} exists; give this run another run.name, --resume to go on with it, or --overwrite to replace it",
                 folder.string());
    }
    if (!exists) try_to_make(folder);
    check_parent(folder / kConfigFile);
    // The ranks of a killed job may take their time to end before another one goes on with its run.
    if (exists && use.writes)
      lock =
          std::make_unique<WriteLock>(folder.string(), WriteLockTimes{.dying_s = use.resume ? WriteLock::kDying_s : 0});
  });
  return lock;
}

void take_new_run_folder(Communicator& comm, const std::string& name, bool overwrite,
                         std::unique_ptr<WriteLock>& lock) {
  agree(comm, [&] {
    if (comm.rank() != 0 || lock) return;
    const fs::path folder = name;
    if (const std::error_code status = make_folders(folder))
      user_error("cannot make the run folder {}: {}", folder.string(), status.message());
    lock = std::make_unique<WriteLock>(folder.string());
    if (fs::exists(folder / kConfigFile) && !overwrite) {
      user_error("{} was made by another run since this one began; give this run another run.name", folder.string());
    }
  });
}

std::optional<ResumePoint> find_resume_point(Communicator& comm, const std::string& folder) {
  ResumePoint point;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    for (const std::string& path : checkpoints_in(folder)) {
      try {
        point.checkpoint = load_checkpoint(path);
        point.path = path;
        return;
      } catch (const Error& error) {
        log_info("warning: passed over: {}", error.what());
      }
    }
    if (fs::exists(fs::path(folder) / "checkpoint.h5")) {
      user_error(
          "{} holds no checkpoint that is whole; start again with --overwrite, or with the weights of another run "
          "(train.init)",
          folder);
    }
  });
  point.path = broadcast_text(comm, point.path);
  if (point.path.empty()) {
    log_info("{} holds no checkpoint to go on from: the run starts from the beginning", folder);
    return std::nullopt;
  }
  broadcast_checkpoint(comm, point.checkpoint);
  return point;
}

namespace {

// Keeps the lines up to a step.
void cut_metrics(const std::string& path, std::int64_t step) {
  std::string kept;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", step + 1) <= step) kept += line + "\n";
  }
  write_file_atomically(path, kept);
}

}  // namespace

std::unique_ptr<MetricsLog> open_run_folder(Communicator& comm, const std::string& name,
                                            const std::optional<std::int64_t>& resumed_step,
                                            const std::string& config) {
  std::unique_ptr<MetricsLog> metrics;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    const fs::path folder = name;
    const std::string log = (folder / kMetricsFile).string();
    if (resumed_step) {
      // What an earlier end of the run left behind is none of the end to come.
      for (const char* file : {kEvaluationFile, kReportFile}) remove_file(folder / file);
      put_in_order(folder.string(), *resumed_step);
      cut_metrics(log, *resumed_step);
    } else {
      remove_checkpoints(folder.string());
      for (const char* file : {kMetricsFile, kConfigFile, kManifestFile, kPerformanceFile, kEvaluationFile, kTraceFile,
                               kReportFile, kTuningFile, kMllogFile}) {
        remove_file(folder / file);
      }
      for (const fs::path& events : event_files(folder)) {
        remove_file(events);
      }
    }
    write_file_atomically((folder / kConfigFile).string(), config);
    metrics = std::make_unique<MetricsLog>(log, folder.string());
  });
  return metrics;
}

}  // namespace petaflow
