// report RUN...: the report of runs, made from their folders alone; of several without -o a table in the terminal.
#include <algorithm>
#include <iterator>
#include <set>

#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "measure/rates.hpp"
#include "program/commands.hpp"
#include "program/run_report.hpp"
#include "report/evaluated_runs.hpp"
#include "run/files.hpp"
#include "run/record.hpp"

namespace petaflow {

namespace {

std::string application_of(const RunRecord& run) {
  return run.manifest.is_object() ? run.manifest.value("application", "") : "";
}

/// A row for each run of an application: how far it came, the metrics of its evaluation, its speed.  A dash: not known.
std::string table_of_runs(const std::vector<RunRecord>& all, const std::string& application) {
  std::vector<RunRecord> runs;
  std::ranges::copy_if(all, std::back_inserter(runs),
                       [&](const RunRecord& run) { return application_of(run) == application; });
  std::set<std::string> metrics;
  for (const RunRecord& run : runs) {
    if (const nlohmann::json* found = evaluation_part(run, "metrics")) {
      for (const auto& [name, value] : found->items()) metrics.insert(name);
    }
  }
  const bool named = runs.size() < all.size() && !application.empty();
  const std::string head = named ? fmt::format("run of {}", application) : "run";
  std::vector<std::vector<std::string>> rows = {{head, "steps", "training loss"}};
  rows[0].insert(rows[0].end(), metrics.begin(), metrics.end());
  rows[0].emplace_back("samples/s");
  for (const RunRecord& run : runs) {
    const bool begun = !run.training.empty();
    std::vector<std::string>& row =
        rows.emplace_back(std::vector{run.name, begun ? fmt::format("{}", run.training.back().step) : "-",
                                      begun ? fmt::format("{:.4f}", run.training.back().loss) : "-"});
    const nlohmann::json* const found = evaluation_part(run, "metrics");
    for (const std::string& name : metrics) {
      const bool is_number = found != nullptr && found->contains(name) && found->at(name).is_number();
      row.push_back(is_number ? fmt::format("{:.4f}", found->at(name).get<double>()) : "-");
    }
    row.push_back(run.finished() ? fmt::format("{:.1f}", run.performance.value("samples_per_s", 0.0)) : "-");
  }
  return format_table(rows);
}

/// Reads the runs; of several paths (runs/*) those that are none are passed over with a line, if any is left.
std::vector<RunRecord> read_runs(const std::vector<std::string>& folders) {
  std::vector<RunRecord> runs;
  for (const std::string& folder : folders) {
    const std::string reason = folders.size() == 1 ? "" : why_no_run(folder);
    if (reason.empty()) runs.push_back(read_run(folder));
    if (!reason.empty()) log_info("{}: left out", reason);
  }
  if (runs.empty()) user_error("none of {} and {} more is the folder of a run", folders.front(), folders.size() - 1);
  return runs;
}

void check_output(const CommandLine& line) {
  if (!line.output.ends_with(".html")) {
    user_error("report writes HTML: name a file that ends in .html instead of {}", line.output);
  }
  check_new_output(line.output, line.overwrite);
}

/// Refuses runs of another application, whose results this one's reporter would leave out.
void check_application(const std::vector<RunRecord>& runs, const std::string& application) {
  for (const RunRecord& run : runs) {
    const std::string trained_by = application_of(run);
    if (trained_by.empty() || trained_by == application) continue;
    user_error("{} is a run of {}, whose own report shows its results: {} report {}", run.folder, trained_by,
               trained_by, run.folder);
  }
}

}  // namespace

int command_report(const CommandLine& line, const Task& task, const Reporter& reporter, Communicator& comm) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    if (!line.output.empty()) check_output(line);
    std::string output = line.output;
    const std::vector<RunRecord> runs = read_runs(line.files);
    if (output.empty() && line.files.size() > 1) {
      std::set<std::string> applications;
      for (const RunRecord& run : runs) applications.insert(application_of(run));
      for (const std::string& application : applications) print(comm, table_of_runs(runs, application));
      log_info("-o FILE.html makes a page of these runs");
      return;
    }
    check_application(runs, task.name());
    if (output.empty()) output = line.files.front() + "/" + kReportFile;
    make_parent(output);
    write_file_atomically(output, run_report({task.name(), task.description()}, reporter, runs));
    log_info("wrote {}", output);
  });
  return kDone;
}

}  // namespace petaflow
