#include "nn/tiles.hpp"

#include <algorithm>
#include <numeric>

#include <unistd.h>

#include "kernels/register_blocks.hpp"

namespace petaflow {

std::int64_t level2_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  const std::int64_t cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
#else
  const std::int64_t cache = 0;
#endif
  return cache > 0 ? cache : std::int64_t{1} << 20;
}

std::int64_t Tiling::largest_v_bytes() const {
  std::int64_t largest = 0;
  for (const ConvDesc& shape : shapes) {
    largest = std::max(
        largest, shape.n * shape.out.volume() * shape.out_channels * static_cast<std::int64_t>(size_of(shape.type)));
  }
  return largest;
}

TileCutter::TileCutter(const ConvDesc& conv, const Epilogue& epilogue, int slots, const ConvPassOptions& options)
    : conv_(conv),
      epilogue_(epilogue),
      options_(options),
      deep_(conv.out.d > 1),
      slots_(slots),
      budget_bytes_(options.cache_share * static_cast<double>(level2_bytes())) {
  const ConvGeometry& g = conv.geometry;
  d_ = {conv.in.d, conv.out.d, g.kernel.d, g.stride.d, g.dilation.d, g.pad_begin.d};
  h_ = {conv.in.h, conv.out.h, g.kernel.h, g.stride.h, g.dilation.h, g.pad_begin.h};
}

Interval TileCutter::Direction::x_under(const Interval& v) const {
  return {std::max<std::int64_t>(0, v.begin * stride - pad),
          std::min(in, (v.end - 1) * stride - pad + (kernel - 1) * dilation + 1)};
}

Interval TileCutter::Direction::v_over(const Interval& x) const {
  const std::int64_t lowest = x.begin + pad - (kernel - 1) * dilation;
  return {lowest <= 0 ? 0 : ceil_div(lowest, stride), std::min(out, (x.end - 1 + pad) / stride + 1)};
}

ConvDesc TileCutter::describe(const Tile& tile) const {
  ConvDesc desc = conv_;
  desc.n = tile.x.sample.size();
  desc.threads = 1;
  const auto clip = [](const Direction& whole, const Interval& x, const Interval& v, std::int64_t& in,
                       std::int64_t& out, std::int64_t& pad_begin, std::int64_t& pad_end) {
    in = x.size(), out = v.size();
    pad_begin = whole.pad + x.begin - v.begin * whole.stride;
    // Strides may leave rows of x that nothing reads.
    pad_end =
        std::max<std::int64_t>(0, (out - 1) * whole.stride + (whole.kernel - 1) * whole.dilation + 1 - pad_begin - in);
  };
  ConvGeometry& g = desc.geometry;
  clip(d_, tile.x.d, tile.v.d, desc.in.d, desc.out.d, g.pad_begin.d, g.pad_end.d);
  clip(h_, tile.x.h, tile.v.h, desc.in.h, desc.out.h, g.pad_begin.h, g.pad_end.h);
  desc.y_strides = Strides::of(desc.out, desc.out_channels);
  return desc;
}

