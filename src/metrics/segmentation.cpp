#include "metrics/segmentation.hpp"

#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"

namespace petaflow {
namespace {

/// Sums of a set of frames, with repetitions.
struct FrameSums {
  PixelCounts counts;
  double frames = 0, mlperf = 0;

  explicit FrameSums(std::int64_t classes) : counts(classes) {}
  void add(const PixelCounts& frame, double times = 1) {
    counts.add(frame, times);
    frames += times;
    mlperf += times * frame.mean_iou_mlperf();
  }
};

}  // namespace

void PixelCounts::add(const PixelCounts& other, double times) {
  PETAFLOW_REQUIRE(other.classes_ == classes_, "{} classes and {}", other.classes_, classes_);
  for (std::size_t i = 0; i < pixels_.size(); ++i) pixels_[i] += times * other.pixels_[i];
}

double PixelCounts::known(std::int64_t c) const {
  double sum = 0;
  for (std::int64_t p = 0; p < classes_; ++p) sum += at(c, p);
  return sum;
}

double PixelCounts::predicted(std::int64_t c) const {
  double sum = 0;
  for (std::int64_t k = 0; k < classes_; ++k) sum += at(k, c);
  return sum;
}

double PixelCounts::iou(std::int64_t c) const {
  const double all = known(c) + predicted(c) - at(c, c);
  return all > 0 ? at(c, c) / all : NAN;
}

double PixelCounts::mean_iou() const {
  double sum = 0, found = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const double value = iou(c);
    if (std::isnan(value)) continue;
    sum += value;
    found += 1;
  }
  return found > 0 ? sum / found : NAN;
}

double PixelCounts::mean_iou_mlperf() const {
  double sum = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    const double value = iou(c);
    sum += std::isnan(value) ? 1 : value;
  }
  return sum / static_cast<double>(classes_);
}

double PixelCounts::accuracy() const {
  double right = 0, all = 0;
  for (std::int64_t c = 0; c < classes_; ++c) {
    right += at(c, c);
    all += known(c);
  }
  return all > 0 ? right / all : NAN;
}

void FrameCounts::add(std::int64_t index, std::span<const std::uint8_t> known,
                      std::span<const std::uint8_t> predicted) {
  PETAFLOW_REQUIRE(known.size() == predicted.size(), "{} pixels known, {} predicted", known.size(), predicted.size());
  std::vector<float> row(static_cast<std::size_t>(classes_ * classes_));
  for (std::size_t p = 0; p < known.size(); ++p) {
    PETAFLOW_REQUIRE(known[p] < classes_ && predicted[p] < classes_, "class {}, predicted {}, of {}", known[p],
                     predicted[p], classes_);
    row[static_cast<std::size_t>(known[p] * classes_ + predicted[p])] += 1;
  }
  rows_.add(index, row);
}

std::vector<PixelCounts> FrameCounts::merge(Communicator& comm) const {
  const std::vector<float> rows = rows_.merge(comm);
  const auto width = static_cast<std::size_t>(classes_ * classes_);
  std::vector<PixelCounts> frames(rows.size() / width, PixelCounts(classes_));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i % width);
    frames[i / width].at(at / classes_, at % classes_) = static_cast<double>(rows[i]);
  }
  return frames;
}

SegmentationReport evaluate_segmentation(std::span<const PixelCounts> frames, std::int64_t classes,
                                         const SegmentationOptions& options) {
  FrameSums all(classes);
  for (const PixelCounts& frame : frames) all.add(frame);
  std::vector<FrameSums> replicas;
  const RandomStream stream = random_stream(options.seed, RandomPurpose::kBootstrap);
  for (int r = 0; r < options.replicas && frames.size() > 1; ++r) {
    FrameSums& replica = replicas.emplace_back(classes);
    RandomSequence draw(stream, static_cast<std::uint64_t>(r));
    for (std::size_t i = 0; i < frames.size(); ++i)
      replica.add(frames[draw.below(static_cast<std::uint32_t>(frames.size()))]);
  }
  const auto metric = [&](const std::string& reason, const auto& get) {
    std::vector<double> values;
    for (const FrameSums& replica : replicas) values.push_back(get(replica));
    return bootstrap_metric(get(all), values, reason);
  };
  SegmentationReport report{std::ssize(frames), {}, {}, {}, {}, all.counts};
  for (std::int64_t c = 0; c < classes; ++c) {
    report.iou.push_back(metric("no pixel has this class or is taken for it",
                                [c](const FrameSums& sums) { return sums.counts.iou(c); }));
  }
  report.iou_mean = metric("no pixels", [](const FrameSums& sums) { return sums.counts.mean_iou(); });
  report.iou_mlperf = metric("no frames", [](const FrameSums& sums) { return sums.mlperf / sums.frames; });
  report.accuracy = metric("no pixels", [](const FrameSums& sums) { return sums.counts.accuracy(); });
  return report;
}

}  // namespace petaflow
