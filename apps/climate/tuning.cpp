#include "climate/tuning.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.hpp"
#include "base/random.hpp"
#include "climate/plane.hpp"

namespace petaflow::climate {
namespace {

/// A number of the options and the range in which it is sought.
template <typename Options>
struct Knob {
  double Options::* value;
  double low, high;
  bool by_factor = false;  // uniform in the logarithm
};

constexpr std::array<Knob<CycloneOptions>, 7> kCycloneKnobs = {{
    {&CycloneOptions::min_vorticity, 1e-5, 3e-4, true},
    {&CycloneOptions::min_pressure_rise, 50, 2000, true},
    {&CycloneOptions::min_core_warmth, 0, 3},
    {&CycloneOptions::min_wind, 8, 35},
    {&CycloneOptions::max_latitude, 20, 60},
    {&CycloneOptions::box_margin, 0, 8},
    {&CycloneOptions::percentile, 30, 97},
}};
constexpr std::array<Knob<RiverOptions>, 4> kRiverKnobs = {{
    {&RiverOptions::threshold, 10, 45},
    {&RiverOptions::latitude_sigma, 3, 28},
    {&RiverOptions::min_length_km, 500, 3500},
    {&RiverOptions::max_width_km, 250, 3000, true},
}};
/// Transports in kg/(m s).
constexpr Knob<RiverOptions> kTransportThreshold = {&RiverOptions::threshold, 80, 800, true};

template <typename Options>
void draw(const Knob<Options>& knob, bool is_near, RandomSequence& random, Options& options) {
  const auto to = [&](double x) { return knob.by_factor ? std::log(x) : x; };
  const double low = to(knob.low), high = to(knob.high);
  double x = low + (high - low) * random.uniform();
  if (is_near) x = std::clamp(to(options.*knob.value) + 0.08 * (high - low) * random.normal(), low, high);
  options.*knob.value = knob.by_factor ? std::exp(x) : x;
}

/// The best of the drawn options by iou(options).
template <typename Options, typename Draw, typename Iou>
Options search(Options best, std::int64_t trials, RandomSequence& random, const Draw& draw_options, const Iou& iou) {
  double highest = iou(best);
  for (std::int64_t trial = 0; trial < trials; ++trial) {
    Options options = best;
    draw_options(options, 3 * trial >= 2 * trials, random);
    const double reached = iou(options);
    if (reached <= highest) continue;
    highest = reached;
    best = options;
  }
  return best;
}

/// IoU of one class in marks on all frames.
class ClassScore {
 public:
  explicit ClassScore(Tag tag) : tag_(static_cast<std::uint8_t>(tag)) {}
  void add(std::span<const std::uint8_t> truth, std::span<const std::uint8_t> mask) {
    for (std::size_t i = 0; i < truth.size(); ++i) {
      const bool is = truth[i] == tag_, marked = mask[i] != 0;
      both_ += is && marked, either_ += is || marked;
    }
  }
  double iou() const { return either_ == 0 ? 1 : static_cast<double>(both_) / static_cast<double>(either_); }

