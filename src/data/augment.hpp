// Augmentation that respects a detector: phi is periodic, and physics does not tell phi from -phi nor eta from -eta.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "data/dataset.hpp"

namespace petaflow {

/// Axes of an image (D, H, W, C) that may be rolled and mirrored.
enum class ImageAxis { kH, kW };

/// Changes a sample and, alike, its targets in place, with the random numbers that it is given.
using Augmentation = std::function<void(const SampleBytes&, RandomSequence&)>;

/// Moves an image (D, H, W, C) or a map of classes (C = 1) by `bins` along a periodic axis: what was at i comes to
/// (i + bins) mod n.  dims: C, D, H, W.
void roll(std::span<float> pixels, const std::array<std::int64_t, 4>& dims, ImageAxis axis, std::int64_t bins);
void roll(std::span<std::uint8_t> map, const std::array<std::int64_t, 4>& dims, ImageAxis axis, std::int64_t bins);

/// Reverses the order along an axis, of an image or a map of classes.  dims: C, D, H, W.
void mirror(std::span<float> pixels, const std::array<std::int64_t, 4>& dims, ImageAxis axis);
void mirror(std::span<std::uint8_t> map, const std::array<std::int64_t, 4>& dims, ImageAxis axis);

/// A way of looking at an image that must not matter: changes its bytes in place.
using ImageView = std::function<void(std::span<std::byte>)>;

/// The image as it is and its three mirrors: what is averaged over where none of them matters.  dims: C, D, H, W.
std::vector<ImageView> mirrored_views(const std::array<std::int64_t, 4>& dims);

struct AugmentOptions {
  ImageAxis phi = ImageAxis::kW;  // eta is the other one
  bool roll_phi = true;           // by any number of bins; needs the whole circle
  bool flip_phi = true;           // half of the images
  bool mirror_eta = true;         // half of the images
  double energy_jitter = 0;       // all values times exp(energy_jitter z), z standard normal: the energy scale
};

/// Applies what the options allow to one image, in place, whose class stays what it is.  It draws the same numbers
/// whatever is switched on, so that switching one off leaves the others as they were.
class DetectorAugment {
 public:
  DetectorAugment(const std::array<std::int64_t, 4>& sample_dims, const AugmentOptions& options)
      : dims_(sample_dims), options_(options) {}

  /// Changes the input, (D, H, W, C) f32.
  void operator()(const SampleBytes& sample, RandomSequence& random) const;

 private:
  std::array<std::int64_t, 4> dims_;  // C, D, H, W
  AugmentOptions options_;
};

}  // namespace petaflow
