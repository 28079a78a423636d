#include "shapes/data.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/random.hpp"
#include "io/hdf5.hpp"

namespace petaflow::shapes {
namespace {

struct Drawing {
  std::int32_t kind = 0;
  std::vector<float> image;
  std::vector<std::int32_t> map;
};

/// Whether a point, relative to the centre, is inside of a shape of this size.
bool covers(std::int32_t kind, double x, double y, double size) {
  x = std::abs(x);
  y = std::abs(y);
  const double radius = std::hypot(x, y);
  if (kind == 0) return radius <= size;
  if (kind == 1) return radius <= size && radius >= 0.6 * size;
  return std::max(x, y) <= size && std::min(x, y) <= size / 4;
}

/// A bright shape somewhere, on noise of a quarter of its brightness.
Drawing draw(std::int64_t edge, std::uint64_t seed, std::int64_t index) {
  RandomSequence random(random_stream(seed, RandomPurpose::kGenerate), static_cast<std::uint64_t>(index));
  const auto between = [&](double low, double high) { return low + (high - low) * random.uniform(); };
  const auto e = static_cast<double>(edge);
  Drawing drawing;
  drawing.kind = static_cast<std::int32_t>(random.below(kKinds.size()));
  const double size = between(e / 6, e / 4), x0 = between(size, e - size), y0 = between(size, e - size);
  for (std::int64_t y = 0; y < edge; ++y) {
    for (std::int64_t x = 0; x < edge; ++x) {
      const bool inside = covers(drawing.kind, static_cast<double>(x) - x0, static_cast<double>(y) - y0, size);
      drawing.map.push_back(inside ? 1 + drawing.kind : 0);
      drawing.image.push_back(static_cast<float>((inside ? 1 : 0) + 0.25 * random.normal()));
    }
  }
  return drawing;
}

template <class T>
void append(std::vector<T>& all, const std::vector<T>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

bool all_below(const std::vector<std::int32_t>& values, std::int64_t end) {
  return std::ranges::all_of(values, [=](std::int32_t value) { return value >= 0 && value < end; });
}

}  // namespace

ShapeSet read_shapes(const std::vector<std::string>& files, std::int64_t edge) {
  ShapeSet set;
  set.files = files;
  set.edge = edge;
  for (const std::string& path : files) {
    const Hdf5File file = Hdf5File::open(path);
    const std::vector<std::int64_t> dims = file.dataset("image").info().dims;
    if (dims.size() != 3 || dims[1] != edge || dims[2] != edge) {
      user_error("{}: image is {}, but data.edge = {} asks for (samples, {}, {})", path, dims_text(dims), edge, edge,
                 edge);
    }
    const auto maps = file.read<std::int32_t>("map"), kinds = file.read<std::int32_t>("kind");
    if (std::ssize(kinds) != dims[0] || std::ssize(maps) != dims[0] * edge * edge) {
      user_error("{}: image, map and kind are not of equally many samples", path);
    }
    if (!all_below(maps, kMapClasses) || !all_below(kinds, std::ssize(kKinds))) {
      user_error("{}: a kind or a pixel of a map is none of the {} kinds", path, kKinds.size());
    }
    set.counts.push_back(dims[0]);
    append(set.images, file.read<float>("image"));
    append(set.maps, maps);
    append(set.kinds, kinds);
  }
  return set;
}

void write_shapes(const std::string& path, std::int64_t edge, std::uint64_t seed, std::int64_t first,
                  std::int64_t count) {
  std::vector<float> images;
  std::vector<std::int32_t> maps, kinds;
  for (std::int64_t index = first; index < first + count; ++index) {
    const Drawing drawing = draw(edge, seed, index);
    append(images, drawing.image);
    append(maps, drawing.map);
    kinds.push_back(drawing.kind);
  }
  write_hdf5_atomically(path, [&](Hdf5File& file) {
    file.write<float>("image", {count, edge, edge}, images);
    file.write<std::int32_t>("map", {count, edge, edge}, maps, {Hdf5Type::kU8});
    file.write<std::int32_t>("kind", {count}, kinds, {Hdf5Type::kI32});
  });
}

float ShapesData::read(std::int64_t index, const SampleBytes& sample) const {
  const std::int64_t pixels = set_.edge * set_.edge, first = index * pixels;
  std::copy_n(set_.images.begin() + first, pixels, numbers<float>(sample.input).begin());
  sample.target<std::int32_t>(0).front() = set_.kinds[static_cast<std::size_t>(index)];
  std::transform(set_.maps.begin() + first, set_.maps.begin() + first + pixels, sample.target<std::uint8_t>(1).begin(),
                 [](std::int32_t c) { return static_cast<std::uint8_t>(c); });
  return 1;
}

SampleOrigin ShapesData::origin(std::int64_t index) const {
  std::int32_t file = 0;
  while (index >= set_.counts[static_cast<std::size_t>(file)]) index -= set_.counts[static_cast<std::size_t>(file++)];
  return {file, index};
}

}  // namespace petaflow::shapes
