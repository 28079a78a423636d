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

std::int64_t Tiling::largest_v_bytes(const Shape& v, DType type) const {
  std::int64_t rows = 0;
  for (const Tile& tile : tiles) rows = std::max(rows, tile.v.rows());
  return rows * v.w * v.c * static_cast<std::int64_t>(size_of(type));
}

Strides dense_tile(std::int64_t samples, const Extent& extent, std::int64_t channels, const Strides& whole) {
  Strides dense = Strides::of(extent, channels);
  // A single sample's distance to the next says nothing but that there may be several planes.  Where there are none it
  // is that of planes, as in the whole tensor: oneDNN's kernels of two and of three directions round differently
  // (AVX2).
  if (samples == 1 && whole.n != whole.d) dense.n = whole.n;
  return dense;
}

TileCutter::TileCutter(const ConvDesc& conv, const Epilogue& epilogue, int parts, const ConvPassOptions& options,
                       ConvRole role)
    : conv_(conv),
      role_(role),
      epilogue_(epilogue),
      options_(options),
      deep_(conv.out.d > 1),
      parts_(parts),
      budget_bytes_(options.cache_share * static_cast<double>(level2_bytes())) {
  const ConvGeometry& g = conv.geometry;
  d_ = {conv.in.d, conv.out.d, g.kernel.d, g.stride.d, g.dilation.d, g.pad_begin.d};
  h_ = {conv.in.h, conv.out.h, g.kernel.h, g.stride.h, g.dilation.h, g.pad_begin.h};
}

Interval TileCutter::Direction::in_under(const Interval& rows) const {
  return {std::max<std::int64_t>(0, rows.begin * stride - pad),
          std::min(in, (rows.end - 1) * stride - pad + (kernel - 1) * dilation + 1)};
}

Interval TileCutter::Direction::out_over(const Interval& rows) const {
  const std::int64_t lowest = rows.begin + pad - (kernel - 1) * dilation;
  return {lowest <= 0 ? 0 : ceil_div(lowest, stride), std::min(out, (rows.end - 1 + pad) / stride + 1)};
}

ConvDesc TileCutter::describe(const Tile& tile) const {
  ConvDesc desc = conv_;
  desc.n = tile.x.sample.size();
  desc.threads = 1;
  const TileRange &reads = transposed() ? tile.v : tile.x, &writes = transposed() ? tile.x : tile.v;
  const auto clip = [](const Direction& whole, const Interval& x, const Interval& v, std::int64_t& in,
                       std::int64_t& out, std::int64_t& pad_begin, std::int64_t& pad_end) {
    in = x.size(), out = v.size();
    pad_begin = whole.pad + x.begin - v.begin * whole.stride;
    // Strides may leave rows of x that nothing reads.
    pad_end =
        std::max<std::int64_t>(0, (out - 1) * whole.stride + (whole.kernel - 1) * whole.dilation + 1 - pad_begin - in);
  };
  ConvGeometry& g = desc.geometry;
  clip(d_, reads.d, writes.d, desc.in.d, desc.out.d, g.pad_begin.d, g.pad_end.d);
  clip(h_, reads.h, writes.h, desc.in.h, desc.out.h, g.pad_begin.h, g.pad_end.h);
  if (transposed()) {
    desc.x_strides = dense_tile(desc.n, desc.in, desc.in_channels, conv_.x_strides);
  } else {
    desc.y_strides = Strides::of(desc.out, desc.out_channels);
  }
  return desc;
}

