#include "report/png.hpp"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.hpp"

namespace petaflow {
namespace {

void put_u32(std::string& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 0xFF);
}

void put_chunk(std::string& png, const std::string& type, const std::string& data) {
  put_u32(png, static_cast<std::uint32_t>(data.size()));
  const std::string body = type + data;
  png += body;
  put_u32(png, static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size())));
}

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(bytes.size());
  std::string out(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                               reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(), Z_BEST_COMPRESSION);
  if (status != Z_OK) failure("zlib: compress2 says {}", status);
  out.resize(size);
  return out;
}

}  // namespace

Colour heat_colour(double t) {
  static constexpr double kStops[][3] = {{11, 11, 26},  {43, 20, 90},   {101, 26, 128}, {160, 47, 119},
                                         {215, 78, 88}, {244, 127, 64}, {253, 186, 82}, {252, 244, 186}};
  constexpr int kLast = std::size(kStops) - 1;
  const double at = std::clamp(std::isnan(t) ? 0.0 : t, 0.0, 1.0) * kLast;
  const int below = std::min(static_cast<int>(at), kLast - 1);
  const double part = at - below;
  Colour colour{};
  for (std::size_t c = 0; c < 3; ++c) {
    colour[c] =
        static_cast<std::uint8_t>(std::lround(kStops[below][c] + part * (kStops[below + 1][c] - kStops[below][c])));
  }
  return colour;
}

std::string heat_png(std::span<const float> values, std::int64_t height, std::int64_t width) {
  constexpr std::size_t kColours = 128;  // neighbours differ by less than eyes do; fewer compress better
  std::vector<Colour> colours;
  for (std::size_t i = 0; i < kColours; ++i) colours.push_back(heat_colour(static_cast<double>(i) / (kColours - 1.0)));
  std::vector<std::uint8_t> pixels;
  for (const float value : values) {
    const float t = std::isnan(value) ? 0.0F : std::clamp(value, 0.0F, 1.0F);
    pixels.push_back(static_cast<std::uint8_t>(std::lround(t * (kColours - 1))));
  }
  return class_png(pixels, height, width, colours);
}

std::string class_png(std::span<const std::uint8_t> classes, std::int64_t height, std::int64_t width,
                      std::span<const Colour> colours) {
  PETAFLOW_REQUIRE(height > 0 && width > 0 && std::ssize(classes) == height * width, "{} values for {} x {} pixels",
                   classes.size(), height, width);
  std::string head;
  put_u32(head, static_cast<std::uint32_t>(width));
  put_u32(head, static_cast<std::uint32_t>(height));
  head += std::string("\x08\x03\0\0\0", 5);  // 8 bits, palette, deflate, filters, not interlaced
  std::string palette;
  for (const Colour& colour : colours) {
    for (const std::uint8_t part : colour) palette += static_cast<char>(part);
  }
  std::string rows;
  for (std::int64_t row = 0; row < height; ++row) {
    rows += '\0';  // no filter
    for (std::int64_t column = 0; column < width; ++column) {
      const std::uint8_t c = classes[static_cast<std::size_t>(row * width + column)];
      PETAFLOW_REQUIRE(c < colours.size(), "class {} of {} colours", c, colours.size());
      rows += static_cast<char>(c);
    }
  }
  std::string png = "\x89PNG\r\n\x1a\n";
  put_chunk(png, "IHDR", head);
  put_chunk(png, "PLTE", palette);
  put_chunk(png, "IDAT", deflated(rows));
  put_chunk(png, "IEND", "");
  return png;
}

std::string png_uri(const std::string& png) { return "data:image/png;base64," + base64(png); }

std::string base64(const std::string& bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t word = 0;
    for (std::size_t b = 0; b < 3; ++b) word = word << 8 | (b < count ? static_cast<std::uint8_t>(bytes[i + b]) : 0U);
    for (std::size_t d = 0; d < 4; ++d) text += d <= count ? kDigits[word >> (18 - 6 * d) & 63] : '=';
  }
  return text;
}

}  // namespace petaflow
