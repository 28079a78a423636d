#include "climate/cf_grid.hpp"

#include <algorithm>
#include <cmath>
#include <regex>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "climate/frame_time.hpp"

namespace petaflow::climate {
namespace {

std::string text_of(const std::vector<NetcdfDimension>& dimensions) {
  std::vector<std::string> names;
  for (const NetcdfDimension& dimension : dimensions)
    names.push_back(fmt::format("{} = {}", dimension.name, dimension.size));
  return fmt::format("({})", fmt::join(names, ", "));
}

/// In [0, 360); what is below a full circle by rounding is 0.
double wrapped(double longitude) { return std::max(0.0, longitude - 360 * std::floor(longitude / 360 + 1e-12)); }

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  return std::ranges::equal(a, b, [](double x, double y) { return std::abs(x - y) < 1e-6; });
}

}  // namespace

CfVariables::CfVariables(const std::string& path, std::vector<std::string> names)
    : file_(path), names_(std::move(names)) {
  for (const std::string& name : names_) {
    std::vector<NetcdfDimension> dims = file_.dimensions(name);
    const bool one_level =
        dims.size() < 4 ||
        std::all_of(dims.begin() + 1, dims.end() - 2, [](const NetcdfDimension& d) { return d.size == 1; });
    if (file_.is_text(name) || dims.size() < 2 || !one_level) {
      user_error("{}: {} {} is no field; numbers (lat, lon), (time, lat, lon) or those of one level were expected",
                 path, name, text_of(dims));
    }
    const std::size_t count = dims.size();
    const Axis latitude = read_axis(name, dims[count - 2], 'n'), longitude = read_axis(name, dims[count - 1], 'e');
    if (dimensions_.empty()) {
      latitude_ = latitude;
      longitude_ = longitude;
    } else if (!same(latitude.values, latitude_.values) || !same(longitude.values, longitude_.values)) {
      user_error("{}: {} {} and {} {} have different coordinates", path, names_.front(), text_of(dimensions_.front()),
                 name, text_of(dims));
    }
    if (count > 2 && !time_) {
      time_ = dims[0];
      set_time(dims[0].name);
    } else if (count > 2 && dims[0] != *time_) {
      user_error("{}: {} {} is of other moments than {} {}", path, name, text_of(dims), names_.front(),
                 text_of(dimensions_.front()));
    }
    dimensions_.push_back(std::move(dims));
  }
  if (frames() < 1) user_error("{}: {} has no moment", path, names_.front());
  if (!time_ && file_.has("time")) set_time("time");  // a coordinate without dimension
  set_grid();
}

CfVariables::Axis CfVariables::read_axis(const std::string& variable, const NetcdfDimension& dimension,
                                         char direction) const {
  const std::string& name = dimension.name;
  const std::string word = direction == 'n' ? "latitude" : "longitude";
  const std::string where = fmt::format("{}: {} of {}", file_.path(), name, variable);
  if (!file_.has(name) || file_.is_text(name) || file_.dimensions(name) != std::vector{dimension}) {
    user_error("{} has no coordinates; a variable {}({}) of {}s was expected", where, name, name, word);
  }
  const std::string units = file_.text_attribute(name, "units").value_or("");
  static const std::regex north("degrees?_?n(orth)?", std::regex::icase), east("degrees?_?e(ast)?", std::regex::icase);
  if (units.empty() ? !name.starts_with(word.substr(0, 3))
                    : !std::regex_match(units, direction == 'n' ? north : east)) {
    user_error("{} has the units \"{}\"; degrees of {} were expected as the {} dimension", where, units, word,
               direction == 'n' ? "last but one" : "last");
  }
  Axis axis{dimension, file_.read(name)};
  for (const double x : axis.values) {
    const double most = direction == 'n' ? 90.001 : 720;
    if (!(std::abs(x) <= most)) user_error("{} has the value {}, which is no {}", where, x, word);
  }
  if (axis.values.size() < 2) user_error("{} has {} values; at least two were expected", where, axis.values.size());
  return axis;
}

void CfVariables::set_grid() {
  grid_.latitude = latitude_.values;
  from_north_ = grid_.latitude.front() > grid_.latitude.back();
  if (from_north_) std::ranges::reverse(grid_.latitude);
  std::ranges::transform(longitude_.values, std::back_inserter(grid_.longitude), wrapped);
  const auto first = std::ranges::min_element(grid_.longitude);
  first_column_ = static_cast<std::size_t>(first - grid_.longitude.begin());
  std::ranges::rotate(grid_.longitude, first);
  const auto not_above = [](double a, double b) { return !(a < b); };
  for (const auto* axis : {&grid_.latitude, &grid_.longitude}) {
    if (std::ranges::adjacent_find(*axis, not_above) == axis->end()) continue;
    const Axis& found = axis == &grid_.latitude ? latitude_ : longitude_;
    user_error("{}: the coordinates {} from {} to {} do not run in one direction without repeating", file_.path(),
               found.dimension.name, found.values.front(), found.values.back());
  }
  double step = 0;
  for (std::size_t i = 1; i < grid_.longitude.size(); ++i) {
    step = std::max(step, grid_.longitude[i] - grid_.longitude[i - 1]);
  }
  const double gap = grid_.longitude.front() + 360 - grid_.longitude.back();
  const double usual = 360 / static_cast<double>(grid_.width());
  if (gap > 1.5 * usual || step > 1.5 * usual) {
    user_error("{}: the longitudes {} from {} to {} do not go round the Earth in even steps; a global field is needed",
               file_.path(), longitude_.dimension.name, longitude_.values.front(), longitude_.values.back());
  }
}

void CfVariables::set_time(const std::string& dimension) {
  if (!file_.has(dimension)) return;
  if (file_.is_text(dimension)) {
    time_texts_ = file_.read_texts(dimension);
    return;
  }
  const auto units = file_.text_attribute(dimension, "units");
  if (!units) return;
  if (const auto calendar = file_.text_attribute(dimension, "calendar"); calendar && !calendar->empty())
    calendar_ = *calendar;
  units_.emplace(*units, calendar_, fmt::format("{}: {}", file_.path(), dimension));
  times_ = file_.read(dimension);
}

std::string CfVariables::time(std::int64_t frame) const {
  const auto i = static_cast<std::size_t>(frame);
  if (units_ && i < times_.size()) return units_->text(times_[i]);
  std::string by_name = time_of_file(file_.path());
  if (i >= time_texts_.size()) return by_name;
  std::string from_text = time_of_file(time_texts_[i]);  // ClimateNet: the name of the file
  return from_text.empty() ? by_name : from_text;
}

void CfVariables::read(std::size_t k, std::int64_t frame, std::span<float> plane) const {
  const std::vector<NetcdfDimension>& dims = dimensions_.at(k);
  const auto height = static_cast<std::size_t>(grid_.height()), width = static_cast<std::size_t>(grid_.width());
  std::vector<std::int64_t> first(dims.size(), 0), count(dims.size(), 1);
  if (dims.size() > 2) first[0] = frame;
  count[dims.size() - 2] = grid_.height();
  count[dims.size() - 1] = grid_.width();
  std::vector<float> stored(height * width);
  file_.read(names_[k], first, count, stored);
  for (std::size_t row = 0; row < height; ++row) {
    const auto from = stored.begin() + static_cast<std::int64_t>((from_north_ ? height - 1 - row : row) * width);
    std::rotate_copy(from, from + static_cast<std::int64_t>(first_column_), from + static_cast<std::int64_t>(width),
                     plane.begin() + static_cast<std::int64_t>(row * width));
  }
}

}  // namespace petaflow::climate
