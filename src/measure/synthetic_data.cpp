#include "measure/synthetic_data.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"

namespace petaflow {

SyntheticData::SyntheticData(std::int64_t count, const Graph& graph, std::vector<TargetSpec> targets)
    : count_(count), targets_(std::move(targets)), sample_(graph.sample()), type_(graph.sample_type()) {
  PETAFLOW_REQUIRE(type_ == DType::kF32 || type_ == DType::kI16, "samples of {}", name_of(type_));
  bytes_.resize(static_cast<std::size_t>(kSamples) * sample_bytes());
  RandomSequence random(random_stream(0, RandomPurpose::kGenerate), 0);
  if (type_ == DType::kF32) {
    for (float& x : numbers<float>(bytes_)) x = static_cast<float>(2 * random.uniform() - 1);
  } else {
    for (std::int16_t& x : numbers<std::int16_t>(bytes_)) x = static_cast<std::int16_t>(random.below(16));
  }
}

float SyntheticData::read(std::int64_t index, const SampleBytes& sample) const {
  const std::size_t size = sample_bytes(), first = static_cast<std::size_t>(index % kSamples) * size;
  std::ranges::copy(std::span(bytes_).subspan(first, size), sample.input.begin());
  for (std::size_t t = 0; t < targets_.size(); ++t) {
    const TargetSpec& target = targets_[t];
    std::ranges::fill(sample.targets[t], std::byte{0});
    if (target.kind == TargetKind::kClass) {
      sample.target<std::int32_t>(t).front() = static_cast<std::int32_t>(index % target.classes);
    } else if (target.kind == TargetKind::kClassMap) {
      std::int64_t next = index;
      for (std::uint8_t& pixel : sample.target<std::uint8_t>(t)) {
        pixel = static_cast<std::uint8_t>(next++ % target.classes);
      }
    }
  }
  return 1;
}

}  // namespace petaflow
