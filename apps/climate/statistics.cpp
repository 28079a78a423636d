#include "climate/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/error.hpp"
#include "climate/frame_check.hpp"
#include "comm/agree.hpp"
#include "data/dataset.hpp"
#include "nn/parallel.hpp"

namespace petaflow::climate {
namespace {

using Sums = std::array<FieldSums, kFields.size()>;

std::vector<int> fields_of(const FrameFile& file) {
  std::vector<int> fields;
  for (int f = 0; f < kFieldCount; ++f) {
    if (file.has(f)) fields.push_back(f);
  }
  return fields;
}

/// Adds a frame to the sums of its variables.
void add_frame(const FrameFile& file, std::int64_t frame, std::span<const int> fields, Sums& sums) {
  thread_local RawFields raw;
  file.read_fields(frame, fields, raw);
  const std::int64_t pixels = file.grid().height() * file.grid().width();
  check_values(file, frame, fields, raw);
  constexpr std::int64_t kBlock = 4096;  // pixels whose variables stay in the L2 cache where channels come last
  for (std::int64_t begin = 0; begin < pixels; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, pixels - begin);
    for (std::size_t k = 0; k < fields.size(); ++k) {
      const float* const first = raw.values.data() + raw.first[k] + begin * raw.step;
      sums[static_cast<std::size_t>(fields[k])].add(first, count, raw.step);
    }
  }
}

}  // namespace

double FieldStatistics::deviation() const { return std::sqrt(std::max(0.0, variance())); }

void FieldSums::add(const float* first, std::int64_t count, std::int64_t step) {
  if (count == 0) return;
  const double shift = *first;
  double sum = 0, squares = 0;
  FieldSums more;
  for (std::int64_t i = 0; i < count; ++i) {
    const float x = first[i * step];
    const double d = x - shift;
    sum += d;
    squares += d * d;
    more.min_ = std::min(more.min_, x);
    more.max_ = std::max(more.max_, x);
  }
  more.count_ = static_cast<double>(count);
  more.mean_ = shift + sum / more.count_;
  more.squares_ = std::max(0.0, squares - sum * sum / more.count_);
  merge(more);
}

void FieldSums::merge(const FieldSums& other) {
  const double count = count_ + other.count_;
  if (count == 0) return;
  const double difference = other.mean_ - mean_;
  squares_ += other.squares_ + difference * difference * count_ * (other.count_ / count);
  mean_ += difference * (other.count_ / count);
  count_ = count;
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

FieldStatistics FieldSums::statistics() const {
  return {count_, mean_, count_ == 0 ? 0 : squares_ / count_ + mean_ * mean_, min_, max_};
}

Statistics compute_statistics(Communicator& comm, const std::vector<std::string>& files,
                              const FrameFileOptions& options, std::vector<int> fields,
                              const std::function<void(std::size_t, const FrameFile&)>& check) {
  constexpr std::int64_t kBlock = 64;  // files whose sums are kept apart, so that they are added in one order
  Sums total;
  double frames = 0;
  agree(comm, [&] {
    if (files.empty()) user_error("no file was given to take statistics of");
    if (fields.empty()) fields = fields_of(*open_frames(files.front(), options));
    const auto [first, last] = share_of_samples(std::ssize(files), comm.rank(), comm.size());
    for (std::int64_t begin = first; begin < last; begin += kBlock) {
      const auto count = static_cast<std::size_t>(std::min(kBlock, last - begin));
      std::vector<Sums> sums(count);
      std::vector<std::int64_t> read(count);
      parallel_items("petaflow::statistics", count, [&](int, std::size_t i) {
        const std::size_t f = static_cast<std::size_t>(begin) + i;
        const auto file = open_frames(files[f], options);
        if (check) check(f, *file);
        read[i] = file->frames();
        for (std::int64_t frame = 0; frame < read[i]; ++frame) add_frame(*file, frame, fields, sums[i]);
      });
      for (std::size_t i = 0; i < count; ++i) {
        frames += static_cast<double>(read[i]);
        for (std::size_t f = 0; f < total.size(); ++f) total[f].merge(sums[i][f]);
      }
    }
  });
  Statistics statistics;
  const auto all = comm.gather(std::as_bytes(std::span(total)));
  if (comm.rank() == 0) {
    Sums merged;
    for (const auto& bytes : all) {
      Sums one;
      PETAFLOW_REQUIRE(bytes.size() == sizeof one, "{} bytes of sums", bytes.size());
      std::memcpy(one.data(), bytes.data(), sizeof one);
      for (std::size_t f = 0; f < merged.size(); ++f) merged[f].merge(one[f]);
    }
    for (std::size_t f = 0; f < merged.size(); ++f) statistics.fields[f] = merged[f].statistics();
  }
  comm.all_reduce_sum(std::span(&frames, 1));
  comm.broadcast(std::as_writable_bytes(std::span(statistics.fields)), 0);
  statistics.frames = static_cast<std::int64_t>(frames);
  return statistics;
}

std::vector<std::string> deviation_warnings(const Statistics& statistics, std::span<const int> fields,
                                            const std::string& source) {
  std::vector<std::string> warnings;
  for (const int field : fields) {
    const FieldStatistics& one = statistics[field];
    if (one.has_deviation()) continue;
    warnings.push_back(fmt::format(
        "{}: {} has no standard deviation: its mean square {:.9g} is not above its squared mean {:.9g}; its minimum "
        "{:.6g} and maximum {:.6g} are used instead",
        source, kFields[static_cast<std::size_t>(field)].name, one.mean_square, one.mean * one.mean, one.min, one.max));
  }
  return warnings;
}

}  // namespace petaflow::climate
