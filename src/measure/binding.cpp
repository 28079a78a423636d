#include "measure/binding.hpp"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>
#include <Kokkos_Core.hpp>

#include "io/host_name.hpp"
#include "measure/rates.hpp"

namespace petaflow {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

/// Source: proc(5), /proc/loadavg.
void take_load(Binding& binding) {
  std::ifstream file("/proc/loadavg");
  double five_minutes = 0, quarter = 0;
  file >> binding.load >> five_minutes >> quarter >> binding.running;
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

// That any thread may use: the OpenMP runtime may have bound each of them to cores of its own (OMP_PROC_BIND), the
// first one before main() begins.
std::vector<int> cores_of(int threads) {
  struct OfThread {  // nvcc 13 cannot destroy cpu_set_t, a struct without a name
    cpu_set_t set;
  };
  using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::Schedule<Kokkos::Static>>;
  std::vector<OfThread> sets(static_cast<std::size_t>(threads));
  OfThread* const of_thread = sets.data();
  Kokkos::parallel_for("petaflow::binding", Policy(0, threads),
                       [=](int thread) { sched_getaffinity(0, sizeof(cpu_set_t), &of_thread[thread].set); });
  Kokkos::DefaultHostExecutionSpace().fence();
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (std::ranges::any_of(sets, [=](const OfThread& own) { return CPU_ISSET(core, &own.set); }))
      cores.push_back(core);
  }
  return cores;
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

/// The ranks of each host, hosts in the order of their first rank.
std::vector<std::vector<const Binding*>> by_host(const std::vector<Binding>& bindings) {
  std::vector<std::vector<const Binding*>> hosts;
  std::map<std::string, std::size_t> place;
  for (const Binding& binding : bindings) {
    const auto [found, is_new] = place.try_emplace(binding.host, hosts.size());
    if (is_new) hosts.emplace_back();
    hosts[found->second].push_back(&binding);
  }
  return hosts;
}

std::vector<Row> rows_of(const std::vector<Binding>& bindings) {
  std::vector<Row> rows;
  std::map<std::tuple<std::size_t, std::string, std::string>, std::size_t> place;  // of what looks alike
  for (const auto& ranks : by_host(bindings)) {
    Row row{ranks.front()->host, "", "", {}, 0};
    for (const Binding* binding : ranks) {
      row.ranks.push_back(binding->rank);
      append_word(row.threads, std::to_string(binding->threads));
      append_word(row.cores, binding->cores);
    }
    const auto [found, is_new] = place.try_emplace({ranks.size(), row.threads, row.cores}, rows.size());
    if (is_new) {
      rows.push_back(std::move(row));
    } else {
      rows[found->second].alike += 1;
    }
  }
  return rows;
}

}  // namespace

Binding own_binding(int rank, int threads) {
  Binding binding{rank, host_name(), processor_name(), "unknown", 0, 0, threads};
  binding.online_cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  take_load(binding);  // before threads are asked for their cores
  const std::vector<int> cores = cores_of(threads);
  if (cores.empty()) return binding;
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

namespace {

/// Warning of hosts that are alike: of the first, with the number of the others.
struct HostWarning {
  std::string first;
  int more = 0;

  void add(const std::string& text) {
    more += first.empty() ? 0 : 1;
    if (first.empty()) first = text;
  }
};

/// Whether other programs compute on cores of the run: more than it has, and more than fit beside it.  The average
/// alone remembers programs that have ended, such as a compiler.
bool is_busy(const std::vector<const Binding*>& ranks, int cores) {
  const Binding& first = *ranks.front();
  const int room = std::max(cores, first.online_cores - cores);
  return first.load > room && first.running - static_cast<int>(ranks.size()) >= room;
}

}  // namespace

std::vector<std::string> binding_warnings(const std::vector<Binding>& bindings) {
  HostWarning full, crowded, busy;
  for (const auto& ranks : by_host(bindings)) {
    int threads = 0, cores = 0;
    for (const Binding* binding : ranks) threads += binding->threads, cores += binding->bound_cores;
    const Binding& first = *ranks.front();
    cores = cores > 0 ? std::min(cores, first.online_cores) : first.online_cores;
    if (is_busy(ranks, cores)) {
      busy.add(fmt::format(
          "warning: load average {:.1f} on {} cores of {} before the run begins; steps will be slower than on an idle "
          "machine",
          first.load, cores, first.host));
    }
    if (threads > first.online_cores) {
      const std::string runs = ranks.size() == 1 ? "rank runs" : "ranks run";
      full.add(fmt::format(
          "warning: {} {} {} threads in all on {}, which has {} cores; start fewer ranks or lower OMP_NUM_THREADS",
          ranks.size(), runs, threads, first.host, first.online_cores));
      continue;
    }
    const auto found =
        std::ranges::find_if(ranks, [](const Binding* b) { return b->bound_cores > 0 && b->threads > b->bound_cores; });
    if (found == ranks.end()) continue;
    const Binding& b = **found;
    crowded.add(
        fmt::format("warning: rank {} on {} has {} threads but may use cores {} only; give each rank its cores: srun "
                    "--cpus-per-task={}, mpirun --map-by slot:PE={}",
                    b.rank, b.host, b.threads, b.cores, b.threads, b.threads));
  }
  std::vector<std::string> warnings;
  for (const auto& [warning, more] : {full, crowded, busy}) {
    if (!warning.empty()) warnings.push_back(warning + (more > 0 ? fmt::format(" (and {} more hosts)", more) : ""));
  }
  return warnings;
}

}  // namespace petaflow
