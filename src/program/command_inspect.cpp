// inspect FILE...: what data files hold, as training would read it; needs no input file.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "comm/agree.hpp"
#include "data/dataset.hpp"
#include "io/progress.hpp"
#include "measure/rates.hpp"
#include "program/commands.hpp"
#include "program/open_data.hpp"

namespace petaflow {
namespace {

/// Summary of the numbers of a channel, or of a target.
struct Summary {
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
    sum += value;
    zeros += value == 0 ? 1 : 0;
    ++count;
  }

  double low = std::numeric_limits<double>::infinity(), high = -low;
  double sum = 0, zeros = 0, count = 0;
};

/// Summary of a target: how many samples or pixels are of each class, or its numbers; of boxes, how many a sample has.
struct TargetSummary {
  explicit TargetSummary(const TargetSpec& target)
      : spec(target),
        classes(static_cast<std::size_t>(target.classes)),
        numbers(spec.kind == TargetKind::kNumbers ? static_cast<std::size_t>(target.count)
                : spec.kind == TargetKind::kBoxes ? 1
                                                  : 0) {}

  void add(const SampleBytes& sample, std::size_t target) {
    if (spec.kind == TargetKind::kClass) {
      if (const std::int32_t label = sample.target<std::int32_t>(target)[0]; label >= 0) {
        ++classes[static_cast<std::size_t>(label)];
      }
    } else if (spec.kind == TargetKind::kClassMap) {
      for (const std::uint8_t pixel : sample.target<std::uint8_t>(target)) ++classes[pixel];
    } else if (spec.kind == TargetKind::kNumbers) {
      const std::span<const float> values = sample.target<float>(target);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (!std::isnan(values[i])) numbers[i].add(static_cast<double>(values[i]));
      }
    } else {
      const BoxTarget boxes(sample.targets[target], spec.fields);
      if (boxes.known()) numbers[0].add(static_cast<double>(boxes.size()));
    }
  }

  TargetSpec spec;
  std::vector<double> classes;
  std::vector<Summary> numbers;
};

struct Contents {
  std::vector<Summary> channels;
  std::vector<TargetSummary> targets;
  double unknown = 0;  // samples whose targets no file says
};

template <class T>
void add_pixels(std::vector<Summary>& channels, std::span<const T> pixels) {
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    channels[i % channels.size()].add(static_cast<double>(pixels[i]));  // channels last
  }
}

/// Reads this rank's share of the samples.
Contents read_share(const Dataset& data, SampleRange range, Progress* progress) {
  Contents contents;
  contents.channels.resize(static_cast<std::size_t>(data.sample_dims()[0]));
  for (const TargetSpec& target : data.targets()) contents.targets.emplace_back(target);
  const SampleStorage sample(data);
  for (std::int64_t i = range.first; i < range.last; ++i) {
    const float weight = data.read(i, sample.bytes());
    if (data.type() == DType::kI16) {
      add_pixels<std::int16_t>(contents.channels, sample.input<std::int16_t>());
    } else {
      PETAFLOW_REQUIRE(data.type() == DType::kF32, "samples of another type than i16 and f32");
      add_pixels<float>(contents.channels, sample.input<float>());
    }
    contents.unknown += weight == 0 ? 1 : 0;
    for (std::size_t t = 0; t < contents.targets.size() && weight != 0; ++t) contents.targets[t].add(sample.bytes(), t);
    if (progress != nullptr) progress->update(i + 1 - range.first, i + 1 - range.first);
  }
  return contents;
}

void add_ranks(Communicator& comm, std::vector<Summary>& parts) {
  std::vector<double> ends, sums;
  for (const Summary& part : parts) {
    ends.insert(ends.end(), {-part.low, part.high});
    sums.insert(sums.end(), {part.sum, part.zeros, part.count});
  }
  comm.all_reduce_max(ends);
  comm.all_reduce_sum(std::span(sums));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parts[i] = {-ends[2 * i], ends[2 * i + 1], sums[3 * i], sums[3 * i + 1], sums[3 * i + 2]};
  }
}

