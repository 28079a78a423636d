// predict RUN FILE... -o OUT.h5: what the network says of every sample, with where it came from.
#include <algorithm>
#include <filesystem>
#include <iterator>

#include "comm/agree.hpp"
#include "data/files.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"
#include "io/progress.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"
#include "run/folder.hpp"

namespace petaflow {
namespace {

void write(Hdf5File& file, const PredictionColumn& column, const std::vector<float>& values) {
  std::vector<std::int64_t> dims = {std::ssize(values) / column.width};
  if (column.width > 1) dims.push_back(column.width);
  file.write<float>(column.name, dims, values, {Hdf5Type::kF32});
}
void write(Hdf5File& file, const PredictionColumn& column, const std::vector<std::int32_t>& values) {
  file.write<std::int32_t>(column.name, {std::ssize(values)}, values, {Hdf5Type::kI32});
}
void write(Hdf5File& file, const PredictionColumn& column, const std::vector<std::int64_t>& values) {
  file.write<std::int64_t>(column.name, {std::ssize(values)}, values, {Hdf5Type::kI64});
}

/// Where each sample comes from: columns file (position in the attribute files) and index (in the file).
std::vector<PredictionColumn> origin_columns(const Dataset& data) {
  std::vector<std::int32_t> file;
  std::vector<std::int64_t> index;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const SampleOrigin origin = data.origin(i);
    file.push_back(origin.file);
    index.push_back(origin.index);
  }
  return {{"file", file}, {"index", index}};
}

void write_predictions(const Job& job, const TrainedNetwork& trained, const Dataset& data, PredictionRows rows) {
  std::ranges::move(origin_columns(data), std::back_inserter(rows.columns));
  write_hdf5_atomically(job.line.output, [&](Hdf5File& file) {
    for (const PredictionColumn& column : rows.columns) {
      std::visit([&](const auto& values) { write(file, column, values); }, column.values);
    }
    rows.attributes["files"] = fmt::format("{}", fmt::join(data.files(), "\n"));
    rows.attributes["run"] = job.line.input;
    rows.attributes["checkpoint"] = std::filesystem::canonical(trained.path).string();
    rows.attributes["trained_by"] = trained.provenance;
    rows.attributes["provenance"] = provenance(job);
    for (const auto& [name, text] : rows.attributes) file.set_attribute("/", name, text);
  });
}

}  // namespace

int command_predict(Job& job) {
  const TrainedNetwork trained = load_trained(job);
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    check_output(job.line.output);
    if (std::filesystem::exists(job.line.output)) {
      if (!job.line.overwrite) {
        user_error("{} exists; choose another name, or --overwrite to replace it", job.line.output);
      }
      std::vector<std::string> inputs = expand_files(job.line.files, "FILE");
      inputs.push_back(trained.path);
      for (const std::string& input : inputs) {
        if (std::filesystem::equivalent(input, job.line.output)) {
          user_error("{} is read by this command: the predictions need another file", job.line.output);
        }
      }
    }
  });
  const auto data = open_data(*job.comm, job.app, job.line.files, "FILE", DataRole::kPredict);
  for (const std::string& note : data->notes()) job.say("{}", note);
  const Predictions predictions = predict(job, *trained.network, *trained.loss, *data);
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    make_parent(job.line.output);
    write_predictions(job, trained, *data, job.app.rows(*data, predictions));
    job.say("wrote the predictions for {} to {}", format_count(data->size(), "sample"), job.line.output);
  });
  return kDone;
}

}  // namespace petaflow
