// Images with one shape each, what shape it is, and which pixels it covers: drawn, written to HDF5, and read back.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.hpp"

namespace petaflow::shapes {

inline constexpr std::array kKinds = {"disc", "ring", "cross"};
/// Number of classes of the pixels of a map: 0 is the background, 1 + kind a shape.
inline constexpr auto kMapClasses = static_cast<std::int64_t>(kKinds.size()) + 1;

/// All samples of some files: `image` f32 (N, edge, edge), `map` uint8 (N, edge, edge), `kind` int32 (N).
struct ShapeSet {
  std::vector<std::string> files;
  std::vector<std::int64_t> counts;  // of samples, per file
  std::int64_t edge = 0;
  std::vector<float> images;
  std::vector<std::int32_t> maps, kinds;
};

/// From one rank to others: bytes.hpp.
template <class Bytes>
void exchange(Bytes& bytes, ShapeSet& set) {
  bytes(set.files, set.counts, set.edge, set.images, set.maps, set.kinds);
}

/// Throws a user error where a file is not as ShapeSet says, or its images are not of `edge` x `edge` pixels.
ShapeSet read_shapes(const std::vector<std::string>& files, std::int64_t edge);

/// Draws samples [first, first + count) of the infinite sequence of a seed into a new file.
void write_shapes(const std::string& path, std::int64_t edge, std::uint64_t seed, std::int64_t first,
                  std::int64_t count);

/// Targets: "kind", one of the kinds, and "map", a class per pixel.
class ShapesData final : public Dataset {
 public:
  explicit ShapesData(ShapeSet set) : set_(std::move(set)) {}

  std::int64_t size() const override { return std::ssize(set_.kinds); }
  std::array<std::int64_t, 4> sample_dims() const override { return {1, 1, set_.edge, set_.edge}; }
  std::vector<TargetSpec> targets() const override {
    return {TargetSpec::label("kind", std::ssize(kKinds)),
            TargetSpec::class_map("map", kMapClasses, {1, set_.edge, set_.edge})};
  }
  float read(std::int64_t index, const SampleBytes& sample) const override;
  std::vector<std::string> files() const override { return set_.files; }
  SampleOrigin origin(std::int64_t index) const override;

 private:
  ShapeSet set_;
};

}  // namespace petaflow::shapes
