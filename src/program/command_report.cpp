// report RUN...: the report of runs, made from their folders alone.
#include "comm/agree.hpp"
#include "io/atomic_file.hpp"
#include "program/commands.hpp"
#include "program/run_report.hpp"
#include "run/folder.hpp"
#include "run/record.hpp"

namespace petaflow {

int command_report(Job& job) {
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    std::string output = job.line.output;
    if (output.empty() && job.line.files.size() > 1) {
      user_error("{} runs go into one report: name its file with -o", job.line.files.size());
    }
    std::vector<RunRecord> runs;
    for (const std::string& folder : job.line.files) runs.push_back(read_run(folder));
    if (output.empty()) output = job.line.files.front() + "/" + kReportFile;
    write_file_atomically(output, run_report(job.app, runs));
    job.say("wrote {}", output);
  });
  return kDone;
}

}  // namespace petaflow
