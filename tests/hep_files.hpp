// Small HEP files in every layout, with pixels that say where they belong.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "data/files.hpp"
#include "data/hep.hpp"
#include "io/hdf5.hpp"

namespace petaflow::test {

inline constexpr std::int64_t kEvents = 10, kHeight = 4, kWidth = 6;

/// The value that a file of ours holds at a place; small integers are exact in every type.
inline float value(std::int64_t event, std::int64_t channel, std::int64_t row, std::int64_t column) {
  return static_cast<float>(event * 100 + channel * 40 + row * kWidth + column - 20);
}

inline std::vector<float> column_of(const std::function<float(std::int64_t)>& f, std::int64_t count = kEvents) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(f(i));
  return values;
}

/// Pixels in the order of the axes in `order`: n, c, h, w.
inline std::vector<float> pixels_in(const std::string& order, std::int64_t channels, std::int64_t only_channel = -1) {
  const std::map<char, std::int64_t> sizes = {{'n', kEvents}, {'c', channels}, {'h', kHeight}, {'w', kWidth}};
  std::vector<float> values;
  std::map<char, std::int64_t> at;
  const std::function<void(std::size_t)> walk = [&](std::size_t axis) {
    if (axis == order.size()) {
      values.push_back(value(at['n'], only_channel >= 0 ? only_channel : at['c'], at['h'], at['w']));
      return;
    }
    for (at[order[axis]] = 0; at[order[axis]] < sizes.at(order[axis]); ++at[order[axis]]) walk(axis + 1);
  };
  walk(0);
  return values;
}

inline const auto kLabel = [](std::int64_t i) { return i % 3 == 0 ? 1.0F : 0.0F; };

inline void write_all_events(const std::string& path, const Hdf5Storage& storage = {}) {
  auto file = Hdf5File::create(path);
  const char* const names[] = {"hist", "histEM", "histtrack"};
  for (std::int64_t c = 0; c < 3; ++c) {
    file.write<float>(fmt::format("all_events/{}", names[c]), {kEvents, kHeight, kWidth}, pixels_in("nhw", 1, c),
                      storage);
  }
  file.write<float>("all_events/y", {kEvents}, column_of(kLabel), {Hdf5Type::kF64});
  file.write<float>("all_events/weight", {kEvents}, column_of([](auto i) { return 1.0F + static_cast<float>(i); }));
  for (const char* name : {"passSR", "passSR4J", "passSR5J"}) {
    const bool any = std::string(name) == "passSR";
    file.write<float>(fmt::format("all_events/{}", name), {kEvents},
                      column_of([any](auto i) { return i == 2 || (any && i == 4) ? 1.0F : 0.0F; }), {Hdf5Type::kU8});
  }
}

inline void write_images(const std::string& path, const std::string& order) {
  auto file = Hdf5File::create(path);
  const std::vector<std::int64_t> dims = order == "nchw" ? std::vector<std::int64_t>{kEvents, 3, kHeight, kWidth}
                                                         : std::vector<std::int64_t>{kEvents, kHeight, kWidth, 3};
  file.write<float>("all_events/images_val", dims, pixels_in(order, 3), {Hdf5Type::kF16, {4, 1, 2, 2}, 2});
  file.write<float>("all_events/labels_val", {kEvents}, column_of(kLabel));
  file.write<float>("all_events/weights_val", {kEvents}, column_of([](auto) { return 2.0F; }));
}

inline void write_sc17(const std::string& path, std::int64_t rows = kHeight) {
  auto file = Hdf5File::create(path);
  std::vector<float> pixels = pixels_in("nchw", 3);
  pixels.resize(static_cast<std::size_t>(kEvents * 3 * rows * kWidth));
  file.write<float>("data", {kEvents, 3, rows, kWidth}, pixels);
  file.write<float>("label", {kEvents}, column_of(kLabel), {Hdf5Type::kI32});
  file.write<float>("weight", {kEvents}, column_of([](auto) { return 8.0F; }));
  file.write<float>("normweight", {kEvents}, column_of([](auto i) { return i < 5 ? 0.25F : 0.5F; }));
  file.write<float>("psr", {kEvents}, column_of([](auto i) { return i == 7 ? 1.0F : 0.0F; }), {Hdf5Type::kI32});
}

inline void write_class_file(const std::string& path, const std::vector<float>& pixels) {
  auto file = Hdf5File::create(path);
  file.write<float>("towers", {static_cast<std::int64_t>(pixels.size()) / (kHeight * kWidth), kHeight, kWidth}, pixels);
}

inline SampleRange all_of(const Dataset& data) { return {0, data.size()}; }

/// A set as one rank alone opens and completes it.
inline HepData open_hep(const HepDataOptions& options, const std::vector<std::string>& files,
                        const std::string& what = "data.train") {
  HepData data(options, scan_hep(options, expand_files(files, what)));
  if (data.in_memory()) data.load(all_of(data));
  if (data.wants_maxima()) data.set_maxima(channel_maxima(data, all_of(data)));
  return data;
}

}  // namespace petaflow::test
