// Offsets of the classes: numbers added to the logits before the largest one decides, chosen on a validation set.  A
// loss whose weights favour rare classes predicts too much of them; offsets undo that without another training.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "climate/fields.hpp"
#include "comm/communicator.hpp"
#include "metrics/segmentation.hpp"

namespace petaflow::climate_segmentation {

inline constexpr std::int64_t kClasses = std::ssize(climate::kTagNames);

/// Of background, cyclones, rivers; that of the background is 0.
using ClassOffsets = std::array<double, kClasses>;

/// "tc -1.5, ar 0.25"
std::string offsets_text(const ClassOffsets& offsets);

/// The class of every pixel: of logits (pixels, kClasses) that with the largest logit + offset, the first of equal
/// ones.
std::vector<std::uint8_t> decide(std::span<const float> logits, const ClassOffsets& offsets = {});

/// Pixels of a data set by their known class and by how far the logits of both events lie above the background's, in
/// bins; all that a choice of offsets needs, however large the set is.
class OffsetSearch {
 public:
  OffsetSearch();

  /// Takes up some pixels: logits (pixels, kClasses), known (pixels).
  void add(std::span<const float> logits, std::span<const std::uint8_t> known);
  /// On all ranks: brings the pixels of all to rank 0.
  void merge(Communicator& comm);

  /// The matrix of these offsets, multiples of kOffsetStep; exact but for the choice between the two events, whose
  /// difference is known to a bin: on the border half of its pixels are taken for each.
  PixelCounts counts(const ClassOffsets& offsets) const;
  /// Offsets with the highest mean IoU: one after the other along all values, until neither changes (coordinate
  /// search), from several starts.
  ClassOffsets best() const;

 private:
  std::vector<double> pixels_;  // (known, bin of cyclones, bin of rivers)
};

inline constexpr double kOffsetStep = 0.125, kLargestOffset = 12;

}  // namespace petaflow::climate_segmentation
