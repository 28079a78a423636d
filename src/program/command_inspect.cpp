// inspect FILE...: what data files hold, as training would read it; needs no input file.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
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

/// Of the numbers of a channel, or of a target.
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

struct Contents {
  std::vector<Summary> channels, targets;
  std::vector<double> labels;  // samples by label + 1: the first have none
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
  contents.targets.resize(static_cast<std::size_t>(data.targets()));
  std::vector<std::byte> pixels(data.sample_bytes());
  std::vector<float> targets(contents.targets.size());
  for (std::int64_t i = range.first; i < range.last; ++i) {
    const Sample sample = data.read(i, pixels, targets);
    if (data.type() == DType::kI16) {
      add_pixels<std::int16_t>(contents.channels, numbers<std::int16_t>(pixels));
    } else {
      PETAFLOW_REQUIRE(data.type() == DType::kF32, "samples of another type than i16 and f32");
      add_pixels<float>(contents.channels, numbers<float>(pixels));
    }
    const auto place = static_cast<std::size_t>(sample.label + 1);
    if (place >= contents.labels.size()) contents.labels.resize(place + 1);
    ++contents.labels[place];
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (!std::isnan(targets[t])) contents.targets[t].add(static_cast<double>(targets[t]));
    }
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
  add_ranks(comm, contents.targets);
  std::vector<double> classes = {static_cast<double>(contents.labels.size())};
  comm.all_reduce_max(classes);
  contents.labels.resize(static_cast<std::size_t>(classes[0]));
  comm.all_reduce_sum(std::span(contents.labels));
}

std::string percent(double part, double whole) { return fmt::format("{:.1f} %", 100 * part / whole); }

std::string table(const char* what, const std::vector<Summary>& summaries) {
  std::vector<std::vector<std::string>> rows = {{what, "smallest", "largest", "mean", "zeros"}};
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    const Summary& s = summaries[i];
    if (s.count == 0) continue;  // targets that no file says
    rows.push_back({std::to_string(i + 1), fmt::format("{:.6g}", s.low), fmt::format("{:.6g}", s.high),
                    fmt::format("{:.6g}", s.sum / s.count), percent(s.zeros, s.count)});
  }
  return rows.size() == 1 ? "" : "\n" + format_table(rows);
}

std::string describe(const Dataset& data, const Contents& contents) {
  const auto [c, d, h, w] = data.sample_dims();
  std::string text = fmt::format("format {}, {} in {}, {} of {}", data.format(), format_count(data.size(), "sample"),
                                 format_count(std::ssize(data.files()), "file"), sample_to_string({1, c, d, h, w}),
                                 data.type() == DType::kI16 ? "16-bit integers" : "32-bit numbers");
  for (const std::string& note : data.notes()) text += "\n" + note;
  const auto samples = static_cast<double>(data.size());
  for (std::size_t i = 0; i < contents.labels.size(); ++i) {
    const double count = contents.labels[i];
    if (count == 0 || (data.targets() > 0 && i > 0)) continue;
    const std::string name = i == 0 ? "without a label" : fmt::format("class {}", i - 1);
    text += fmt::format("\n{}: {:.0f} ({})", name, count, percent(count, samples));
  }
  return text + table("target", contents.targets) + table("channel", contents.channels);
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
    const auto progress = comm.rank() == 0 ? std::make_unique<Progress>(options) : nullptr;
    contents = read_share(*data, range, progress.get());
  });
  add_ranks(comm, contents);
  agree(comm, [&] { print(comm, describe(*data, contents)); });
  return kDone;
}

}  // namespace petaflow
