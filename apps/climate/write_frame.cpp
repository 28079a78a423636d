// The writer of DeepCAM's layout.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "climate/frame_file.hpp"
#include "io/hdf5.hpp"

namespace petaflow::climate {
namespace {

/// Mean, largest, smallest and standard deviation of some numbers, the order of the published files.
std::array<float, 4> summary(std::span<const float> values) {
  const auto count = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const float x : values) sum += x;
  const double mean = sum / count;
  for (const float x : values) squares += (x - mean) * (x - mean);
  const auto [low, high] = std::ranges::minmax(values);
  return {static_cast<float>(mean), high, low, static_cast<float>(std::sqrt(squares / count))};
}

void write_fields(Hdf5File& file, const Frame& frame) {
  const auto pixels = static_cast<std::size_t>(frame.pixels());
  constexpr std::size_t kCount = kFields.size();
  std::vector<float> data(kCount * pixels), statistics(4 * kCount);
  for (std::size_t c = 0; c < kCount; ++c) {
    const auto plane = std::span(frame.fields).subspan(c * pixels, pixels);
    for (std::size_t p = 0; p < pixels; ++p) data[p * kCount + c] = plane[p];
    const auto numbers = summary(plane);
    for (std::size_t i = 0; i < 4; ++i) statistics[i * kCount + c] = numbers[i];
  }
  file.write<float>("climate/data", {frame.grid.height(), frame.grid.width(), kFieldCount}, data);
  file.write<float>("climate/data_stats", {4, kFieldCount}, statistics);
}

void write_labels(Hdf5File& file, const Frame& frame) {
  const std::vector<float> labels(frame.labels.begin(), frame.labels.end());
  const auto numbers = summary(labels);
  std::vector<float> statistics(numbers.begin(), numbers.end());
  for (std::size_t tag = 0; tag < kTagNames.size(); ++tag) {
    statistics.push_back(
        static_cast<float>(static_cast<double>(std::ranges::count(frame.labels, static_cast<std::uint8_t>(tag))) /
                           static_cast<double>(frame.pixels())));
  }
  file.write<float>("climate/labels_0", {frame.grid.height(), frame.grid.width()}, labels);
  file.write<float>("climate/labels_0_stats", {std::ssize(statistics), 1}, statistics);
}

}  // namespace

void write_frame(const std::string& path, const Frame& frame) {
  const std::int64_t pixels = frame.pixels();
  PETAFLOW_REQUIRE(pixels > 0 && std::ssize(frame.fields) == kFieldCount * pixels, "{}: {} numbers for {} x {} pixels",
                   path, frame.fields.size(), frame.grid.height(), frame.grid.width());
  PETAFLOW_REQUIRE(frame.labels.empty() || std::ssize(frame.labels) == pixels, "{}: {} labels for {} pixels", path,
                   frame.labels.size(), pixels);
  write_hdf5_atomically(path, [&](Hdf5File& file) {
    write_fields(file, frame);
    if (!frame.labels.empty()) write_labels(file, frame);
    if (!frame.time.empty()) file.set_attribute("climate", "time", frame.time);
  });
}

}  // namespace petaflow::climate
