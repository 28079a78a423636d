#include "climate/frame_commands.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <numeric>
#include <set>

#include "climate/frame_check.hpp"
#include "climate/map_file.hpp"
#include "climate/statistics.hpp"
#include "comm/agree.hpp"
#include "data/bytes.hpp"
#include "data/files.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "nn/parallel.hpp"
#include "train/stop_request.hpp"

namespace petaflow::climate {
namespace fs = std::filesystem;
namespace {

/// The files of a command line, found by rank 0.
std::vector<std::string> files_of(const CommandLine& line, Communicator& comm) {
  std::vector<std::string> files;
  agree(comm, [&] {
    if (comm.rank() == 0) files = expand_files(line.files, "FILE");
  });
  return from_bytes<std::vector<std::string>>(broadcast_text(comm, to_bytes(files)));
}

/// Variables that the rules look at.
std::vector<int> fields_needed(const LabelRules& rules) {
  std::set<int> fields;
  if (rules.rivers == "water") fields.insert(kTmq);
  if (rules.rivers == "transport") fields.insert({kU850, kV850, kQrefht});
  if (rules.cyclones != "none") {
    fields.insert({kTmq, kU850, kV850, kUbot, kVbot, kPsl, kT200, kT500, kPrect});
  }
  return {fields.begin(), fields.end()};
}

/// A frame with these variables, the others 0.
Frame read_some(const FrameFile& file, std::int64_t index, const std::vector<int>& fields) {
  Frame frame;
  frame.grid = file.grid();
  frame.time = file.time(index);
  const auto pixels = static_cast<std::size_t>(frame.pixels());
  frame.fields.resize(kFields.size() * pixels);
  RawFields raw;
  file.read_fields(index, fields, raw);
  check_values(file, index, fields, raw);
  for (std::size_t k = 0; k < fields.size(); ++k) {
    float* const plane = frame.fields.data() + static_cast<std::size_t>(fields[k]) * pixels;
    for (std::size_t p = 0; p < pixels; ++p) {
      plane[p] = raw.values[static_cast<std::size_t>(raw.first[k] + static_cast<std::int64_t>(p) * raw.step)];
    }
  }
  return frame;
}

std::vector<std::uint8_t> labels_of(const Frame& frame, const LabelRules& rules) {
  std::vector<std::uint8_t> labels(static_cast<std::size_t>(frame.pixels()));
  if (rules.rivers != "none") {
    RiverOptions rivers = rules.rivers == "transport" ? RiverOptions::transport() : RiverOptions();
    rivers.threshold = rules.threshold;
    if (rivers.percentile > 0) rivers.percentile = rules.percentile;
    const auto found = find_rivers(frame, rivers);
    for (std::size_t p = 0; p < labels.size(); ++p) {
      if (found[p] != 0) labels[p] = static_cast<std::uint8_t>(Tag::kRiver);
    }
  }
  if (rules.cyclones != "none") {
    const CycloneOptions cyclones = cyclone_set(rules.cyclones);
    for (const CycloneCandidate& candidate : cyclone_candidates(frame)) {
      if (!is_cyclone(candidate, cyclones)) continue;
      for (const std::int64_t p : cyclone_pixels(frame, candidate, cyclones)) {
        labels[static_cast<std::size_t>(p)] = static_cast<std::uint8_t>(Tag::kCyclone);
      }
    }
  }
  return labels;
}

void label_file(const std::string& path, const std::string& to, const FrameDataOptions& data, const LabelRules& rules) {
  const auto file = open_frames(path, without_labels(data));
  const std::vector<int> fields = fields_needed(rules);
  file->require(fields, "label.rivers and label.cyclones say which rules are followed: \"none\" needs none");
  make_parent(to);
  const std::string temporary = temporary_name(to);
  try {
    MapFile maps(temporary, file->grid(), file->calendar(), false);
    for (std::int64_t i = 0; i < file->frames(); ++i) {
      const Frame frame = read_some(*file, i, fields);
      maps.append(frame.time, path, labels_of(frame, rules));
    }
    maps.close(
        {{"source", fmt::format("heuristics on {}: rivers {}, cyclones {}", path, rules.rivers, rules.cyclones)}});
  } catch (...) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    throw;
  }
  publish_file(temporary, to);
}

void check_outputs(const CommandLine& line, const std::vector<std::string>& files) {
  std::set<std::string> names;
  for (const std::string& file : files) {
    const std::string path = (fs::path(line.output) / label_name(file)).string();
    if (!names.insert(path).second) user_error("two files would have their labels in {}; name other folders", path);
    check_new_output(path, line.overwrite);
  }
}

void label(const CommandLine& line, const FrameDataOptions& data, const LabelRules& rules, Communicator& comm) {
  const std::vector<std::string> files = files_of(line, comm);
  agree(comm, [&] {
    if (rules.rivers == "none" && rules.cyclones == "none") user_error("label.rivers and label.cyclones are \"none\"");
    if (comm.rank() == 0) check_outputs(line, files);
  });
  std::vector<std::string> own;
  for (auto f = static_cast<std::size_t>(comm.rank()); f < files.size(); f += static_cast<std::size_t>(comm.size())) {
    own.push_back(files[f]);
  }
  agree(comm, [&] {
    parallel_items("petaflow::climate::label", own.size(), [&](int, std::size_t i) {
      if (stop_request() != StopRequest::kNone) failure("stopped by a signal; --overwrite begins again");
      label_file(own[i], (fs::path(line.output) / label_name(own[i])).string(), data, rules);
    });
  });
  log_info("wrote the labels of {} to {}", format_count(std::ssize(files), "file"), line.output);
}

void stats(const CommandLine& line, const FrameDataOptions& data, Communicator& comm) {
  const std::vector<std::string> files = files_of(line, comm);
  agree(comm, [&] {
    if (comm.rank() == 0) check_new_output(line.output, line.overwrite);
  });
  std::vector<int> every(kFields.size());
  std::iota(every.begin(), every.end(), 0);
  std::unique_ptr<FrameFile> first;
  agree(comm, [&] {
    first = open_frames(files.front(), without_labels(data));
    first->require(every, "statistics are of all 16 variables");
  });
  const auto check = [&](std::size_t, const FrameFile& file) {
    if (const std::string other = difference(file.grid(), first->grid()); !other.empty())
      user_error("{}: {} in {}; statistics are of one grid", file.path(), other, first->path());
  };
  const Statistics statistics = compute_statistics(comm, files, without_labels(data), every, check);
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    make_parent(line.output);
    write_statistics(line.output, statistics);
    for (const std::string& warning : deviation_warnings(statistics, every, line.output)) log_warning("{}", warning);
  });
  log_info("wrote the statistics of {} to {}", format_count(statistics.frames, "frame"), line.output);
}

}  // namespace

