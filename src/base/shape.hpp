// Sizes of tensors.  Written (N, C, D, H, W) for people; in memory channels are last: (N, D, H, W, C).
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace petaflow {

/// A size, position or distance in the three spatial directions; two dimensions have d = 1 (sizes) or 0 (distances).
struct Extent {
  std::int64_t d = 1, h = 1, w = 1;

  constexpr std::int64_t volume() const { return d * h * w; }
  bool operator==(const Extent&) const = default;
};

/// The shape of a tensor.
struct Shape {
  std::int64_t n = 1, c = 1, d = 1, h = 1, w = 1;

  constexpr Extent extent() const { return {d, h, w}; }
  constexpr std::int64_t pixels() const { return d * h * w; }          // of one sample
  constexpr std::int64_t sample_size() const { return c * pixels(); }  // elements of one sample
  constexpr std::int64_t elements() const { return n * sample_size(); }
  constexpr Shape with_batch(std::int64_t batch) const { return {batch, c, d, h, w}; }
  bool operator==(const Shape&) const = default;
};

/// "2x3x3" for three dimensions, "3x3" where d is 1.
inline std::string to_string(const Extent& e) {
  return e.d == 1 ? fmt::format("{}x{}", e.h, e.w) : fmt::format("{}x{}x{}", e.d, e.h, e.w);
}

/// "128x112x112": channels and extent of one sample.
inline std::string sample_to_string(const Shape& s) { return fmt::format("{}x{}", s.c, to_string(s.extent())); }

/// "(8, 128, 112, 112)", with D where it is not 1.
inline std::string to_string(const Shape& s) {
  return s.d == 1 ? fmt::format("({}, {}, {}, {})", s.n, s.c, s.h, s.w)
                  : fmt::format("({}, {}, {}, {}, {})", s.n, s.c, s.d, s.h, s.w);
}

}  // namespace petaflow
