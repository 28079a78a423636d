// Numbers that no variable can have: NaN, infinities, and what stands in files where there is no value.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "climate/frame_file.hpp"

namespace petaflow::climate {

/// Whether a number is a value: finite, below 1e15 (MERRA-2 fills with 1e15, CMIP with 1e20, CAM with 1e36, netCDF with
/// 9.97e36), and none of the whole numbers that are used for gaps.
inline bool is_value(float x) {
  return (std::abs(x) < 1e15F) & (x != -9999.0F) & (x != -32767.0F) & (x != -32768.0F);  // of NaN the first is false
}

/// Throws a user error where a number of some variables of a frame is no value, naming file, variable, the first such
/// pixel, and how many there are.
/// @param raw  what file.read_fields gave for the same frame and variables
void check_values(const FrameFile& file, std::int64_t frame, std::span<const int> fields, const RawFields& raw);

}  // namespace petaflow::climate