void declare_label(Schema& schema, LabelRules& rules) {
  schema.add("label.rivers", rules.rivers, one_of({"water", "transport", "none"}));
  schema.add("label.threshold", rules.threshold, positive());
  schema.add("label.percentile", rules.percentile, in_range(1, 99.99));
  std::vector<std::string> sets = {"none"};
  sets.insert(sets.end(), kCycloneSets.begin(), kCycloneSets.end());
  schema.add("label.cyclones", rules.cyclones, one_of(sets));
  schema.add_use({"label.threshold"}, "label.rivers", {"water"});
  schema.add_use({"label.percentile"}, "label.rivers", {"transport"});
}

TaskCommand stats_command(const FrameDataOptions& data) {
  return {"stats", "Write minimum, maximum, mean and mean square of every variable, for data.stats",
          "HDF5 file to write", [&data](const CommandLine& line, Communicator& comm) { stats(line, data, comm); }};
}

std::vector<TaskCommand> frame_commands(const FrameDataOptions& data, const LabelRules& rules) {
  return {{"label", "Write maps of cyclones and rivers by the heuristics of the published labels, as netCDF",
           "folder for a file <name>-labels.nc of each FILE",
           [&data, &rules](const CommandLine& line, Communicator& comm) { label(line, data, rules, comm); }},
          stats_command(data)};
}

}  // namespace petaflow::climate
