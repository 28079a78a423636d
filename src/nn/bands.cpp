#include "nn/bands.hpp"

#include <algorithm>
#include <numeric>

#include <unistd.h>

#include "base/error.hpp"
#include "kernels/register_blocks.hpp"

namespace petaflow {

namespace {

bool same_box(const ConvDesc& a, const ConvDesc& b) {
  return a.n == b.n && a.in == b.in && a.out == b.out && a.geometry.pad_begin == b.geometry.pad_begin &&
         a.geometry.pad_end == b.geometry.pad_end && a.x_strides == b.x_strides && a.y_strides == b.y_strides;
}

}  // namespace

std::int64_t level2_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  const std::int64_t cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
  const std::int64_t cache = 0;
#endif
  return cache > 0 ? cache : std::int64_t{1} << 20;
}

std::int64_t Bands::largest_v_bytes() const {
  std::int64_t largest = 0;
  for (const ConvDesc& shape : shapes) {
    largest = std::max(
        largest, shape.n * shape.out.volume() * shape.out_channels * static_cast<std::int64_t>(size_of(shape.type)));
  }
  return largest;
}

BandCutter::BandCutter(const ConvDesc& conv, const Epilogue& epilogue, int slots, const KernelOptions& kernels)
    : conv_(conv),
      epilogue_(epilogue),
      slots_(slots),
      budget_bytes_(kernels.cache_share * static_cast<double>(level2_bytes())),
      bands_(kernels.bands && kOnHost) {
  const bool transforms = conv_impls(Pass::kForward, conv.type, conv.split).front().scope == ConvScope::kTransform;
  if ((kernels.conv == "auto" && transforms) || kernels.conv == "winograd") preferred_ = winograd_rows(conv);
  const ConvGeometry& g = conv.geometry;
  const bool deep = conv.out.d > 1 || conv.in.d > 1;
  rows_ = deep ? Direction{conv.in.d, conv.out.d, g.kernel.d, g.stride.d, g.dilation.d, g.pad_begin.d}
               : Direction{conv.in.h, conv.out.h, g.kernel.h, g.stride.h, g.dilation.h, g.pad_begin.h};
  // Rows of v run along D only where v has several planes (the epilogue counts them so).
  bands_ = bands_ && deep == (conv.out.d > 1);
  v_row_bytes_ = conv.out.volume() / rows_.out * conv.out_channels * static_cast<std::int64_t>(size_of(conv.type));
}

RowRange BandCutter::x_under(const RowRange& v) const {
  RowRange x = v;
  x.begin = std::max<std::int64_t>(0, v.begin * rows_.stride - rows_.pad);
  x.end = std::min(rows_.in, (v.end - 1) * rows_.stride - rows_.pad + (rows_.kernel - 1) * rows_.dilation + 1);
  return x;
}

ConvDesc BandCutter::describe(const BandBox& box) const {
  ConvDesc desc = conv_;
  desc.n = box.x.samples();
  desc.threads = 1;
  const bool deep = conv_.in.d > 1 || conv_.out.d > 1;
  (deep ? desc.in.d : desc.in.h) = box.x.rows();
  (deep ? desc.out.d : desc.out.h) = box.v.rows();
  const std::int64_t pad_begin = rows_.pad + box.x.begin - box.v.begin * rows_.stride;
  (deep ? desc.geometry.pad_begin.d : desc.geometry.pad_begin.h) = pad_begin;
  (deep ? desc.geometry.pad_end.d : desc.geometry.pad_end.h) =
      (box.v.rows() - 1) * rows_.stride + (rows_.kernel - 1) * rows_.dilation + 1 - pad_begin - box.x.rows();
  desc.y_strides = Strides::of(desc.out, desc.out_channels);
  return desc;
}

