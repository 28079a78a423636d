#include "climate/extreme_weather_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <regex>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "climate/calendar.hpp"

namespace petaflow::climate {
namespace {

constexpr const char* kImages = "images";
constexpr const char* kBoxes = "boxes";
constexpr std::array<const char*, 5> kColumns = {"ymin", "xmin", "ymax", "xmax", "class"};
constexpr std::int64_t kBoxNumbers = kColumns.size();

/// Numbers of the 16 variables in alphabetical order.
std::array<int, kFields.size()> alphabetical() {
  std::array<int, kFields.size()> order;
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [](int f) { return kFields[static_cast<std::size_t>(f)].name; });
  return order;
}

/// Adds the row of a box, in whole pixels around it; one that goes on at column 0 is two in this layout.
void add_rows(const Box& box, std::int64_t width, std::vector<float>& rows) {
  const float ymin = std::floor(box.ymin), ymax = std::ceil(box.ymax), xmin = std::floor(box.xmin),
              xmax = std::ceil(box.xmax), edge = static_cast<float>(width), kind = static_cast<float>(box.kind);
  rows.insert(rows.end(), {ymin, xmin, ymax, std::min(xmax, edge), kind});
  if (xmax > edge) rows.insert(rows.end(), {ymin, 0, ymax, xmax - edge, kind});
}

std::array<std::size_t, 5> find_columns(const std::vector<std::string>& names) {
  std::array<std::size_t, 5> columns{};
  for (std::size_t i = 0; i < kColumns.size(); ++i) {
    const auto found = std::ranges::find(names, kColumns[i]);
    if (names.size() != kColumns.size() || found == names.end()) {
      user_error("data.box_columns is {}; each of {} was expected once", fmt::join(names, ", "),
                 fmt::join(kColumns, ", "));
    }
    columns[i] = static_cast<std::size_t>(found - names.begin());
  }
  return columns;
}

}  // namespace

ExtremeWeatherFile::ExtremeWeatherFile(const std::string& path, const FrameFileOptions& options)
    : FrameFile(path),
      file_(Hdf5File::open(path)),
      images_(file_.dataset(kImages)),
      columns_(find_columns(options.box_columns)) {
  const std::vector<std::int64_t>& dims = images_.info().dims;
  if (dims.size() != 4 || dims[1] != kFieldCount || std::ranges::find(dims, 0) != dims.end()) {
    user_error("{}: {} is {}; (n, {}, H, W) was expected", path, kImages, images_.info().text(), kFieldCount);
  }
  grid_ = cam5_grid(dims[2], dims[3]);
  const auto order = alphabetical();
  for (std::size_t i = 0; i < order.size(); ++i) {
    place_[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  }
  if (!file_.has(kBoxes)) return;
  boxes_ = file_.dataset(kBoxes);
  const Hdf5Info& info = boxes_->info();
  if (info.dims.size() != 3 || info.dims[0] != dims[0] || info.dims[2] != kBoxNumbers) {
    user_error("{}: {} is {}; ({}, most, {}) was expected", path, kBoxes, info.text(), dims[0], kBoxNumbers);
  }
}

std::vector<Box> ExtremeWeatherFile::read_boxes(std::int64_t frame) const {
  if (!boxes_) return FrameFile::read_boxes(frame);
  std::vector<float> rows(static_cast<std::size_t>(boxes_->info().row_elements()));
  boxes_->read<float>(frame, 1, rows);
  std::vector<Box> boxes;
  const auto height = static_cast<float>(grid_.height()), width = static_cast<float>(grid_.width());
  for (std::size_t at = 0; at < rows.size(); at += kColumns.size()) {
    const auto row = std::span(rows).subspan(at, kColumns.size());
    if (std::ranges::all_of(row, [](float x) { return x == -1; })) continue;
    const float kind = row[columns_[4]];
    Box box{row[columns_[0]], row[columns_[1]], row[columns_[2]], row[columns_[3]]};
    const bool inside = 0 <= box.ymin && box.ymin < box.ymax && box.ymax <= height && 0 <= box.xmin &&
                        box.xmin < box.xmax && box.xmax <= width;
    if (!inside || !(kind >= 0 && kind < kBoxKinds.size()) || kind != std::floor(kind)) {
      user_error(
          "{}: box {} of frame {} has rows {} to {}, columns {} to {} and class {}; frames are of {} x {} pixels, "
          "classes 0 to {} (data.box_columns says what the numbers {} stand for)",
          path(), at / kColumns.size(), frame, box.ymin, box.ymax, box.xmin, box.xmax, kind, height, width,
          kBoxKinds.size() - 1, fmt::join(row, ", "));
    }
    box.kind = static_cast<std::int32_t>(kind);
    boxes.push_back(box);
  }
  return boxes;
}

std::string ExtremeWeatherFile::time(std::int64_t frame) const {
  static const std::regex of_year("climo_([0-9]{4})\\.h5");
  const std::string name = std::filesystem::path(path()).filename().string();
  std::smatch found;
  if (!std::regex_match(name, found, of_year) || frames() != 4 * 365)
    return frames() == 1 ? FrameFile::time(frame) : "";
  const TimeUnits units(fmt::format("hours since {}-01-01", found[1].str()), "noleap", path());
  return units.text(6 * static_cast<double>(frame));
}

void ExtremeWeatherFile::read_places(std::int64_t frame, std::span<const std::int64_t> places, RawFields& raw) const {
  raw.step = 1;
  raw.values.resize(static_cast<std::size_t>(images_.info().row_elements()));
  images_.read<float>(frame, 1, raw.values);
  raw.first.assign(places.begin(), places.end());
  for (std::int64_t& first : raw.first) first *= pixels();
}

void write_extreme_weather(const std::string& path, std::span<const Frame> frames, std::int64_t most) {
  PETAFLOW_REQUIRE(!frames.empty(), "{}: no frame to write", path);
  const std::int64_t height = frames.front().grid.height(), width = frames.front().grid.width();
  const auto order = alphabetical();
  write_hdf5_atomically(path, [&](Hdf5File& file) {
    Hdf5Dataset images = file.create_dataset(kImages, {std::ssize(frames), kFieldCount, height, width});
    std::vector<float> boxes, values;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const Frame& frame = frames[i];
      PETAFLOW_REQUIRE(frame.grid.height() == height && frame.grid.width() == width, "{}: frame {} of another size",
                       path, i);
      values.clear();
      for (const int field : order) {
        const auto first = frame.fields.begin() + field * frame.pixels();
        values.insert(values.end(), first, first + frame.pixels());
      }
      images.write<float>(static_cast<std::int64_t>(i), 1, values);
      std::vector<float> rows;
      for (const Box& box : frame.boxes) add_rows(box, width, rows);
      if (std::ssize(rows) > most * kBoxNumbers) {
        user_error("{}: frame {} has {} boxes, the file takes {}", path, i, std::ssize(rows) / kBoxNumbers, most);
      }
      rows.resize(static_cast<std::size_t>(most * kBoxNumbers), -1);
      boxes.insert(boxes.end(), rows.begin(), rows.end());
    }
    file.write<float>(kBoxes, {std::ssize(frames), most, kBoxNumbers}, boxes, {Hdf5Type::kI32});
  });
}

}  // namespace petaflow::climate
