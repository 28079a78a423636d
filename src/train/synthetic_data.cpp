#include "train/synthetic_data.hpp"

#include <algorithm>

#include "base/random.hpp"

namespace petaflow {

SyntheticData::SyntheticData(std::int64_t count, const Shape& sample, std::int64_t classes)
    : count_(count),
      classes_(classes),
      sample_(sample),
      pixels_(static_cast<std::size_t>(kImages * sample.sample_size())) {
  RandomSequence random(random_stream(0, RandomPurpose::kGenerate), 0);
  for (float& pixel : pixels_) pixel = static_cast<float>(2 * random.uniform() - 1);
}

Sample SyntheticData::read(std::int64_t index, std::span<float> pixels) const {
  const std::int64_t size = sample_.sample_size();
  std::copy_n(pixels_.begin() + static_cast<std::ptrdiff_t>(index % kImages * size), size, pixels.begin());
  return {static_cast<std::int32_t>(index % classes_), 1};
}

}  // namespace petaflow
