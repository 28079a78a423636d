#include "data/augment.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace petaflow {

namespace {

/// An image seen as (outer, n, inner) around one axis.
struct View {
  std::int64_t outer, n, inner;
};

View view(std::size_t size, const std::array<std::int64_t, 4>& dims, ImageAxis axis) {
  const auto [c, d, h, w] = dims;
  PETAFLOW_REQUIRE(static_cast<std::int64_t>(size) == c * d * h * w, "image of {} numbers", size);
  return axis == ImageAxis::kH ? View{d, h, w * c} : View{d * h, w, c};
}

template <class T>
void roll_any(std::span<T> pixels, const std::array<std::int64_t, 4>& dims, ImageAxis axis, std::int64_t bins) {
  const auto [outer, n, inner] = view(pixels.size(), dims, axis);
  const std::int64_t shift = (bins % n + n) % n;
  for (std::int64_t i = 0; i < outer; ++i) {
    T* const first = pixels.data() + i * n * inner;
    std::rotate(first, first + (n - shift) * inner, first + n * inner);
  }
}

template <class T>
void mirror_any(std::span<T> pixels, const std::array<std::int64_t, 4>& dims, ImageAxis axis) {
  const auto [outer, n, inner] = view(pixels.size(), dims, axis);
  for (std::int64_t i = 0; i < outer; ++i) {
    T* const first = pixels.data() + i * n * inner;
    for (std::int64_t low = 0, high = n - 1; low < high; ++low, --high) {
      std::swap_ranges(first + low * inner, first + (low + 1) * inner, first + high * inner);
    }
  }
}

}  // namespace

void roll(std::span<float> pixels, const std::array<std::int64_t, 4>& dims, ImageAxis axis, std::int64_t bins) {
  roll_any(pixels, dims, axis, bins);
}
void roll(std::span<std::uint8_t> map, const std::array<std::int64_t, 4>& dims, ImageAxis axis, std::int64_t bins) {
  roll_any(map, dims, axis, bins);
}

void mirror(std::span<float> pixels, const std::array<std::int64_t, 4>& dims, ImageAxis axis) {
  mirror_any(pixels, dims, axis);
}
void mirror(std::span<std::uint8_t> map, const std::array<std::int64_t, 4>& dims, ImageAxis axis) {
  mirror_any(map, dims, axis);
}

std::vector<ImageView> mirrored_views(const std::array<std::int64_t, 4>& dims) {
  std::vector<ImageView> views;
  for (const bool rows : {false, true}) {
    for (const bool columns : {false, true}) {
      views.emplace_back([=](std::span<std::byte> image) {
        const auto pixels = numbers<float>(image);
        if (rows) mirror(pixels, dims, ImageAxis::kH);
        if (columns) mirror(pixels, dims, ImageAxis::kW);
      });
    }
  }
  return views;
}

void DetectorAugment::operator()(const SampleBytes& sample, RandomSequence& random) const {
  const auto pixels = numbers<float>(sample.input);
  const ImageAxis eta = options_.phi == ImageAxis::kW ? ImageAxis::kH : ImageAxis::kW;
  const std::int64_t bins = options_.phi == ImageAxis::kW ? dims_[3] : dims_[2];
  const std::uint32_t shift = random.below(static_cast<std::uint32_t>(bins));
  const bool flip = random.below(2) == 1, turn = random.below(2) == 1;
  if (options_.roll_phi) roll(pixels, dims_, options_.phi, shift);
  if (options_.flip_phi && flip) mirror(pixels, dims_, options_.phi);
  if (options_.mirror_eta && turn) mirror(pixels, dims_, eta);
  if (options_.energy_jitter > 0) {
    const auto scale = static_cast<float>(std::exp(options_.energy_jitter * random.normal()));
    for (float& pixel : pixels) pixel *= scale;
  }
}

}  // namespace petaflow