 private:
  std::uint8_t tag_;
  std::int64_t both_ = 0, either_ = 0;
};

using Masks = std::vector<std::vector<std::uint8_t>>;  // by frame

/// Pixels of cyclones of a frame.
std::vector<std::uint8_t> cyclone_mask(const Frame& frame, const std::vector<CycloneCandidate>& candidates,
                                       const CycloneOptions& options) {
  std::vector<std::uint8_t> mask(frame.labels.size());
  for (const CycloneCandidate& candidate : candidates) {
    if (!is_cyclone(candidate, options)) continue;
    for (const std::int64_t at : cyclone_pixels(frame, candidate, options)) mask[static_cast<std::size_t>(at)] = 1;
  }
  return mask;
}

/// Pixels of rivers that are not of cyclones.
std::vector<std::uint8_t> river_mask(const Frame& frame, std::span<const float> moisture,
                                     const std::vector<std::uint8_t>& cyclones, const RiverOptions& options) {
  std::vector<std::uint8_t> mask = find_rivers(frame.grid, moisture, options);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = mask[i] != 0 && cyclones[i] == 0;
  return mask;
}

}  // namespace

void count_classes(std::span<const std::uint8_t> truth, std::span<const std::uint8_t> marked, ClassCounts& counts) {
  PETAFLOW_REQUIRE(truth.size() == marked.size(), "{} and {} labels", truth.size(), marked.size());
  for (std::size_t i = 0; i < truth.size(); ++i) ++counts[truth[i]][marked[i]];
}

std::array<double, kTagNames.size()> class_iou(const ClassCounts& counts) {
  std::array<double, kTagNames.size()> iou{};
  for (std::size_t c = 0; c < iou.size(); ++c) {
    std::int64_t either = -counts[c][c];
    for (std::size_t other = 0; other < iou.size(); ++other) either += counts[c][other] + counts[other][c];
    iou[c] = either == 0 ? 1 : static_cast<double>(counts[c][c]) / static_cast<double>(either);
  }
  return iou;
}

double mean_iou(const ClassCounts& counts) {
  const auto iou = class_iou(counts);
  return std::accumulate(iou.begin(), iou.end(), 0.0) / static_cast<double>(iou.size());
}

TunedHeuristics tune_heuristics(std::span<const Frame> frames, std::int64_t trials, std::uint64_t seed,
                                RiverField field) {
  std::vector<std::vector<CycloneCandidate>> candidates;
  std::vector<std::vector<float>> moisture;
  for (const Frame& frame : frames) {
    PETAFLOW_REQUIRE(std::ssize(frame.labels) == frame.pixels(), "a frame without labels");
    candidates.push_back(cyclone_candidates(frame));
    const auto water = plane(frame, kTmq);
    moisture.push_back(field == RiverField::kWater ? std::vector<float>(water.begin(), water.end())
                                                   : vapour_transport(frame));
  }
  const RandomStream stream = random_stream(seed, RandomPurpose::kShuffle, 17);
  RandomSequence of_cyclones(stream, 0), of_rivers(stream, 1);
  TunedHeuristics tuned;
  tuned.options.cyclones = search(
      CycloneOptions{}, trials, of_cyclones,
      [](CycloneOptions& options, bool is_near, RandomSequence& random) {
        for (const auto& knob : kCycloneKnobs) draw(knob, is_near, random, options);
      },
      [&](const CycloneOptions& options) {
        ClassScore score(Tag::kCyclone);
        for (std::size_t i = 0; i < frames.size(); ++i) {
          score.add(frames[i].labels, cyclone_mask(frames[i], candidates[i], options));
        }
        return score.iou();
      });
  Masks cyclones;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    cyclones.push_back(cyclone_mask(frames[i], candidates[i], tuned.options.cyclones));
  }
  tuned.options.rivers = search(
      field == RiverField::kWater ? RiverOptions{} : RiverOptions::transport(), trials, of_rivers,
      [&](RiverOptions& options, bool is_near, RandomSequence& random) {
        options.percentile = 0;
        for (const auto& knob : kRiverKnobs) draw(knob, is_near, random, options);
        if (field == RiverField::kTransport) draw(kTransportThreshold, is_near, random, options);
        if (!is_near) options.connectivity = {random.uniform() < 0.5, random.uniform() < 0.5};
      },
      [&](const RiverOptions& options) {
        ClassScore score(Tag::kRiver);
        for (std::size_t i = 0; i < frames.size(); ++i) {
          score.add(frames[i].labels, river_mask(frames[i], moisture[i], cyclones[i], options));
        }
        return score.iou();
      });
  for (std::size_t i = 0; i < frames.size(); ++i) {
    std::vector<std::uint8_t> marked = river_mask(frames[i], moisture[i], cyclones[i], tuned.options.rivers);
    for (std::size_t at = 0; at < marked.size(); ++at) {
      const Tag tag = cyclones[i][at] != 0 ? Tag::kCyclone : marked[at] != 0 ? Tag::kRiver : Tag::kBackground;
      marked[at] = static_cast<std::uint8_t>(tag);
    }
    count_classes(frames[i].labels, marked, tuned.counts);
  }
  return tuned;
}

}  // namespace petaflow::climate