// Cuts the planes (3-D) or rows (2-D) of each sample into tiles of equal height (as wished) whose v fits the budget.
// Where the lowest ones do not, the rows of planes are cut too (MLPerf's first layer, two planes of 128^3 with 32
// channels: gradients of weights 89 to 79 ms in f32), unless the implementation has wishes: Winograd's transforms would
// do more work; where samples are small, some are grouped.  One whole tensor where there would be too few tiles to keep
// the threads of its kernel busy.
template <class MakeTile>
Tiling TileCutter::cut(const Wishes& wishes, const Cut& planes, const Cut& rows, MakeTile&& make_tile) const {
  const TileWishes wished = wishes.value_or(TileWishes{});
  const auto even = [](const Cut& cut, std::int64_t height) {
    const std::int64_t align = std::min(cut.align, cut.rows);
    return std::min(cut.rows, ceil_div(ceil_div(cut.rows, ceil_div(cut.rows, height)), align) * align);
  };
  const auto fitting = [&](const Cut& cut, double row_bytes) {
    const std::int64_t align = std::min(cut.align, cut.rows),
                       height = static_cast<std::int64_t>(budget_bytes_ / row_bytes) / align * align;
    return std::clamp(std::max(height, cut.least), align, cut.rows);
  };
  const Cut &outer = deep_ ? planes : rows, &inner = deep_ ? rows : planes;
  const double line_bytes =
                   static_cast<double>(conv_.out.w * conv_.out_channels) * static_cast<double>(size_of(conv_.type)),
               inner_bytes = outer.v_rows * inner.v_rows * line_bytes,  // of one row of a plane
      outer_bytes = static_cast<double>(inner.rows) * inner_bytes;
  const std::int64_t samples = conv_.n;
  std::int64_t height = fitting(outer, outer_bytes);
  // Several for each slot, so that all threads are busy to the end; the heights that an implementation wishes are worth
  // more than that (Winograd's transforms of shared planes: SC18 3.0 to 7.0 samples/s together with the transforms).
  const std::int64_t enough = wished.fit ? slots_ : 4 * slots_;
  if (samples * ceil_div(outer.rows, height) < enough) {
    const std::int64_t least = wished.fit ? std::min(outer.least, outer.rows) : 1;
    height = std::max(least, ceil_div(outer.rows, ceil_div(enough, samples)));
  }
  height = even(outer, height);
  const std::int64_t inner_height =
      wished.fit ? inner.rows : even(inner, fitting(inner, static_cast<double>(height) * inner_bytes));
  std::int64_t group = 1;
  if (height == outer.rows && inner_height == inner.rows) {
    const auto whole = static_cast<std::int64_t>(budget_bytes_ / (outer_bytes * static_cast<double>(outer.rows)));
    group = std::max(wished.samples, std::clamp<std::int64_t>(whole, 1, std::max<std::int64_t>(1, samples / enough)));
  }

  Tiling tiling;
  const auto add = [&](const Tile& tile) {
    ConvDesc desc = describe(tile);
    if (wishes) desc.transforms = wishes->fit;
    const auto found = std::ranges::find_if(tiling.shapes, [&](const ConvDesc& d) { return same_tile(d, desc); });
    tiling.tiles.push_back(tile);
    tiling.tiles.back().shape = static_cast<std::size_t>(found - tiling.shapes.begin());
    if (found == tiling.shapes.end()) tiling.shapes.push_back(desc);
  };
  const std::int64_t count =
      ceil_div(samples, group) * ceil_div(outer.rows, height) * ceil_div(inner.rows, inner_height);
  if (options_.tiles && kOnHost && count > 1 && (conv_.threads == 1 || count >= slots_)) {
    for (std::int64_t n = 0; n < samples; n += group) {
      for (std::int64_t i = 0; i < outer.rows; i += height) {
        for (std::int64_t j = 0; j < inner.rows; j += inner_height) {
          const Interval sample{n, std::min(samples, n + group)}, first{i, std::min(outer.rows, i + height)},
              second{j, std::min(inner.rows, j + inner_height)};
          Tile tile = make_tile(deep_ ? RowBox{sample, first, second} : RowBox{sample, second, first});
          // Planes that are not cut stay whole, with rows that pooling or strides leave unread: as neighbours.
          if (deep_ && inner_height == inner.rows) tile.x.h = {0, h_.in}, tile.v.h = {0, h_.out};
          add(tile);
        }
      }
    }
    const bool possible = std::ranges::all_of(tiling.shapes, [](const ConvDesc& desc) {
      const Extent& pad = desc.geometry.pad_begin;
      return pad.d >= 0 && pad.h >= 0 && desc.out.volume() > 0 && desc.in.volume() > 0;
    });
    if (possible) return tiling;
    tiling = Tiling{};
  }
  const EpilogueDesc& e = epilogue_.desc();
  tiling.tiles.push_back({{{0, samples}, {0, conv_.in.d}, {0, conv_.in.h}}, whole_box(e.v), whole_box(e.y), 0});
  tiling.shapes.push_back(conv_);
  if (wishes) tiling.shapes.back().transforms = wishes->fit;
  return tiling;
}

Tiling TileCutter::forward() const {
  const EpilogueDesc& desc = epilogue_.desc();
  const Extent& stride = desc.pool.stride;
  const auto direction = [](std::int64_t y_rows, std::int64_t v_rows, std::int64_t pool_stride,
                            const TileWishes& wished) {
    return Cut{y_rows, std::lcm(wished.align, pool_stride) / pool_stride, ceil_div(wished.least, pool_stride),
               static_cast<double>(std::min(pool_stride, v_rows))};
  };
  const Wishes suits = wishes(Pass::kForward);
  // A transform computes whole patches of `align` rows.  Where pooling windows overlap or leave rows unread they are
  // completed, so that each patch sums the same numbers as in the whole tensor.
  const std::int64_t patch = along(false, suits).align;
  return cut(suits, direction(desc.y.d, desc.v.d, stride.d, along(true, suits)),
             direction(desc.y.h, desc.v.h, stride.h, along(false, suits)), [&](const RowBox& y) {
               RowBox v = epilogue_.v_under(y);
               v.h = {v.h.begin / patch * patch, std::min(h_.out, ceil_div(v.h.end, patch) * patch)};
               return Tile{{v.sample, d_.x_under(v.d), h_.x_under(v.h)}, v, y};
             });
}

Tiling TileCutter::backward_weights() const {
  const Extent& stride = epilogue_.desc().pool.stride;
  const auto direction = [](std::int64_t v_rows, std::int64_t pool_stride, const TileWishes& wished) {
    return Cut{v_rows, std::lcm(wished.align, pool_stride), wished.least, 1};
  };
  const Wishes suits = wishes(Pass::kBackwardWeights);
  return cut(suits, direction(d_.out, stride.d, along(true, suits)), direction(h_.out, stride.h, along(false, suits)),
             [&](const RowBox& v) { return Tile{{v.sample, d_.x_under(v.d), h_.x_under(v.h)}, v, {}}; });
}

Tiling TileCutter::backward_data() const {
  const auto direction = [](const Direction& axis, const TileWishes& wished) {
    return Cut{axis.in, std::lcm(wished.align, axis.stride), wished.least, 1 / static_cast<double>(axis.stride)};
  };
  // Planes stay whole: cut ones would need more of v above and below than they write, oneDNN has only its reference for
  // them, and first layers, which have the large planes, have no dx.
  const Wishes suits = wishes(Pass::kBackwardData);
  Cut rows = direction(h_, along(false, suits));
  if (deep_) rows.least = rows.rows;
  return cut(suits, direction(d_, along(true, suits)), rows,
             [&](const RowBox& x) { return Tile{x, {x.sample, d_.v_over(x.d), h_.v_over(x.h)}, {}}; });
}

}  // namespace petaflow
