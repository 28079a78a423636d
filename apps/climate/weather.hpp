// Synthetic weather in the 16 variables of CAM5, with labels and boxes that follow from how it was made.
#pragma once

#include <cstdint>
#include <string>

#include "climate/frame.hpp"

namespace petaflow::climate {

struct WeatherOptions {
  std::int64_t series_steps = 1;  // frames, 3 h apart, in which the same weather moves on; 1: each frame is another day
};

/// Throws a user error naming the option below `generate`.
void check(const WeatherOptions& options);

/// Moment of frame `index`: "1979-01-31T03:00:00"; later ones have larger indices.
std::string weather_time(const WeatherOptions& options, std::int64_t index);

/// Frame `index`: step index mod series_steps of a series.  Every series begins a few days after the one before, so
/// that 75 and more see all seasons.  A function of its arguments alone: the same bits on any thread and rank; the
/// structure is in degrees, so that a finer grid shows the same weather.
Frame weather_frame(const WeatherOptions& options, const Grid& grid, std::uint64_t seed, std::int64_t index);

}  // namespace petaflow::climate
