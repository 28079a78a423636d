#include "climate/grid.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace petaflow::climate {

Grid cam5_grid(std::int64_t height, std::int64_t width) {
  if (height < 2 || width < 1) user_error("a grid of {} x {} has no two poles; at least 2 x 1", height, width);
  Grid grid;
  for (std::int64_t row = 0; row < height; ++row) {  // mirror images of each other about the equator, to the last bit
    const auto from_south = static_cast<double>(2 * row - (height - 1));
    grid.latitude.push_back(90 * from_south / static_cast<double>(height - 1));
  }
  for (std::int64_t column = 0; column < width; ++column) {
    grid.longitude.push_back(360 * static_cast<double>(column) / static_cast<double>(width));
  }
  return grid;
}

std::string difference(const Grid& found, const Grid& expected) {
  constexpr double kNear = 1e-3;
  const auto of_axis = [](const char* what, const std::vector<double>& a, const std::vector<double>& b) -> std::string {
    if (a.size() != b.size()) return fmt::format("it has {} {}s, but {}", a.size(), what, b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!(std::abs(a[i] - b[i]) < kNear)) return fmt::format("{} {} is {}, but {}", what, i, a[i], b[i]);
    }
    return "";
  };
  const std::string latitude = of_axis("latitude", found.latitude, expected.latitude);
  return latitude.empty() ? of_axis("longitude", found.longitude, expected.longitude) : latitude;
}

double distance_km(double lat1, double lon1, double lat2, double lon2) {
  constexpr double kRadians = std::numbers::pi / 180;
  const double across = std::sin(kRadians * (lat2 - lat1) / 2), along = std::sin(kRadians * (lon2 - lon1) / 2);
  const double h = across * across + std::cos(kRadians * lat1) * std::cos(kRadians * lat2) * along * along;
  return 2 * kEarthRadiusKm * std::asin(std::sqrt(std::min(1.0, h)));
}

}  // namespace petaflow::climate
