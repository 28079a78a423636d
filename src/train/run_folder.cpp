#include "train/run_folder.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/build_info.hpp"
#include "io/atomic_file.hpp"
#include "train/agree.hpp"

namespace petaflow {
namespace fs = std::filesystem;

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
    for (const char* file : {kCheckpointFile, kMetricsFile, kConfigFile}) {
      fs::remove(folder / file, status);
      if (status) user_error("cannot remove {}: {}", (folder / file).string(), status.message());
    }
    write_file_atomically((folder / kConfigFile).string(), job.schema.resolved());
    metrics = std::make_unique<MetricsLog>((folder / kMetricsFile).string());
  });
  return metrics;
}

std::string provenance(const Job& job) {
  const BuildInfo& build = build_info();
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  std::array<char, 64> time{};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(time.data(), time.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  const nlohmann::json json = {{"application", job.app.name()},
                               {"input", job.line.input},
                               {"overrides", job.line.overrides},
                               {"version", build.version},
                               {"commit", build.commit},
                               {"compiler", build.compiler},
                               {"flags", build.flags},
                               {"kokkos", build.kokkos},
                               {"onednn", build.onednn},
                               {"mpi", build.mpi},
                               {"ranks", job.comm->size()},
                               {"threads_per_rank", job.context.threads},
                               {"host", host.data()},
                               {"time", time.data()}};
  return json.dump();
}

}  // namespace petaflow