// Tiles of equal height (as wished) whose v fits the budget.  Where the lowest ones do not, the rows of planes are cut
// too (MLPerf's first layer, two planes of 128^3 with 32 channels: gradients of weights 89 to 79 ms in f32), unless the
// implementation has wishes: Winograd's transforms would do more work; where samples are small, some are grouped.
TileCutter::TileSize TileCutter::size_of_tiles(const TileWishes& wished, const Cut& outer, const Cut& inner) const {
  // Height near `height` that cuts the rows into equal tiles of whole `align`s.
  const auto even = [](const Cut& cut, std::int64_t height) {
    const std::int64_t align = std::min(cut.align, cut.rows);
    return std::min(cut.rows, ceil_div(ceil_div(cut.rows, ceil_div(cut.rows, height)), align) * align);
  };
  // Greatest height in whole `align`s whose v fits the budget, at least the one wished.
  const auto fitting = [&](const Cut& cut, double row_bytes) {
    const std::int64_t align = std::min(cut.align, cut.rows),
                       height = static_cast<std::int64_t>(budget_bytes_ / row_bytes) / align * align;
    return std::clamp(std::max(height, cut.least), align, cut.rows);
  };
  const double line_bytes = static_cast<double>(epilogue_.desc().v.w * epilogue_.desc().v.c *
                                                static_cast<std::int64_t>(size_of(conv_.type))),
               inner_bytes = outer.v_rows * inner.v_rows * line_bytes,  // of one row of a plane
      outer_bytes = static_cast<double>(inner.rows) * inner_bytes;
  std::int64_t height = fitting(outer, outer_bytes);
  // Tiles below which threads idle at the end: four for each part (not measured against other numbers).  Heights that
  // an implementation wishes are worth more than that (Winograd's transforms of shared planes: SC18 3.0 to 7.0
  // samples/s together with the transforms).
  const std::int64_t enough = wished.fit() ? parts_ : 4 * parts_;
  if (conv_.n * ceil_div(outer.rows, height) < enough) {
    const std::int64_t least = wished.fit() ? std::min(outer.least, outer.rows) : 1;
    height = std::max(least, ceil_div(outer.rows, ceil_div(enough, conv_.n)));
  }
  height = even(outer, height);
  // Few tiles: as many for each part, lower or higher ones (512 to 768 channels, 5 x 5 taps, stride 2, 48 x 48 pixels,
  // two threads: 117 to 86 ms forward).
  const std::int64_t count = conv_.n * ceil_div(outer.rows, height);
  if (count > parts_ && count < 4 * parts_ && count % parts_ != 0) {
    const auto of_tiles = [&](std::int64_t tiles) {
      return even(outer, std::max(outer.least, ceil_div(outer.rows, ceil_div(tiles, conv_.n))));
    };
    height = of_tiles(ceil_div(count, parts_) * parts_);
    if (conv_.n * ceil_div(outer.rows, height) % parts_ != 0) height = of_tiles(count / parts_ * parts_);
  }
  const std::int64_t inner_height =
      wished.fit() ? inner.rows : even(inner, fitting(inner, static_cast<double>(height) * inner_bytes));
  if (height < outer.rows || inner_height < inner.rows) return {height, inner_height, 1};
  const auto whole = static_cast<std::int64_t>(budget_bytes_ / (outer_bytes * static_cast<double>(outer.rows)));
  return {height, inner_height,
          std::max(wished.samples, std::clamp<std::int64_t>(whole, 1, std::max<std::int64_t>(1, conv_.n / enough)))};
}

// Cuts the planes (3-D) or rows (2-D) of each sample into tiles.  One whole tensor where there would be too few to keep
// the threads of its kernel busy.
template <class MakeTile>
Tiling TileCutter::cut(const Wishes& wishes, const Cut& planes, const Cut& rows, MakeTile&& make_tile) const {
  if (wishes && wishes->transforms == Transforms::kWhole) return whole(wishes);
  const Cut &outer = deep_ ? planes : rows, &inner = deep_ ? rows : planes;
  const TileSize size = size_of_tiles(wishes.value_or(TileWishes{}), outer, inner);
  const std::int64_t samples = conv_.n;
  Tiling tiling;
  const auto add = [&](const Tile& tile) {
    ConvDesc desc = describe(tile);
    if (wishes) desc.transforms = wishes->transforms;
    const auto found = std::ranges::find_if(tiling.shapes, [&](const ConvDesc& d) { return same_tile(d, desc); });
    tiling.tiles.push_back(tile);
    tiling.tiles.back().shape = static_cast<std::size_t>(found - tiling.shapes.begin());
    if (found == tiling.shapes.end()) tiling.shapes.push_back(desc);
  };
  const std::int64_t count =
      ceil_div(samples, size.samples) * ceil_div(outer.rows, size.outer) * ceil_div(inner.rows, size.inner);
  if (options_.tiles && kOnHost && count > 1 && (conv_.threads == 1 || count >= parts_)) {
    for (std::int64_t n = 0; n < samples; n += size.samples) {
      for (std::int64_t i = 0; i < outer.rows; i += size.outer) {
        for (std::int64_t j = 0; j < inner.rows; j += size.inner) {
          const Interval sample{n, std::min(samples, n + size.samples)}, first{i, std::min(outer.rows, i + size.outer)},
              second{j, std::min(inner.rows, j + size.inner)};
          Tile tile = make_tile(deep_ ? TileRange{sample, first, second} : TileRange{sample, second, first});
          // Planes that are not cut stay whole, with rows that pooling or strides leave unread: as neighbours.
          if (deep_ && size.inner == inner.rows) tile.x.h = {0, x_rows(h_)}, tile.v.h = {0, v_rows(h_)};
          add(tile);
        }
      }
    }
    // Strides or padding may leave a tile without rows of x: then the whole tensor.
    const bool possible = std::ranges::all_of(tiling.shapes, [](const ConvDesc& desc) {
      const Extent& pad = desc.geometry.pad_begin;
      return pad.d >= 0 && pad.h >= 0 && desc.out.volume() > 0 && desc.in.volume() > 0;
    });
    if (possible) return tiling;
  }
  return whole(wishes);
}

