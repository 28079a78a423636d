// Samples made up in memory, for measuring speed without files.
#pragma once

#include <vector>

#include "base/shape.hpp"
#include "data/dataset.hpp"

namespace petaflow {

/// Uniform noise in [-1, 1) and labels 0, 1, ..., classes - 1, 0, ...; a few images in memory serve all samples.
class SyntheticData final : public Dataset {
 public:
  SyntheticData(std::int64_t count, const Shape& sample, std::int64_t classes);
  std::int64_t size() const override { return count_; }
  std::array<std::int64_t, 4> sample_dims() const override { return {sample_.c, sample_.d, sample_.h, sample_.w}; }
  Sample read(std::int64_t index, std::span<float> pixels) const override;

 private:
  static constexpr std::int64_t kImages = 8;
  std::int64_t count_, classes_;
  Shape sample_;
  std::vector<float> pixels_;
};

}  // namespace petaflow
