// report RUN...: the report of runs, made from their folders alone.
#include "comm/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "program/commands.hpp"
#include "program/run_report.hpp"
#include "run/files.hpp"
#include "run/record.hpp"

namespace petaflow {

int command_report(const CommandLine& line, const Task& task, const Reporter& reporter, Communicator& comm) {
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    std::string output = line.output;
    if (output.empty() && line.files.size() > 1) {
      user_error("{} runs go into one report: name its file with -o", line.files.size());
    }
    std::vector<RunRecord> runs;
    for (const std::string& folder : line.files) runs.push_back(read_run(folder));
    if (output.empty()) output = line.files.front() + "/" + kReportFile;
    write_file_atomically(output, run_report({task.name(), task.description()}, reporter, runs));
    log_info("wrote {}", output);
  });
  return kDone;
}

}  // namespace petaflow
