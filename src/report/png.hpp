// Small pictures for a page: an array of numbers as a PNG with a colour scale (ISO/IEC 15948), inline.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace petaflow {

using Colour = std::array<std::uint8_t, 3>;  // sRGB

/// From near black over violet and orange to pale yellow, even in lightness; t in [0, 1].
Colour heat_colour(double t);

/// An 8-bit palette PNG of (height, width) values in [0, 1] (others are clamped) by heat_colour, first row on top.
std::string heat_png(std::span<const float> values, std::int64_t height, std::int64_t width);

/// An 8-bit palette PNG of (height, width) classes, each in its colour, first row on top.
std::string class_png(std::span<const std::uint8_t> classes, std::int64_t height, std::int64_t width,
                      std::span<const Colour> colours);

/// "data:image/png;base64,..."
std::string png_uri(const std::string& png);

/// RFC 4648, with padding.
std::string base64(const std::string& bytes);

}  // namespace petaflow
