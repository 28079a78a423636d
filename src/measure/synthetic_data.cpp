#include "measure/synthetic_data.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/random.hpp"

namespace petaflow {

SyntheticData::SyntheticData(std::int64_t count, const Graph& graph, std::int64_t classes, std::int64_t targets)
    : count_(count), classes_(classes), targets_(targets), sample_(graph.sample()), type_(graph.sample_type()) {
  PETAFLOW_REQUIRE(type_ == DType::kF32 || type_ == DType::kI16, "samples of {}", name_of(type_));
  bytes_.resize(static_cast<std::size_t>(kSamples) * sample_bytes());
  RandomSequence random(random_stream(0, RandomPurpose::kGenerate), 0);
  if (type_ == DType::kF32) {
    for (float& x : numbers<float>(bytes_)) x = static_cast<float>(2 * random.uniform() - 1);
  } else {
    for (std::int16_t& x : numbers<std::int16_t>(bytes_)) x = static_cast<std::int16_t>(random.below(16));
  }
}

Sample SyntheticData::read(std::int64_t index, std::span<std::byte> sample, std::span<float> targets) const {
  const std::size_t size = sample_bytes(), first = static_cast<std::size_t>(index % kSamples) * size;
  std::ranges::copy(std::span(bytes_).subspan(first, size), sample.begin());
  std::ranges::fill(targets, 0.0F);
  return {static_cast<std::int32_t>(index % classes_), 1};
}

}  // namespace petaflow
