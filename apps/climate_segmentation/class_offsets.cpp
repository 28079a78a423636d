#include "climate_segmentation/class_offsets.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace petaflow::climate_segmentation {
namespace {

static_assert(kClasses == 3, "the bins are those of two differences");

// Bin i holds differences in [(i - kHalf) kOffsetStep, (i + 1 - kHalf) kOffsetStep); the outermost all beyond.
constexpr auto kHalf = static_cast<std::int64_t>(kLargestOffset / kOffsetStep);
constexpr std::int64_t kBins = 2 * kHalf;

std::int64_t bin(float difference) {
  const double at = std::floor(static_cast<double>(difference) / kOffsetStep);
  return static_cast<std::int64_t>(std::clamp(at, -static_cast<double>(kHalf), kHalf - 1.0)) + kHalf;
}

double middle(std::int64_t i) { return (static_cast<double>(i - kHalf) + 0.5) * kOffsetStep; }

std::size_t place(std::int64_t known, std::int64_t cyclone, std::int64_t river) {
  return static_cast<std::size_t>((known * kBins + cyclone) * kBins + river);
}

}  // namespace

std::string offsets_text(const ClassOffsets& offsets) {
  return fmt::format("{} {}, {} {}", climate::kTagNames[1], offsets[1], climate::kTagNames[2], offsets[2]);
}

std::vector<std::uint8_t> decide(std::span<const float> logits, const ClassOffsets& offsets) {
  std::vector<std::uint8_t> classes(logits.size() / kClasses);
  for (std::size_t p = 0; p < classes.size(); ++p) {
    double largest = static_cast<double>(logits[p * kClasses]) + offsets[0];
    for (std::size_t c = 1; c < kClasses; ++c) {
      const double value = static_cast<double>(logits[p * kClasses + c]) + offsets[c];
      if (value <= largest) continue;
      largest = value;
      classes[p] = static_cast<std::uint8_t>(c);
    }
  }
  return classes;
}

OffsetSearch::OffsetSearch() : pixels_(static_cast<std::size_t>(kClasses * kBins * kBins)) {}

void OffsetSearch::add(std::span<const float> logits, std::span<const std::uint8_t> known) {
  PETAFLOW_REQUIRE(logits.size() == known.size() * kClasses, "{} logits for {} pixels", logits.size(), known.size());
  for (std::size_t p = 0; p < known.size(); ++p) {
    const float* const of = logits.data() + p * kClasses;
    pixels_[place(known[p], bin(of[1] - of[0]), bin(of[2] - of[0]))] += 1;
  }
}

void OffsetSearch::merge(Communicator& comm) { comm.all_reduce_sum(std::span<double>(pixels_)); }

PixelCounts OffsetSearch::counts(const ClassOffsets& offsets) const {
  PixelCounts counts(kClasses);
  for (std::int64_t cyclone = 0; cyclone < kBins; ++cyclone) {
    const double first = middle(cyclone) + offsets[1] - offsets[0];
    for (std::int64_t river = 0; river < kBins; ++river) {
      const double second = middle(river) + offsets[2] - offsets[0];
      const bool is_event = std::max(first, second) > 0;
      const double of_cyclones = first > second ? 1 : first < second ? 0 : 0.5;  // in a bin on the border: half
      for (std::int64_t known = 0; known < kClasses; ++known) {
        const double pixels = pixels_[place(known, cyclone, river)];
        counts.at(known, 0) += is_event ? 0 : pixels;
        counts.at(known, 1) += is_event ? of_cyclones * pixels : 0;
        counts.at(known, 2) += is_event ? (1 - of_cyclones) * pixels : 0;
      }
    }
  }
  return counts;
}

ClassOffsets OffsetSearch::best() const {
  ClassOffsets best = {};
  double highest = counts(best).mean_iou();
  if (std::isnan(highest)) return best;
  for (const double start : {0.0, -2.0, 2.0}) {
    ClassOffsets at = {0, start, start};
    double reached = counts(at).mean_iou();
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t c = 1; c < kClasses; ++c) {
        for (std::int64_t step = -kHalf + 1; step < kHalf; ++step) {
          ClassOffsets tried = at;
          tried[c] = static_cast<double>(step) * kOffsetStep;
          const double value = counts(tried).mean_iou();
          if (value <= reached) continue;
          reached = value;
          at = tried;
          moved = true;
        }
      }
    }
    if (reached > highest) highest = reached, best = at;
  }
  return best;
}

}  // namespace petaflow::climate_segmentation
