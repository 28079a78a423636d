#include "run/tuning.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/activity.hpp"
#include "base/build_info.hpp"
#include "base/device.hpp"
#include "comm/agree.hpp"
#include "config/document.hpp"
#include "io/atomic_file.hpp"
#include "io/file_lock.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "measure/binding.hpp"
#include "nn/network.hpp"

namespace petaflow {

namespace {

constexpr int kFormat = 1;  // of the file: {"format": 1, "machines": {MACHINE: {PASS: [TRIAL, ...]}}}

using Table = std::map<std::string, TunedPass>;

// Instruction sets that convolutions are written for.
std::string instruction_sets() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags") && !line.starts_with("Features")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::string sets;
    for (std::string word; words >> word;) {
      for (const char* prefix : {"avx", "fma", "amx", "asimd", "sve", "bf16"}) {
        if (!word.starts_with(prefix)) continue;
        sets += (sets.empty() ? "" : " ") + word;
        break;
      }
    }
    return sets;
  }
  return "unknown";
}

nlohmann::json to_json(const Table& table) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [pass, tuned] : table) {
    for (const auto& [impl, tiles, cache_share, ms] : tuned.trials)
      json[pass].push_back({{"conv", impl->name}, {"tiles", tiles}, {"cache_share", cache_share}, {"ms", ms}});
  }
  return json;
}

void add_to(Table& table, const nlohmann::json& json, const std::string& source) {
  for (const auto& [pass, trials] : json.items()) {
    TunedPass tuned{{}, source, 0};
    for (const nlohmann::json& trial : trials) {
      tuned.trials.push_back({find_conv(trial.at("conv").get<std::string>()), trial.at("tiles").get<bool>(),
                              trial.at("cache_share").get<double>(), trial.at("ms").get<double>()});
    }
    const auto possible = [](const ConvTrial& trial) {
      return trial.impl != nullptr && trial.cache_share > 0 && trial.cache_share <= 8;
    };
    if (!tuned.trials.empty() && std::ranges::all_of(tuned.trials, possible)) table[pass] = std::move(tuned);
  }
}

// An empty one where there is none, or none that can be used.
nlohmann::json read_file(const std::string& path) {
  nlohmann::json empty = {{"format", kFormat}, {"machines", nlohmann::json::object()}};
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) return empty;
  const nlohmann::json json = nlohmann::json::parse(read_text_file(path), nullptr, false);
  if (!json.is_object() || !json.contains("format")) user_error("{} holds no times of convolutions", path);
  if (json["format"] != kFormat) user_error("{} is of another version of petaflow", path);
  if (!json.contains("machines") || !json["machines"].is_object()) user_error("{} is damaged", path);
  return json;
}

}  // namespace

std::string machine_text(int threads) {
  const BuildInfo& build = build_info();
  std::string text = fmt::format("{}; {}; ", own_binding(0, threads).processor, instruction_sets());
  text += fmt::format("L2 {} KiB; {} threads; kernels {}, {} {}; Kokkos {}; oneDNN {}", level2_bytes() / 1024, threads,
                      build.kernel_sources, build.compiler, build.flags, build.kokkos, build.onednn);
  if (*build.cudnn != '\0') text += fmt::format("; cuDNN {}", build.cudnn);
#ifdef KOKKOS_ENABLE_CUDA
  text += fmt::format("; {}", device_identity().name);
#endif
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"}) {  // they lower oneDNN's instruction sets
    if (const char* value = std::getenv(name); value != nullptr) text += fmt::format("; {}={}", name, value);
  }
  return text;
}

std::string tuning_cache_path() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (cache != nullptr && *cache == '/') return std::string(cache) + "/petaflow/tuning.json";
  return home == nullptr || *home == '\0' ? "" : std::string(home) + "/.cache/petaflow/tuning.json";
}

void read_tuning(const std::string& path, const std::string& machine, Table& table) {
  if (path.empty()) return;
  try {
    const nlohmann::json machines = read_file(path)["machines"];
    Table found;
    if (machines.contains(machine)) add_to(found, machines[machine], path);
    for (auto& [pass, tuned] : found) table[pass] = std::move(tuned);
  } catch (const Error& error) {
    log_warning("{}; its choices of convolutions are passed over", error.what());
  } catch (const nlohmann::json::exception& error) {
    log_warning("{} is damaged ({}); its choices of convolutions are passed over", path, error.what());
  }
}

