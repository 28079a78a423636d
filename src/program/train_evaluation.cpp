#include "program/train_evaluation.hpp"

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "comm/agree.hpp"
#include "data/files.hpp"
#include "io/atomic_file.hpp"
#include "io/checkpoint.hpp"
#include "io/log.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"
#include "run/files.hpp"
#include "run/results.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

void keep_options(const std::string& folder, const std::string& resolved) {
  const std::string path = std::filesystem::canonical(checkpoint_path(folder)).string();
  Checkpoint checkpoint = load_checkpoint(path);
  checkpoint.config = resolved;
  save_checkpoint(path, checkpoint);
  write_file_atomically(folder + "/" + kConfigFile, resolved);
}

}  // namespace

StopRequest calibrate(Configuration& config, Task& task, Communicator& comm, const Context& context, Network& network,
                      const Objective& objective, const Dataset* validation) {
  std::unique_ptr<Evaluator> calibrator;
  agree(comm, [&] {
    if (validation != nullptr) calibrator = task.calibrator(*validation);
  });
  if (!calibrator) return StopRequest::kNone;
  const auto predictor = make_predictor(config.options.data, task, comm, context, network, objective, *validation);
  const EvaluationRun run = evaluate(comm, *predictor, validation->size(), *calibrator);
  if (run.stopped != StopRequest::kNone) return run.stopped;
  std::string lines;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    calibrator->evaluate();
    lines = fmt::format("{}", fmt::join(task.calibration(*calibrator), "\n"));
  });
  lines = broadcast_text(comm, lines);
  std::vector<std::string> found;
  std::istringstream stream(lines);
  for (std::string line; std::getline(stream, line);) found.push_back(line);
  agree(comm, [&] {
    config.schema.load("", found);
    if (comm.rank() == 0) keep_options(config.run_folder(), config.resolved());
  });
  log_info("of data.validation: {}", fmt::join(found, ", "));
  return StopRequest::kNone;
}

StopRequest evaluate_at_end(const Configuration& config, Task& task, const Reporter& reporter, Communicator& comm,
                            const Context& context, Network& network, const Objective& objective,
                            const Dataset* validation) {
  const DataOptions& options = config.options.data;
  const bool test = !options.test.empty();
  if (!test && validation == nullptr) return StopRequest::kNone;
  EvaluationRecord record;
  record.set = test ? "data.test" : "data.validation";
  record.files = test ? options.test : options.validation;
  const Dataset* data = validation;
  std::unique_ptr<Dataset> opened;
  if (test) {
    opened = open_data(comm, task, options.test, "data.test", DataRole::kEvaluate);
    data = opened.get();
  }
  const auto predictor = make_predictor(options, task, comm, context, network, objective, *data);
  const FullEvaluation full = evaluate_in_full(options, task, comm, *predictor, *data);
  if (full.run.stopped != StopRequest::kNone) return full.run.stopped;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    record.seen_in_training = common_files(options.train, record.files);
    record.samples = data->size();
    record.loss = full.run.loss;
    record.evaluation = full.evaluation;
    record.results = reporter.results(*full.evaluator);
    record.curves = reporter.curves(*full.evaluator);
    write_evaluation(config.run_folder(), record);
    const std::string table = reporter.short_table(*full.evaluator);
    if (!table.empty()) log_info("on the {} of {}:\n{}", format_count(data->size(), "sample"), record.set, table);
  });
  return StopRequest::kNone;
}

}  // namespace petaflow
