#include "run/manifest.hpp"

#include <sys/stat.h>

#include <array>
#include <ctime>
#include <filesystem>
#include <fstream>

#include <nlohmann/json.hpp>

#include "base/build_info.hpp"
#include "comm/agree.hpp"
#include "comm/communicator.hpp"
#include "config/document.hpp"
#include "data/files.hpp"
#include "io/atomic_file.hpp"
#include "io/progress.hpp"
#include "measure/binding.hpp"
#include "run/files.hpp"

namespace petaflow {
namespace {

std::string utc(std::time_t time) {
  std::array<char, 64> text{};
  std::tm parts{};
  gmtime_r(&time, &parts);
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

/// The arguments as the process got them, Kokkos' own among them.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

/// Variables that change what a run does, as they were when the process started.
nlohmann::json environment() {
  nlohmann::json set = nlohmann::json::object();
  std::ifstream file("/proc/self/environ", std::ios::binary);
  for (std::string text; std::getline(file, text, '\0');) {
    const std::string name = text.substr(0, text.find('='));
    for (const char* prefix :
         {"OMP_", "GOMP_", "KMP_", "KOKKOS_", "OMPI_MCA_btl", "OMPI_MCA_pml", "OMPI_MCA_coll", "UCX_", "FI_",
          "SLURM_JOB_ID", "SLURM_CPU_BIND", "HDF5_USE_FILE_LOCKING", "CUDA_VISIBLE_DEVICES", "DNNL_", "ONEDNN_"}) {
      if (name.starts_with(prefix)) set[name] = text.substr(std::min(text.size(), name.size() + 1));
    }
  }
  return set;
}

nlohmann::json data_files(const std::vector<std::string>& names, const std::string& what) {
  nlohmann::json files = nlohmann::json::array();
  std::vector<std::string> paths;
  try {
    if (!names.empty()) paths = expand_files(names, what);
  } catch (const Error&) {
    paths = names;  // of a test set that is made later
  }
  for (const std::string& path : paths) {
    struct stat status{};
    nlohmann::json file = {{"path", path}};
    if (stat(path.c_str(), &status) == 0) {
      file["size_bytes"] = status.st_size;
      file["modified"] = utc(status.st_mtime);
    }
    files.push_back(file);
  }
  return files;
}

/// Of the options that name files.
nlohmann::json all_data_files(const DataOptions& data) {
  return {{"train", data_files(data.train, "data.train")},
          {"validation", data_files(data.validation, "data.validation")},
          {"test", data_files(data.test, "data.test")}};
}

/// What changed between the files that an option gave and those that it gives, a phrase each.
void list_changes(const std::string& option, const nlohmann::json& before, const nlohmann::json& now,
                  std::vector<std::string>& changes) {
  if (before.empty() || now.empty()) return;  // the option is new, or no longer set: the log says so
  if (before.size() != now.size()) {
    changes.push_back(fmt::format("{} has {} (it had {})", option, format_count(now.size(), "file"), before.size()));
    return;
  }
  const auto text = [](const nlohmann::json& file) {
    return fmt::format("{} bytes of {}", file.value("size_bytes", std::int64_t{-1}), file.value("modified", "no time"));
  };
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0, shown = 0; i < now.size() && shown < kShown; ++i) {
    if (now[i] == before[i]) continue;
    ++shown;
    const std::string name = now[i].value("path", ""), old_name = before[i].value("path", "");
    changes.push_back(name != old_name
                          ? fmt::format("{} ({}) takes the place of {}", name, option, old_name)
                          : fmt::format("{} ({}) is {} (it was {})", name, option, text(now[i]), text(before[i])));
  }
}

}  // namespace

nlohmann::json describe_process(const RunIdentity& run, const Communicator& comm, int threads) {
  const BuildInfo& build = build_info();
  nlohmann::json libraries = {{"Kokkos", build.kokkos}, {"MPI", mpi_library()}, {"HDF5", build.hdf5}};
  if (*build.onednn != '\0') libraries["oneDNN"] = build.onednn;
  if (*build.cudnn != '\0') libraries["cuDNN"] = build.cudnn;
  if (*build.nccl != '\0') libraries["NCCL"] = build.nccl;
  if (*build.kokkos_kernels != '\0') libraries["Kokkos Kernels"] = build.kokkos_kernels;
  std::error_code ignored;
  const Binding own = own_binding(comm.rank(), threads);
  return {{"application", run.application},
          {"run", run.run},
          {"version", build.version},
          {"commit", build.commit},
          {"compiler", build.compiler},
          {"flags", build.flags},
          {"build_type", build.build_type},
          {"libraries", libraries},
          {"command_line", command_line()},
          {"working_folder", std::filesystem::current_path(ignored).string()},
          {"input", run.input},
          {"overrides", run.overrides},
          {"environment", environment()},
          {"seed", run.seed},
          {"ranks", comm.size()},
          {"threads_per_rank", threads},
          {"communicator", comm.name()},
          {"host", own.host},
          {"processor", own.processor},
          {"time", utc(std::time(nullptr))}};
}

std::string provenance(const RunIdentity& run, const Communicator& comm, int threads) {
  return describe_process(run, comm, threads).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::vector<std::string> changed_data_files(const std::string& folder, const DataOptions& data) {
  const std::string path = folder + "/" + kManifestFile;
  if (!std::filesystem::exists(path)) return {};
  const nlohmann::json manifest = nlohmann::json::parse(read_text_file(path), nullptr, false);
  std::vector<std::string> changes;
  const nlohmann::json now = all_data_files(data);
  for (const std::string name : {"train", "validation", "test"}) {
    const auto before = manifest.value(nlohmann::json::json_pointer("/data/" + name), nlohmann::json::array());
    list_changes("data." + name, before, now[name], changes);
  }
  return changes;
}

void write_manifest(Communicator& comm, int threads, const RunIdentity& run, const DataOptions& data,
                    const std::string& folder) {
  const std::vector<Binding> bindings = gather_bindings(comm, threads);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    nlohmann::json manifest = describe_process(run, comm, threads);
    manifest["binding"] = bindings;
    manifest["data"] = all_data_files(data);
    const std::string path = folder + "/" + kManifestFile;
    if (std::filesystem::exists(path)) {  // a resumed run: what went before stays
      nlohmann::json before = nlohmann::json::parse(read_text_file(path), nullptr, false);
      if (before.is_object()) {
        nlohmann::json earlier = before.value("earlier", nlohmann::json::array());
        before.erase("earlier");
        earlier.push_back(before);
        manifest["earlier"] = earlier;
      }
    }
    write_file_atomically(path, manifest.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  });
}

}  // namespace petaflow
