#include "program/train_evaluation.hpp"

#include <memory>
#include <string>

#include "comm/agree.hpp"
#include "data/files.hpp"
#include "io/log.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"
#include "run/results.hpp"

namespace petaflow {

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
    const std::string table = reporter.table(*full.evaluator);
    if (!table.empty()) log_info("on the {} of {}:\n{}", format_count(data->size(), "sample"), record.set, table);
  });
  return StopRequest::kNone;
}

}  // namespace petaflow
