// Samples made up in memory, for measuring speed without files.
#pragma once

#include <vector>

#include "data/dataset.hpp"
#include "nn/graph.hpp"

namespace petaflow {

/// Noise, uniform in [-1, 1) or counts below 16 (i16), with classes 0, 1, ..., 0, ... and targets 0; a few
/// samples in memory serve all.
class SyntheticData final : public Dataset {
 public:
  SyntheticData(std::int64_t count, const Graph& graph, std::vector<TargetSpec> targets);
  std::int64_t size() const override { return count_; }
  std::array<std::int64_t, 4> sample_dims() const override { return {sample_.c, sample_.d, sample_.h, sample_.w}; }
  DType type() const override { return type_; }
  std::vector<TargetSpec> targets() const override { return targets_; }
  float read(std::int64_t index, const SampleBytes& sample) const override;

 private:
  static constexpr std::int64_t kSamples = 2;  // more would be a good part of the memory of a bench
  std::int64_t count_;
  std::vector<TargetSpec> targets_;
  Shape sample_;
  DType type_;
  std::vector<std::byte> bytes_;
};

}  // namespace petaflow
