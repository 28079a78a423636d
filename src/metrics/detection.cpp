#include "metrics/detection.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <tuple>

#include "base/error.hpp"
#include "base/random.hpp"

namespace petaflow {
namespace {

struct Interval {
  double low, high;
  Interval(float begin, float end) : low(static_cast<double>(begin)), high(static_cast<double>(end)) {}

  double length() const { return std::max(0.0, high - low); }
  /// Length of what two have in common.
  double shared(const Interval& other) const {
    return std::max(0.0, std::min(high, other.high) - std::max(low, other.low));
  }
  /// The same on a circle, on which they may meet twice.
  double shared(Interval other, double period) const {
    if (period == 0) return shared(other);
    const double turn = period * (std::round((low + high - other.low - other.high) / (2 * period)) - 1);
    double sum = 0;
    other.low += turn, other.high += turn;
    for (int i = 0; i < 3; ++i, other.low += period, other.high += period) sum += shared(other);
    return sum;
  }
};

/// Matches of a kind by falling confidence; equals in the order of the data set.
std::vector<BoxMatch> ranked(const ComparedBoxes& boxes, std::int32_t kind) {
  std::vector<BoxMatch> matches;
  std::ranges::copy_if(boxes.matches, std::back_inserter(matches), [&](const BoxMatch& m) { return m.kind == kind; });
  std::ranges::stable_sort(matches, std::greater(), &BoxMatch::confidence);
  return matches;
}

/// Average precision of each kind at each threshold, and their mean, of frames that count so many times.
class Precisions {
 public:
  Precisions(const ComparedBoxes& boxes, const DetectionRules& rules) : boxes_(boxes) {
    for (std::int64_t k = 0; k < rules.kinds; ++k) ranked_.push_back(ranked(boxes, static_cast<std::int32_t>(k)));
  }

  double known(std::size_t kind, std::span<const double> times) const {
    double sum = 0;
    for (std::size_t f = 0; f < times.size(); ++f) {
      sum += times[f] * static_cast<double>(boxes_.known[f * ranked_.size() + kind]);
    }
    return sum;
  }
  double found(std::size_t kind) const { return static_cast<double>(ranked_[kind].size()); }
  double of(std::size_t kind, std::size_t threshold, std::span<const double> times) const {
    std::vector<RankedBox> list;
    for (const BoxMatch& match : ranked_[kind]) {
      list.push_back({(match.hits >> threshold & 1U) != 0, times[static_cast<std::size_t>(match.frame)]});
    }
    return average_precision(list, known(kind, times));
  }

 private:
  const ComparedBoxes& boxes_;
  std::vector<std::vector<BoxMatch>> ranked_;
};

/// Mean of the finite values; NaN without any.
double mean_of_finite(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    sum += value;
    count += 1;
  }
  return count > 0 ? sum / count : NAN;
}

}  // namespace

double box_iou(const FoundBox& a, const FoundBox& b, double period) {
  const Interval ya(a.ymin, a.ymax), xa(a.xmin, a.xmax), yb(b.ymin, b.ymax), xb(b.xmin, b.xmax);
  const double both = ya.shared(yb) * xa.shared(xb, period);
  const double either = ya.length() * xa.length() + yb.length() * xb.length() - both;
  return either > 0 ? both / either : 0;
}

std::vector<FoundBox> without_doubles(std::vector<FoundBox> boxes, double most_overlap, double period) {
  std::ranges::stable_sort(boxes, std::greater(), &FoundBox::confidence);
  std::vector<FoundBox> kept;
  for (const FoundBox& box : boxes) {
    const bool is_double = std::ranges::any_of(kept, [&](const FoundBox& other) {
      return other.kind == box.kind && box_iou(other, box, period) > most_overlap;
    });
    if (!is_double) kept.push_back(box);
  }
  return kept;
}

double average_precision(std::span<const RankedBox> boxes, double known) {
  if (!(known > 0)) return NAN;
  std::vector<double> precision, step;  // of each box, and the recall that it adds
  double hits = 0, all = 0;
  for (const RankedBox& box : boxes) {
    if (box.times == 0) continue;
    hits += box.hit ? box.times : 0;
    all += box.times;
    precision.push_back(hits / all);
    step.push_back(box.hit ? box.times / known : 0);
  }
  double sum = 0, best = 0;
  for (std::size_t i = precision.size(); i-- > 0;) {
    best = std::max(best, precision[i]);
    sum += best * step[i];
  }
  return sum;
}

