// Small files of CosmoFlow's data in every layout, with counts that say where they belong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/bytes.hpp"
#include "data/cosmo.hpp"
#include "data/files.hpp"
#include "io/hdf5.hpp"
#include "npy_file.hpp"

namespace petaflow::test {

/// A sample as it is read.
struct Cube {
  std::vector<std::int16_t> counts;
  std::vector<float> targets;
  float weight = 0;
};

inline Cube read_cube(const CosmoData& data, std::int64_t index) {
  Cube cube{std::vector<std::int16_t>(static_cast<std::size_t>(data.sample_elements())),
            std::vector<float>(static_cast<std::size_t>(data.targets().front().count))};
  cube.weight = data.read(
      index, {std::as_writable_bytes(std::span(cube.counts)), {std::as_writable_bytes(std::span(cube.targets))}});
  return cube;
}

/// As a rank opens it that has not looked into the files.
inline CosmoData open_cosmo(const CosmoDataOptions& options, const std::vector<std::string>& files) {
  CosmoIndex index = scan_cosmo(options, expand_files(files, "data.train"));
  return {options, from_bytes<CosmoIndex>(to_bytes(index))};
}

/// Whole cubes with their four labels.
inline CosmoDataOptions whole_cubes(std::int64_t edge = 128) {
  CosmoDataOptions options;
  options.edge = edge;
  options.parameters = {0, 1, 2, 3};
  return options;
}

/// The count at a place: different everywhere within 8^3 x 4.
inline std::int16_t count_at(std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t c) {
  return static_cast<std::int16_t>(((d * 8 + h) * 8 + w) * 4 + c);
}

inline std::vector<std::int16_t> cube_of_places() {
  std::vector<std::int16_t> counts;
  for (int d = 0; d < 8; ++d)
    for (int h = 0; h < 8; ++h)
      for (int w = 0; w < 8; ++w)
        for (int c = 0; c < 4; ++c) counts.push_back(count_at(d, h, w, c));
  return counts;
}

inline const std::vector<float> kLabels = {0.1F, -0.2F, 0.3F, -0.4F};

/// @param labels  name of their data set; empty: none
inline void write_cosmo_hdf5(const std::string& path, const Hdf5Storage& storage,
                             const std::vector<std::int16_t>& counts, const std::string& cube = "x",
                             const std::string& labels = "y") {
  Hdf5File file = Hdf5File::create(path);
  const std::vector<std::int32_t> wide(counts.begin(), counts.end());
  file.write<std::int32_t>(cube, {8, 8, 8, 4}, wide, storage);
  if (!labels.empty()) file.write<float>(labels, {4}, kLabels);
  file.close();
}

}  // namespace petaflow::test
