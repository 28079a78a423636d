// The 16 variables of a frame in DeepCAM's order, as CAM5 names them, and the classes of its pixels.
// Sources: MLPerf HPC DeepCAM and ClimateNet (order, classes), CAM5's history fields (names, units), the CF table of
// standard names (https://cfconventions.org/standard-names.html).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace petaflow::climate {

/// A variable: `name` as CAM5 writes it, the others as CF wants them in files that we write.
struct Field {
  std::string_view name, units, standard_name, long_name;
};

inline constexpr std::array<Field, 16> kFields = {{
    {"TMQ", "kg m-2", "atmosphere_mass_content_of_water_vapor", "Total precipitable water"},
    {"U850", "m s-1", "eastward_wind", "Zonal wind at 850 hPa"},
    {"V850", "m s-1", "northward_wind", "Meridional wind at 850 hPa"},
    {"UBOT", "m s-1", "eastward_wind", "Zonal wind at the lowest model level"},
    {"VBOT", "m s-1", "northward_wind", "Meridional wind at the lowest model level"},
    {"QREFHT", "kg kg-1", "specific_humidity", "Specific humidity at reference height"},
    {"PS", "Pa", "surface_air_pressure", "Surface pressure"},
    {"PSL", "Pa", "air_pressure_at_mean_sea_level", "Sea-level pressure"},
    {"T200", "K", "air_temperature", "Temperature at 200 hPa"},
    {"T500", "K", "air_temperature", "Temperature at 500 hPa"},
    {"PRECT", "m s-1", "lwe_precipitation_rate", "Total precipitation rate"},
    {"TS", "K", "surface_temperature", "Surface temperature"},
    {"TREFHT", "K", "air_temperature", "Temperature at reference height"},
    {"Z1000", "m", "geopotential_height", "Geopotential height at 1000 hPa"},
    {"Z200", "m", "geopotential_height", "Geopotential height at 200 hPa"},
    {"ZBOT", "m", "height", "Height of the lowest model level"},
}};

/// Places in kFields.
enum FieldIndex : int {
  kTmq,
  kU850,
  kV850,
  kUbot,
  kVbot,
  kQrefht,
  kPs,
  kPsl,
  kT200,
  kT500,
  kPrect,
  kTs,
  kTrefht,
  kZ1000,
  kZ200,
  kZbot
};
inline constexpr auto kFieldCount = static_cast<std::int64_t>(kFields.size());

/// The place of a variable in kFields.  Throws a user error that names the nearest one.
int field_index(std::string_view name, std::string_view option = {});

/// Class of a pixel.
enum class Tag : std::uint8_t { kBackground, kCyclone, kRiver };
inline constexpr std::array<std::string_view, 3> kTagNames = {"background", "tc", "ar"};

}  // namespace petaflow::climate