void BoxComparison::add(std::int64_t frame, std::span<const FoundBox> found, std::span<const FoundBox> known) {
  std::vector<float> counts(static_cast<std::size_t>(rules_.kinds));
  for (const FoundBox& box : known) {
    PETAFLOW_REQUIRE(box.kind >= 0 && box.kind < rules_.kinds, "a box of kind {} of {}", box.kind, rules_.kinds);
    counts[static_cast<std::size_t>(box.kind)] += 1;
  }
  known_.add(frame, counts);
  std::vector<std::vector<bool>> taken(rules_.thresholds.size(), std::vector<bool>(known.size()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const FoundBox& box = found[i];
    PETAFLOW_REQUIRE(box.kind >= 0 && box.kind < rules_.kinds, "a box of kind {} of {}", box.kind, rules_.kinds);
    BoxMatch& match = matches_.emplace_back(BoxMatch{frame, static_cast<std::int32_t>(i), box.kind, box.confidence, 0});
    std::vector<double> overlaps;
    for (const FoundBox& other : known) {
      overlaps.push_back(other.kind == box.kind ? box_iou(box, other, rules_.period) : -1);
    }
    for (std::size_t t = 0; t < taken.size(); ++t) {
      std::size_t best = known.size();
      for (std::size_t j = 0; j < known.size(); ++j) {
        if (taken[t][j] || overlaps[j] < rules_.thresholds[t]) continue;
        if (best == known.size() || overlaps[j] > overlaps[best]) best = j;
      }
      if (best == known.size()) continue;
      taken[t][best] = true;
      match.hits |= 1U << t;
    }
  }
}

ComparedBoxes BoxComparison::merge(Communicator& comm) const {
  ComparedBoxes boxes;
  boxes.known = known_.merge(comm);
  for (const std::vector<std::byte>& part : comm.gather(std::as_bytes(std::span(matches_)))) {
    const std::size_t before = boxes.matches.size();
    boxes.matches.resize(before + part.size() / sizeof(BoxMatch));
    if (!part.empty()) std::memcpy(boxes.matches.data() + before, part.data(), part.size());
  }
  std::ranges::sort(boxes.matches, {}, [](const BoxMatch& m) { return std::tuple(m.frame, m.order); });
  return boxes;
}

DetectionReport evaluate_detection(const ComparedBoxes& boxes, const DetectionRules& rules,
                                   const BootstrapOptions& options) {
  const auto kinds = static_cast<std::size_t>(rules.kinds);
  const std::size_t frames = boxes.known.size() / kinds;
  const Precisions precisions(boxes, rules);
  const std::vector<double> once(frames, 1.0);
  std::vector<std::vector<double>> replicas;  // how often each frame counts
  const RandomStream stream = random_stream(options.seed, RandomPurpose::kBootstrap);
  for (int r = 0; r < options.replicas && frames > 1; ++r) {
    std::vector<double>& times = replicas.emplace_back(frames);
    RandomSequence draw(stream, static_cast<std::uint64_t>(r));
    for (std::size_t i = 0; i < frames; ++i) times[draw.below(static_cast<std::uint32_t>(frames))] += 1;
  }

  DetectionReport report;
  report.frames = static_cast<std::int64_t>(frames);
  for (std::size_t k = 0; k < kinds; ++k) {
    report.known.push_back(precisions.known(k, once));
    report.found.push_back(precisions.found(k));
  }
  for (std::size_t t = 0; t < rules.thresholds.size(); ++t) {
    const auto of_kinds = [&](const std::vector<double>& times) {
      std::vector<double> values;
      for (std::size_t k = 0; k < kinds; ++k) values.push_back(precisions.of(k, t, times));
      return values;
    };
    const std::vector<double> whole = of_kinds(once);
    std::vector<std::vector<double>> drawn(kinds);
    std::vector<double> drawn_means;
    for (const std::vector<double>& times : replicas) {
      const std::vector<double> values = of_kinds(times);
      for (std::size_t k = 0; k < kinds; ++k) drawn[k].push_back(values[k]);
      drawn_means.push_back(mean_of_finite(values));
    }
    DetectionReport::AveragePrecision& at = report.at.emplace_back();
    at.mean = bootstrap_metric(mean_of_finite(whole), drawn_means, "no box is known");
    for (std::size_t k = 0; k < kinds; ++k) {
      at.kinds.push_back(bootstrap_metric(whole[k], drawn[k], "no box of this kind is known"));
    }
  }
  return report;
}

}  // namespace petaflow