// Cuts `rows` of each sample into bands of equal height (as preferred) whose v fits the budget; small samples are
// grouped instead.  One whole box where there would be too few boxes to keep the threads of its kernel busy.
template <class MakeBox>
Bands BandCutter::cut(std::int64_t rows, const BoxRows& preferred, double v_bytes_per_row, MakeBox&& make_box) const {
  const std::int64_t align = std::min(preferred.align, rows);
  const std::int64_t samples = conv_.n;
  std::int64_t height = static_cast<std::int64_t>(budget_bytes_ / v_bytes_per_row) / align * align;
  height = std::clamp<std::int64_t>(std::max(height, preferred.least), align, rows);
  const std::int64_t enough = preferred.fit ? slots_ : 4 * slots_;
  if (samples * ceil_div(rows, height) < enough) {
    height = std::max(align, ceil_div(ceil_div(rows, ceil_div(enough, samples)), align) * align);
  }
  height = std::min(rows, ceil_div(ceil_div(rows, ceil_div(rows, height)), align) * align);
  std::int64_t group = 1;
  if (height == rows) {
    const auto fitting = static_cast<std::int64_t>(budget_bytes_ / (v_bytes_per_row * static_cast<double>(rows)));
    group = std::clamp<std::int64_t>(fitting, 1, std::max<std::int64_t>(1, samples / enough));
  }

  Bands bands;
  const auto add = [&](const BandBox& box) {
    const ConvDesc desc = describe(box);
    const auto found =
        std::find_if(bands.shapes.begin(), bands.shapes.end(), [&](const ConvDesc& d) { return same_box(d, desc); });
    bands.boxes.push_back(box);
    bands.boxes.back().shape = static_cast<std::size_t>(found - bands.shapes.begin());
    if (found == bands.shapes.end()) bands.shapes.push_back(desc);
  };
  const std::int64_t boxes = ceil_div(samples, group) * ceil_div(rows, height);
  if (bands_ && boxes > 1 && (conv_.threads == 1 || boxes >= slots_)) {
    for (std::int64_t n = 0; n < samples; n += group) {
      for (std::int64_t row = 0; row < rows; row += height) {
        add(make_box(RowRange{n, std::min(samples, n + group), row, std::min(rows, row + height)}));
      }
    }
    const bool possible = std::all_of(bands.shapes.begin(), bands.shapes.end(), [](const ConvDesc& desc) {
      const Extent& pad = desc.geometry.pad_begin;
      return pad.d >= 0 && pad.h >= 0 && desc.out.volume() > 0 && desc.in.volume() > 0;
    });
    if (possible) return bands;
    bands = Bands{};
  }
  // Rows of a whole box are those that the epilogue counts.
  const EpilogueDesc& e = epilogue_.desc();
  const bool deep = e.v.d > 1;
  bands.boxes.push_back(
      {{0, samples, 0, 0}, {0, samples, 0, deep ? e.v.d : e.v.h}, {0, samples, 0, deep ? e.y.d : e.y.h}, 0});
  bands.shapes.push_back(conv_);
  return bands;
}

Bands BandCutter::forward() const {
  const EpilogueDesc& desc = epilogue_.desc();
  const std::int64_t y_rows = desc.v.d > 1 ? desc.y.d : desc.y.h;
  const std::int64_t pool_stride = desc.v.d > 1 ? desc.pool.stride.d : desc.pool.stride.h;
  const auto make_box = [&](const RowRange& y) {
    const RowRange v = epilogue_.v_rows(y);
    return BandBox{x_under(v), v, y};
  };
  const double per_row = static_cast<double>(v_row_bytes_) *
                         std::min<double>(static_cast<double>(pool_stride), static_cast<double>(rows_.out));
  const BoxRows rows{std::lcm(preferred_.align, pool_stride) / pool_stride, ceil_div(preferred_.least, pool_stride),
                     preferred_.fit};
  return cut(y_rows, rows, per_row, make_box);
}

Bands BandCutter::backward_weights() const {
  const EpilogueDesc& desc = epilogue_.desc();
  const std::int64_t align = desc.v.d > 1 ? desc.pool.stride.d : desc.pool.stride.h;
  return cut(rows_.out, {std::lcm(preferred_.align, align), preferred_.least, preferred_.fit},
             static_cast<double>(v_row_bytes_), [&](const RowRange& v) { return BandBox{x_under(v), v, {}}; });
}

Bands BandCutter::backward_data() const {
  const auto make_box = [&](const RowRange& x) {
    RowRange v = x;
    const std::int64_t lowest = x.begin + rows_.pad - (rows_.kernel - 1) * rows_.dilation;
    v.begin = lowest <= 0 ? 0 : ceil_div(lowest, rows_.stride);
    v.end = std::min(rows_.out, (x.end - 1 + rows_.pad) / rows_.stride + 1);
    return BandBox{x, v, {}};
  };
  const double per_row = static_cast<double>(v_row_bytes_) / static_cast<double>(rows_.stride);
  return cut(rows_.in, {std::lcm(preferred_.align, rows_.stride), preferred_.least, preferred_.fit}, per_row, make_box);
}

}  // namespace petaflow
