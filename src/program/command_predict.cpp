// predict RUN FILE... -o OUT: what the network says of every sample, with where it came from.  Rank 0 writes the
// batches of all ranks as they are made; no rank ever holds the predictions for more samples than these.
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/ranges.h>

#include "comm/agree.hpp"
#include "data/files.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"

namespace petaflow {
namespace {

/// Where each sample comes from: columns file (position in the attribute files) and index (in the file).
std::vector<PredictionColumn> origin_columns(const Dataset& data, const PredictedBatch& batch) {
  std::vector<std::int32_t> file;
  std::vector<std::int64_t> index;
  for (const std::int64_t i : batch.indices) {
    const SampleOrigin origin = data.origin(i);
    file.push_back(origin.file);
    index.push_back(origin.index);
  }
  return {{"file", file}, {"index", index}};
}

/// Rows of all samples as data sets of an HDF5 file.
class RowsWriter final : public PredictionWriter {
 public:
  RowsWriter(const std::string& path, const Task& task, const Dataset& data)
      : task_(task), data_(data), file_(Hdf5File::create(path)) {}

  void append(const PredictedBatch& batch) override {
    PredictionRows rows = task_.rows(data_, batch);
    std::ranges::move(origin_columns(data_, batch), std::back_inserter(rows.columns));
    const std::int64_t count = std::ssize(batch.indices);
    for (const PredictionColumn& column : rows.columns) {
      std::visit([&](const auto& values) { append(column, values, count); }, column.values);
    }
    written_ += count;
    attributes_ = rows.attributes;
  }
  void close(const std::map<std::string, std::string>& attributes) override {
    attributes_.insert(attributes.begin(), attributes.end());
    for (const auto& [name, text] : attributes_) file_.set_attribute("/", name, text);
    columns_.clear();
    file_.close();
  }

 private:
  static Hdf5Type type_of(float) { return Hdf5Type::kF32; }
  static Hdf5Type type_of(std::int32_t) { return Hdf5Type::kI32; }
  static Hdf5Type type_of(std::int64_t) { return Hdf5Type::kI64; }

  template <typename T>
  void append(const PredictionColumn& column, const std::vector<T>& values, std::int64_t count) {
    PETAFLOW_REQUIRE(std::ssize(values) == count * column.width, "{} has {} numbers for {} samples", column.name,
                     values.size(), count);
    auto found = columns_.find(column.name);
    if (found == columns_.end()) {
      std::vector<std::int64_t> dims = {data_.size()};
      if (column.width > 1) dims.push_back(column.width);
      const Hdf5Storage storage = {.type = type_of(T())};
      found = columns_.emplace(column.name, file_.create_dataset(column.name, dims, storage)).first;
    }
    found->second.template write<T>(written_, count, values);
  }

  const Task& task_;
  const Dataset& data_;
  Hdf5File file_;
  std::int64_t written_ = 0;
  std::map<std::string, Hdf5Dataset> columns_;
  std::map<std::string, std::string> attributes_;
};

/// The file of predictions on rank 0, which grows from the first sample to the last under a temporary name.
class PredictionFile {
 public:
  PredictionFile(std::string path, const Task& task, const Dataset& data)
      : path_(std::move(path)), temporary_(temporary_name(path_)) {
    make_parent(path_);
    try {
      writer_ = task.prediction_writer(temporary_, data);
      if (!writer_) writer_ = std::make_unique<RowsWriter>(temporary_, task, data);
    } catch (...) {
      remove_temporary();
      throw;
    }
  }
  ~PredictionFile() {
    writer_.reset();
    if (!published_) remove_temporary();
  }
  PredictionFile(const PredictionFile&) = delete;
  PredictionFile& operator=(const PredictionFile&) = delete;

  void append(const PredictedBatch& batch) { writer_->append(batch); }
  void publish(const std::map<std::string, std::string>& attributes) {
    writer_->close(attributes);
    publish_file(temporary_, path_);
    published_ = true;
  }

 private:
  void remove_temporary() const {
    std::error_code ignored;
    std::filesystem::remove(temporary_, ignored);
  }

  std::string path_, temporary_;
  std::unique_ptr<PredictionWriter> writer_;
  bool published_ = false;
};

/// The batches of all ranks as one, on rank 0; empty elsewhere.
PredictedBatch gathered(Communicator& comm, const PredictedBatch& mine) {
  PredictedBatch all;
  const auto gather = [&]<typename T>(const std::vector<T>& from, std::vector<T>& to) {
    for (const std::vector<std::byte>& part : comm.gather(std::as_bytes(std::span(from)))) {
      const std::size_t before = to.size();
      to.resize(before + part.size() / sizeof(T));
      if (!part.empty()) std::memcpy(&to[before], part.data(), part.size());
    }
  };
  gather(mine.indices, all.indices);
  for (const PredictedOutput& output : mine.outputs) {
    PredictedOutput& to = all.outputs.emplace_back(output.shape);
    gather(output.values, to.values);
    gather(output.scores, to.scores);
  }
  for (const KnownTarget& target : mine.targets) gather(target.bytes, all.targets.emplace_back(target.spec).bytes);
  return all;
}

void check_names(const CommandLine& line, const Task& task, const std::string& checkpoint) {
  const PredictionFormat format = task.prediction_format();
  const std::string ending = std::filesystem::path(line.output).extension();
  if (!ending.empty() && std::ranges::find(format.endings, ending) == format.endings.end()) {
    user_error("predict writes {}: name a file that ends in {} instead of {}", format.name,
               fmt::join(format.endings, " or "), line.output);
  }
  check_new_output(line.output, line.overwrite);
  if (!std::filesystem::exists(line.output)) return;
  std::vector<std::string> inputs = expand_files(line.files, "FILE");
  inputs.push_back(checkpoint);
  for (const std::string& input : inputs) {
    if (std::filesystem::equivalent(input, line.output)) {
      user_error("{} is read by this command: the predictions need another file", line.output);
    }
  }
}

}  // namespace

int command_predict(const CommandLine& line, Configuration& config, Task& task, Communicator& comm) {
  const Context context;
  const TrainedNetwork trained = load_trained(line, config, task, comm, context);
  agree(comm, [&] {
    if (comm.rank() == 0) check_names(line, task, trained.path);
  });
  const auto data = open_data(comm, task, line.files, "FILE", DataRole::kPredict);
  for (const std::string& note : data->notes()) log_info("{}", note);
  const auto predictor =
      make_predictor(config.options.data, task, comm, context, *trained.network, *trained.objective, *data);
  std::optional<PredictionFile> file;
  agree(comm, [&] {
    if (comm.rank() == 0) file.emplace(line.output, task, *data);
    predictor->start();
  });
  while (true) {
    const PredictedBatch* batch = nullptr;
    agree(comm, [&] { batch = predictor->next(); });
    if (batch == nullptr) break;
    const PredictedBatch all = gathered(comm, *batch);
    agree(comm, [&] {
      if (file) file->append(all);
    });
  }
  agree(comm, [&] {
    if (!file) return;
    file->publish({{"files", fmt::format("{}", fmt::join(data->files(), "\n"))},
                   {"run", line.input},
                   {"checkpoint", std::filesystem::canonical(trained.path).string()},
                   {"trained_by", trained.provenance},
                   {"provenance", provenance(run_identity(line, config.options, task), comm, context.threads)}});
    log_info("wrote the predictions for {} to {}", format_count(data->size(), "sample"), line.output);
  });
  return kDone;
}

}  // namespace petaflow
