// Numbers of the JSON files of a run, which may lack them.
#pragma once

#include <cmath>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace petaflow {

/// object[key]; NaN where there is no such number (null stands for one that is not defined).
inline double number_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object()) return NAN;
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : NAN;
}

/// To so many significant digits, more than a plot shows: JSON files become shorter.
inline double rounded(double value, int digits = 4) { return std::stod(fmt::format("{:.{}g}", value, digits)); }

}  // namespace petaflow
