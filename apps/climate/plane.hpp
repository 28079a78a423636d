// One variable of a frame as a span of (height, width).
#pragma once

#include <span>

#include "climate/frame.hpp"

namespace petaflow::climate {

inline std::span<const float> plane(const Frame& frame, FieldIndex field) {
  const auto pixels = static_cast<std::size_t>(frame.pixels());
  return std::span(frame.fields).subspan(static_cast<std::size_t>(field) * pixels, pixels);
}
inline std::span<float> plane(Frame& frame, FieldIndex field) {
  const auto pixels = static_cast<std::size_t>(frame.pixels());
  return std::span(frame.fields).subspan(static_cast<std::size_t>(field) * pixels, pixels);
}

}  // namespace petaflow::climate
