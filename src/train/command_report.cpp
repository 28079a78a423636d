// report RUN...: the report of runs, made from their folders alone.
#include "io/atomic_file.hpp"
#include "train/agree.hpp"
#include "train/commands.hpp"
#include "train/run_folder.hpp"
#include "train/run_report.hpp"

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