Tiling TileCutter::whole(const Wishes& wishes) const {
  const EpilogueDesc& e = epilogue_.desc();
  Tiling tiling;
  tiling.tiles.push_back({{{0, conv_.n}, {0, x_rows(d_)}, {0, x_rows(h_)}}, whole_range(e.v), whole_range(e.y), 0});
  tiling.shapes.push_back(conv_);
  if (wishes) tiling.shapes.back().transforms = wishes->transforms;
  return tiling;
}

// Tiles add their gradients to sums that exceed the caches, and each thread has its own (768 to 1024 channels, 5 x 5
// taps, 24 x 24 pixels, where weights take ten times the room of x and y: 205 ms in tiles, 163 whole).
bool TileCutter::sums_exceed_caches() const {
  const auto elements = [](const Extent& extent, std::int64_t channels) { return extent.volume() * channels; };
  const std::int64_t sums = conv_.weight_elements() * static_cast<std::int64_t>(sizeof(float)),
                     others = conv_.n *
                              (elements(conv_.in, conv_.in_channels) + elements(conv_.out, conv_.out_channels)) *
                              static_cast<std::int64_t>(size_of(conv_.type));
  return conv_.threads > 1 && sums > 16 * level2_bytes() && sums > others;
}

Tiling TileCutter::forward() const {
  const EpilogueDesc& desc = epilogue_.desc();
  const Extent& stride = desc.pool.stride;
  const auto direction = [&](const Direction& axis, std::int64_t y_rows, std::int64_t pool_stride,
                             const TileWishes& wished) {
    // Tiles of a transposed convolution hold as many rows of each phase of its stride.
    const std::int64_t align = transposed() ? std::lcm(wished.align, axis.stride) : wished.align;
    return Cut{y_rows, std::lcm(align, pool_stride) / pool_stride, ceil_div(wished.least, pool_stride),
               static_cast<double>(std::min(pool_stride, v_rows(axis)))};
  };
  const Wishes suits = wishes(Pass::kForward);
  // A transform computes whole patches of `align` rows.  Where pooling windows overlap or leave rows unread they are
  // completed, so that each patch sums the same numbers as in the whole tensor.
  const std::int64_t patch = along(false, suits).align;
  return cut(suits, direction(d_, desc.y.d, stride.d, along(true, suits)),
             direction(h_, desc.y.h, stride.h, along(false, suits)), [&](const TileRange& y) {
               TileRange v = epilogue_.v_under(y);
               v.h = {v.h.begin / patch * patch, std::min(v_rows(h_), ceil_div(v.h.end, patch) * patch)};
               return Tile{{v.sample, x_of(d_, v.d), x_of(h_, v.h)}, v, y};
             });
}

Tiling TileCutter::backward_weights(bool of_x) const {
  const Extent& stride = epilogue_.desc().pool.stride;
  const Wishes suits = wishes(Pass::kBackwardWeights);
  if (sums_exceed_caches() && !(suits && suits->fit())) return whole(suits);
  if (of_x) return cut_x(suits);
  const auto direction = [&](const Direction& axis, std::int64_t pool_stride, const TileWishes& wished) {
    if (!transposed()) return Cut{axis.out, std::lcm(wished.align, pool_stride), wished.least, 1};
    if (wished.least >= axis.out) return Cut{axis.in, axis.in, axis.in, 1};  // not to be cut
    // Neighbours share some rows of x: a tile of v is as high as keeps them few, and those of x whole patches.
    constexpr std::int64_t kMostShared = 8;  // one in so many; not measured against other numbers
    const std::int64_t rows =
        ceil_div(std::max(wished.least, kMostShared * axis.shared()), wished.align) * wished.align;
    const std::int64_t own = std::lcm((rows - axis.shared()) * axis.stride, pool_stride);
    return Cut{axis.in, own, own, 1};
  };
  return cut(suits, direction(d_, stride.d, along(true, suits)), direction(h_, stride.h, along(false, suits)),
             [&](const TileRange& v) { return Tile{{v.sample, x_of(d_, v.d), x_of(h_, v.h)}, v, {}}; });
}

Tiling TileCutter::cut_x(const Wishes& suits) const {
  const auto direction = [&](const Direction& axis, const TileWishes& wished) {
    if (transposed()) return Cut{axis.out, wished.align, wished.least, static_cast<double>(axis.stride)};
    return Cut{axis.in, std::lcm(wished.align, axis.stride), wished.least, 1 / static_cast<double>(axis.stride)};
  };
  // Planes stay whole: cut ones would need more of v above and below than they write, oneDNN has only its reference for
  // them, and first layers, which have the large planes, have no dx.
  Cut rows = direction(h_, along(false, suits));
  if (deep_) rows.least = rows.rows;
  return cut(suits, direction(d_, along(true, suits)), rows,
             [&](const TileRange& x) { return Tile{x, {x.sample, v_of(d_, x.d), v_of(h_, x.h)}, {}}; });
}

Tiling TileCutter::backward_data() const { return cut_x(wishes(Pass::kBackwardData)); }

}  // namespace petaflow