void add_ranks(Communicator& comm, Contents& contents) {
  add_ranks(comm, contents.channels);
  for (TargetSummary& target : contents.targets) {
    add_ranks(comm, target.numbers);
    comm.all_reduce_sum(std::span(target.classes));
  }
  comm.all_reduce_sum(std::span(&contents.unknown, 1));
}

std::string percent(double part, double whole) { return fmt::format("{:.1f} %", 100 * part / whole); }

/// @param names  of the rows; none: their numbers
std::string ranges_table(const std::string& what, const std::vector<Summary>& summaries,
                         const std::vector<std::string>& names = {}) {
  std::vector<std::vector<std::string>> rows = {{what, "smallest", "largest", "mean", "zeros"}};
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const Summary& s = summaries[i];
    if (s.count == 0) continue;  // targets that no file says
    rows.push_back({i < names.size() ? names[i] : std::to_string(i + 1), fmt::format("{:.6g}", s.low),
                    fmt::format("{:.6g}", s.high), fmt::format("{:.6g}", s.sum / s.count), percent(s.zeros, s.count)});
  }
  return rows.size() == 1 ? "" : "\n" + format_table(rows);
}

std::string describe(const TargetSummary& target, const std::vector<std::string>& names) {
  const bool map = target.spec.kind == TargetKind::kClassMap, boxes = target.spec.kind == TargetKind::kBoxes;
  const double all = std::accumulate(target.classes.begin(), target.classes.end(), 0.0);
  std::string text;
  for (std::size_t i = 0; i < target.classes.size() && all > 0; ++i) {
    text += fmt::format("\n{} {}: {:.0f}{} ({})", target.spec.name, i, target.classes[i], map ? " pixels" : "",
                        percent(target.classes[i], all));
  }
  return text + ranges_table(boxes ? "number of " + target.spec.name : target.spec.name, target.numbers, names);
}

/// @param asked  what the options of [data] describe
std::string describe(const Dataset& data, const Contents& contents, const Shape& asked) {
  const auto [c, d, h, w] = data.sample_dims();
  const std::string format = data.format().empty() ? "" : fmt::format("format {}, ", data.format());
  std::string text = fmt::format("{}{} in {}, {} of {}", format, format_count(data.size(), "sample"),
                                 format_count(std::ssize(data.files()), "file"), sample_to_string({1, c, d, h, w}),
                                 data.type() == DType::kI16 ? "16-bit integers" : "32-bit numbers");
  for (const std::string& note : data.notes()) text += "\n" + note;
  if (asked.with_batch(1) != Shape{1, c, d, h, w}) {
    text += fmt::format("\nto train on them, set their size in [data]: the options here are for {}",
                        sample_to_string(asked));
  }
  if (contents.unknown > 0) {
    text += fmt::format("\nwithout a label: {:.0f} ({})", contents.unknown,
                        percent(contents.unknown, static_cast<double>(data.size())));
  }
  for (std::size_t t = 0; t < contents.targets.size(); ++t) text += describe(contents.targets[t], data.names(t));
  return text + ranges_table("channel", contents.channels);
}

}  // namespace

int command_inspect(const CommandLine& line, Configuration& config, const Task& task, Communicator& comm) {
  config.load_options(comm, line.overrides);
  const auto data = open_as_it_is(comm, task, line.files, "FILE");
  Contents contents;
  agree(comm, [&] {
    const SampleRange range = share_of_samples(data->size(), comm.rank(), comm.size());
    ProgressOptions options;
    options.title = "reading" + of_rank_0(comm.size());
    options.total = range.last - range.first;
    options.interval = std::max<std::int64_t>(1, options.total / 20);
    options.step = "sample";
    options.quiet_s = 2;
    const auto progress = comm.rank() == 0 ? std::make_unique<Progress>(options) : nullptr;
    contents = read_share(*data, range, progress.get());
  });
  add_ranks(comm, contents);
  agree(comm, [&] { print(comm, describe(*data, contents, task.sample_shape())); });
  return kDone;
}

}  // namespace petaflow
