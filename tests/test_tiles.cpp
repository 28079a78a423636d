// Tiles of rows: they cover their pass, and where Winograd's transforms fit they cut no patch and hold several planes.
#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/context.hpp"
#include "nn/tiles.hpp"

namespace petaflow {
namespace {

struct Layer {
  ConvDesc conv;
  EpilogueDesc epilogue;

  /// Kernel and padding in the directions that the input has; maxima over pairs of rows follow.
  Layer(std::int64_t in_channels, std::int64_t out_channels, const Extent& in, const ConvGeometry& geometry) {
    conv.n = 2, conv.in_channels = in_channels, conv.out_channels = out_channels;
    conv.in = in, conv.out = window_output(in, geometry), conv.geometry = geometry;
    conv.x_strides = Strides::of(in, in_channels);
    conv.y_strides = Strides::of(conv.out, out_channels);
    conv.threads = 2;
    const std::int64_t deep = in.d > 1 ? 2 : 1;
    epilogue.pool = {PoolKind::kMax, {deep, 2, 2}, {deep, 2, 2}, {0, 0, 0}};
    epilogue.v = {conv.n, out_channels, conv.out.d, conv.out.h, conv.out.w};
    const Extent y = epilogue.pool.output(conv.out);
    epilogue.y = {conv.n, out_channels, y.d, y.h, y.w};
  }
};

/// Heights of the tiles of each sample along one direction, whole along the other one; `part` of a tile is its
/// partition. The tiles must follow each other.
std::vector<std::int64_t> heights(const Tiling& tiling, TileRange Tile::* part, Interval TileRange::* direction,
                                  std::int64_t expected) {
  std::vector<std::int64_t> result;
  std::int64_t end = 0;
  for (const Tile& tile : tiling.tiles) {
    const Interval& range = (tile.*part).*direction;
    EXPECT_EQ(range.begin, end % expected) << "a gap or an overlap";
    end = range.end;
    result.push_back(range.size());
  }
  EXPECT_EQ(end, expected);
  return result;
}

/// All but the last tile of a sample are multiples of `align` and `least` or more.
void expect_heights(const std::vector<std::int64_t>& heights, std::int64_t rows, std::int64_t align,
                    std::int64_t least) {
  EXPECT_GT(heights.size(), 2U) << "nothing is cut";
  std::int64_t begin = 0;
  for (const std::int64_t height : heights) {
    const bool last = begin + height == rows;
    EXPECT_TRUE(last || (height % align == 0 && height >= least)) << height << " rows from " << begin;
    begin = last ? 0 : begin + height;
  }
}

TEST(TileCutter, CutsNoPatchOfWinograd) {
  if (!kOnHost) GTEST_SKIP() << "tiles are for the host";
  const Layer layer(128, 128, {1, 112, 112}, {{1, 3, 3}, {}, {}, {0, 1, 1}, {0, 1, 1}});
  const Epilogue epilogue(layer.epilogue, nullptr, {}, {}, nullptr);
  const TileCutter cutter(layer.conv, epilogue, 2, ConvPassOptions{});
  expect_heights(heights(cutter.forward(), &Tile::v, &TileRange::h, 112), 112, 4, 4);
  expect_heights(heights(cutter.backward_weights(), &Tile::v, &TileRange::h, 112), 112, 4, 4);
  expect_heights(heights(cutter.backward_data(), &Tile::x, &TileRange::h, 112), 112, 4, 4);
}

TEST(TileCutter, TakesSeveralPlanesForWinograd) {
  if (!kOnHost) GTEST_SKIP() << "tiles are for the host";
  const Layer layer(16, 32, {63, 63, 63}, {{4, 4, 4}});
  const Epilogue epilogue(layer.epilogue, nullptr, {}, {}, nullptr);
  const TileCutter cutter(layer.conv, epilogue, 2, ConvPassOptions{});
  expect_heights(heights(cutter.forward(), &Tile::v, &TileRange::d, 60), 60, 1, 8);
  expect_heights(heights(cutter.backward_weights(), &Tile::v, &TileRange::d, 60), 60, 1, 8);
  expect_heights(heights(cutter.backward_data(), &Tile::x, &TileRange::d, 63), 63, 1, 8);

  ConvPassOptions direct;
  direct.conv.rule = ConvRequest::Rule::kDirect;
  EXPECT_LT(TileCutter(layer.conv, epilogue, 2, direct).backward_weights().tiles.front().v.d.size(), 8);
}

// Where two planes of the convolution's output exceed the cache, tiles hold some rows of some planes.
TEST(TileCutter, CutsPlanesThatExceedTheCache) {
  if (!kOnHost) GTEST_SKIP() << "tiles are for the host";
  const Extent in{16, 512, 512};
  const Layer layer(3, 32, in, {{3, 3, 3}, {}, {}, {1, 1, 1}, {1, 1, 1}});
  const Epilogue epilogue(layer.epilogue, nullptr, {}, {}, nullptr);
  const TileCutter cutter(layer.conv, epilogue, 2, ConvPassOptions{});
  const std::pair<Tiling, TileRange Tile::*> passes[] = {
      {cutter.forward(), &Tile::v}, {cutter.backward_weights(), &Tile::v}, {cutter.backward_data(), &Tile::x}};
  for (const auto& [tiling, part] : passes) {
    const bool dx = part == &Tile::x;
    EXPECT_EQ((tiling.tiles.front().*part).h.size() < in.h, !dx);
    std::vector<int> covered(static_cast<std::size_t>(layer.conv.n * in.d * in.h));
    for (const Tile& tile : tiling.tiles) {
      const TileRange& own = tile.*part;
      for (std::int64_t n = own.sample.begin; n < own.sample.end; ++n) {
        for (std::int64_t d = own.d.begin; d < own.d.end; ++d) {
          for (std::int64_t h = own.h.begin; h < own.h.end; ++h)
            ++covered[static_cast<std::size_t>((n * in.d + d) * in.h + h)];
        }
      }
    }
    EXPECT_EQ(std::count(covered.begin(), covered.end(), 1), layer.conv.n * in.d * in.h);
  }
}

}  // namespace
}  // namespace petaflow
