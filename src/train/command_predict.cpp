// predict RUN FILE... -o OUT.h5: what the network says of every sample, with where it came from.
#include <filesystem>

#include "data/files.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"
#include "train/agree.hpp"
#include "train/commands.hpp"
#include "train/open_data.hpp"
#include "train/run_folder.hpp"

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

void write_rows(const Job& job, const PredictionRows& rows) {
  write_hdf5_atomically(job.line.output, [&](Hdf5File& file) {
    for (const PredictionColumn& column : rows.columns) {
      std::visit([&](const auto& values) { write(file, column, values); }, column.values);
    }
    std::string files;
    for (const std::string& name : rows.files) files += (files.empty() ? "" : "\n") + name;
    file.set_attribute("/", "files", files);
    for (const auto& [name, text] : rows.attributes) file.set_attribute("/", name, text);
    file.set_attribute("/", "run", job.line.input);
    file.set_attribute("/", "provenance", provenance(job));
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
  std::unique_ptr<Predictor> predictor;
  agree(*job.comm, [&] {
    predictor = std::make_unique<Predictor>(*job.comm, job.context, *trained.network, *trained.loss, *data,
                                            job.options.data, job.app.views(*data));
  });
  const Predictions predictions = predictor->run();
  agree(*job.comm, [&] {
    if (!job.is_root()) return;
    write_rows(job, job.app.rows(*data, predictions));
    job.say("wrote the predictions for {} samples to {}", data->size(), job.line.output);
  });
  return kDone;
}

}  // namespace petaflow
