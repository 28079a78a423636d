#include "climate/frame_check.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace petaflow::climate {
namespace {

[[noreturn]] void refuse(const FrameFile& file, std::int64_t frame, int field, const float* plane, std::int64_t step) {
  const std::int64_t width = file.grid().width(), pixels = file.grid().height() * width;
  std::int64_t bad = 0, first = 0;
  for (std::int64_t p = pixels - 1; p >= 0; --p) {
    if (is_value(plane[p * step])) continue;
    ++bad;
    first = p;
  }
  const float x = plane[first * step];
  user_error(
      "{0}{1}: {2} of {3} numbers of {4} are no values (NaN, infinite or a fill value): the first is {5} at row {6}, "
      "column {7}; fill the gaps, or leave {4} out of data.channels",
      file.path(), file.frames() > 1 ? fmt::format(", frame {}", frame) : "", bad, pixels,
      kFields[static_cast<std::size_t>(field)].name, std::isnan(x) ? std::abs(x) : x, first / width, first % width);
}

}  // namespace

void check_values(const FrameFile& file, std::int64_t frame, std::span<const int> fields, const RawFields& raw) {
  int bad = 0;  // of all that was read, other variables too, in one loop that becomes vector instructions as int alone
  for (const float x : raw.values) bad |= is_value(x) ? 0 : 1;
  if (bad == 0) return;
  const std::int64_t pixels = file.grid().height() * file.grid().width();
  for (std::size_t k = 0; k < fields.size(); ++k) {
    const float* const plane = raw.values.data() + raw.first[k];
    bool good = true;
    for (std::int64_t p = 0; p < pixels; ++p) good &= is_value(plane[p * raw.step]);
    if (!good) refuse(file, frame, fields[k], plane, raw.step);
  }
}

}  // namespace petaflow::climate
