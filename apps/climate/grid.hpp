// Grids of latitudes and longitudes, and distances on the Earth.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace petaflow::climate {

inline constexpr double kEarthRadiusKm = 6371.0;  // of the sphere of equal volume

/// Coordinates of rows and columns, in degrees.
struct Grid {
  std::vector<double> latitude;   // (H), ascending
  std::vector<double> longitude;  // (W), ascending from 0 eastward; the last column's neighbour is the first

  std::int64_t height() const { return std::ssize(latitude); }
  std::int64_t width() const { return std::ssize(longitude); }
  bool operator==(const Grid&) const = default;
};

/// "latitude 3 is 10.5, but 11" where one of the coordinates is not what was expected, "it has 96 latitudes, but 48";
/// empty where all are, to a thousandth of a degree: some files have theirs in f32.
std::string difference(const Grid& found, const Grid& expected);

/// The grid of CAM5 (768 x 1152 in the published sets) at any size: latitudes from -90 to 90 with both poles,
/// longitudes 0, 360 / width, ...  Throws a user error below 2 x 1.
Grid cam5_grid(std::int64_t height, std::int64_t width);

/// Length of the great circle between two points in degrees (haversine formula, exact for near points too).
double distance_km(double lat1, double lon1, double lat2, double lon2);

}  // namespace petaflow::climate
