#include "train/binding.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>

#include <fmt/format.h>

#include "train/report.hpp"

namespace petaflow {
namespace {

std::string host_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

// Neighbours as ranges: "0-3,8".
std::string ranges(const std::vector<int>& sorted) {
  std::string text;
  for (std::size_t i = 0; i < sorted.size();) {
    std::size_t last = i;
    while (last + 1 < sorted.size() && sorted[last + 1] == sorted[last] + 1) ++last;
    if (!text.empty()) text += ",";
    text += last == i ? fmt::format("{}", sorted[i]) : fmt::format("{}-{}", sorted[i], sorted[last]);
    i = last + 1;
  }
  return text;
}

/// A host of the table.
struct Row {
  std::string host, threads, cores;
  std::vector<int> ranks;
  int alike = 0;  // further hosts with as many ranks, threads and cores
};

void append_word(std::string& text, const std::string& word) {
  if (text.empty()) {
    text = word;
  } else if (text != word && !text.ends_with(" " + word)) {
    text += " " + word;
  }
}

std::vector<Row> rows_of(const std::vector<Binding>& bindings) {
  std::vector<Row> rows;
  for (const Binding& binding : bindings) {
    auto row = std::ranges::find(rows, binding.host, &Row::host);
    if (row == rows.end()) row = rows.insert(rows.end(), {binding.host, "", "", {}, 0});
    row->ranks.push_back(binding.rank);
    append_word(row->threads, std::to_string(binding.threads));
    append_word(row->cores, binding.cores);
  }
  std::vector<Row> folded;
  for (Row& row : rows) {
    const auto like = [&](const Row& other) {
      return other.ranks.size() == row.ranks.size() && other.threads == row.threads && other.cores == row.cores;
    };
    const auto found = std::ranges::find_if(folded, like);
    if (found == folded.end()) {
      folded.push_back(std::move(row));
    } else {
      found->alike += 1;
    }
  }
  return folded;
}

}  // namespace

Binding own_binding(int rank, int threads) {
  Binding binding{rank, host_name(), processor_name(), "unknown", 0, 0, threads};
  binding.online_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return binding;
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  binding.cores = ranges(cores);
  binding.bound_cores = static_cast<int>(cores.size());
  return binding;
}

std::vector<Binding> gather_bindings(Communicator& comm, int threads) {
  const nlohmann::json mine = own_binding(comm.rank(), threads);
  std::vector<Binding> bindings;
  for (const std::string& text : gather_text(comm, mine.dump())) bindings.push_back(nlohmann::json::parse(text));
  return bindings;
}

std::string binding_table(const std::vector<Binding>& bindings) {
  std::vector<std::vector<std::string>> table = {{"host", "ranks", "threads per rank", "cores of each rank"}};
  for (const Row& row : rows_of(bindings)) {
    const std::string more = row.alike > 0 ? fmt::format(" and {} more like it", row.alike) : "";
    table.push_back({row.host + more, ranges(row.ranks), row.threads, row.cores});
  }
  return format_table(table);
}

std::vector<std::string> binding_warnings(const std::vector<Binding>& bindings) {
  std::vector<std::string> warnings;
  std::vector<std::string> hosts;
  for (const Binding& first : bindings) {
    if (std::ranges::find(hosts, first.host) != hosts.end()) continue;
    hosts.push_back(first.host);
    int threads = 0, ranks = 0;
    const Binding* crowded = nullptr;
    for (const Binding& binding : bindings) {
      if (binding.host != first.host) continue;
      threads += binding.threads;
      ranks += 1;
      if (binding.bound_cores > 0 && binding.threads > binding.bound_cores && crowded == nullptr) crowded = &binding;
    }
    if (threads > first.online_cores) {
      warnings.push_back(fmt::format(
          "warning: {} ranks run {} threads in all on {}, which has {} cores; start fewer ranks or set OMP_NUM_THREADS",
          ranks, threads, first.host, first.online_cores));
    } else if (crowded != nullptr) {
      warnings.push_back(fmt::format(
          "warning: rank {} on {} has {} threads but may use cores {} only; give each rank its cores: srun "
          "--cpus-per-task={}, mpirun --map-by slot:PE={}",
          crowded->rank, crowded->host, crowded->threads, crowded->cores, crowded->threads, crowded->threads));
    }
  }
  return warnings;
}

}  // namespace petaflow