void write_tuning(const std::string& path, const std::string& machine, const Table& table) {
  nlohmann::json json;
  try {
    json = read_file(path);
  } catch (const Error&) {  // said when it was read
    json = {{"format", kFormat}};
  }
  nlohmann::json& mine = json["machines"][machine];
  Table known;
  try {
    add_to(known, mine, path);
  } catch (const nlohmann::json::exception&) {  // so that its damage is not met again
    known.clear();
  }
  mine = to_json(known);
  mine.update(to_json(table));
  write_file_atomically(path, json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void share_tuning(const std::string& path, const std::string& machine, const Table& table) {
  std::error_code status;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), status);
  if (status) user_error("cannot make the folder of {}: {}", path, status.message());
  const FileLock lock(path + ".lock");
  write_tuning(path, machine, table);
}

std::string busy_warning(const Table& table) {
  int timed = 0, uncertain = 0;
  for (const auto& [pass, tuned] : table) {
    if (!tuned.source.empty()) continue;
    timed += 1;
    uncertain += tuned.spread > 0.25 ? 1 : 0;
  }
  if (uncertain == 0 || 4 * uncertain < timed) return "";
  return fmt::format(
      "the machine was busy while convolutions were timed, so that choices may be poor: the times of {} of {} passes "
      "differed by more than 25 % between rounds",
      uncertain, timed);
}

namespace {

// Makes networks that are not to run, which ask for each of their passes.
void visit_passes(ConvTuning& tuning, const Graph& graph, std::vector<NetworkOptions>& networks,
                  const Context& context) {
  for (NetworkOptions& options : networks) {
    options.runs = false;
    const Network network(graph, options, context, &tuning);
  }
}

// The work of rank 0.
void read_and_measure(ConvTuning& tuning, const Context& context, const Graph& graph,
                      std::vector<NetworkOptions>& networks, const TuningFiles& files) {
  const std::string cache = tuning_cache_path(), machine = machine_text(context.threads);
  read_tuning(cache, machine, tuning.table);
  if (!files.run_file.empty()) read_tuning(files.run_file, machine, tuning.table);
  Table used;
  int timed = 0;
  std::map<std::string, int> found;  // by file
  tuning.on_choice = [&](const std::string& layer, Pass pass, const std::string& problem, const TunedPass& tuned) {
    const bool is_new = used.insert_or_assign(problem, tuned).second;  // several layers may be alike
    timed += is_new && tuned.source.empty() ? 1 : 0;
    if (tuned.source.empty()) {
      log_info("{} {}: {} (timed now)", layer, name_of(pass), describe(tuned));
    } else {
      ++found[tuned.source];
    }
  };
  const Kokkos::Timer timer;
  visit_passes(tuning, graph, networks, context);
  tuning.on_choice = nullptr;
  tuning.table = std::move(used);
  for (const auto& [file, choices] : found)
    log_info("{} of convolutions from {}", format_count(choices, "choice"), file);
  if (timed == 0) return;
  const std::string done =
      fmt::format("timed {} passes of convolutions in {}", timed, format_duration(timer.seconds()));
  std::string redo;  // with what is not kept, starting again does it
  if (!files.keeps_times) {
    log_info("{}; not kept", done);
  } else {
    try {
      if (cache.empty()) user_error("neither XDG_CACHE_HOME nor HOME is set");
      share_tuning(cache, machine, tuning.table);
      log_info("{}; kept in {}", done, cache);
      redo = fmt::format("; delete {}{} to time again on a quiet machine", cache,
                         files.run_file.empty() ? "" : " and " + files.run_file);
    } catch (const Error& error) {
      log_info("{}", done);
      log_warning("the times of convolutions cannot be kept for other runs: {}", error.what());
    }
  }
  if (const std::string warning = busy_warning(tuning.table); !warning.empty()) log_warning("{}{}", warning, redo);
}

}  // namespace

std::unique_ptr<ConvTuning> tune_convolutions(Communicator& comm, const Context& context, const Graph& graph,
                                              std::vector<NetworkOptions> networks, const TuningFiles& files) {
  const Activity activity("tuning convolutions");
  auto tuning = std::make_unique<ConvTuning>();
  agree(comm, [&] {
    if (comm.rank() == 0) read_and_measure(*tuning, context, graph, networks, files);
  });
  const std::string all = broadcast_text(comm, comm.rank() == 0 ? to_json(tuning->table).dump() : "");
  if (comm.rank() != 0) add_to(tuning->table, nlohmann::json::parse(all), "rank 0");
  tuning->measures = false;
  return tuning;
}

std::unique_ptr<ConvTuning> look_up_tuning(const Communicator& comm, int threads) {
  auto tuning = std::make_unique<ConvTuning>();
  tuning->measures = false;
  if (comm.rank() == 0) read_tuning(tuning_cache_path(), machine_text(threads), tuning->table);
  return tuning;
}

}  // namespace petaflow
