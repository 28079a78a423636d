// Boxes cut into pieces: together they are the box, and each reads what the box reads for its rows.
#include <algorithm>

#include <gtest/gtest.h>

#include "kernels/conv_pieces.hpp"

namespace petaflow {
namespace {

TEST(ConvPieces, ReadTheRowsThatTheirOutputsNeed) {
  for (std::int64_t rows = 1; rows < 12; ++rows)
    for (std::int64_t kernel = 1; kernel < 5; ++kernel)
      for (std::int64_t stride = 1; stride < 4; ++stride)
        for (std::int64_t dilation = 1; dilation < 4; ++dilation)
          for (std::int64_t pad = 0; pad < 4; ++pad)
            for (std::int64_t begin = 0; begin * stride - pad < rows; ++begin)
              for (std::int64_t end = begin + 1; end < begin + 4; ++end) {
                const PieceRows piece(rows, kernel, stride, dilation, pad, begin, end);
                const std::int64_t first = begin * stride - pad,
                                   last = (end - 1) * stride - pad + (kernel - 1) * dilation;
                if (last < 0) continue;  // reads nothing but zeros
                EXPECT_EQ(piece.out, end - begin);
                EXPECT_EQ(piece.skipped - piece.pad_begin, first);
                EXPECT_EQ(piece.skipped + piece.in + piece.pad_end, last + 1);
                EXPECT_EQ(piece.skipped, std::max<std::int64_t>(0, first));
                EXPECT_EQ(piece.in, std::min(rows - 1, last) - piece.skipped + 1);
              }
}

TEST(ConvPieces, AreTogetherTheBox) {
  ConvDesc box;
  box.n = 3;
  box.in_channels = box.out_channels = 1;
  box.in = {5, 14, 11};
  box.out = {5, 7, 11};
  box.geometry.kernel = {3, 3, 3};
  box.geometry.stride = {1, 2, 1};
  box.geometry.pad_begin = box.geometry.pad_end = {1, 1, 1};
  box.x_strides = {5 * 14 * 11, 14 * 11, 11, 1};
  box.y_strides = {5 * 7 * 11, 7 * 11, 11, 1};
  for (const std::int64_t most : {1, 11, 30, 77, 160, 385, 800, 5000}) {
    std::vector<int> times(static_cast<std::size_t>(box.n * box.out.volume()));
    for (const ConvPiece& piece : pieces_of(box, most)) {
      const ConvDesc& part = piece.desc;
      EXPECT_LE(part.n * part.out.volume(), std::max<std::int64_t>(most, box.out.w));
      const std::int64_t d = piece.y % box.y_strides.n / box.y_strides.d,
                         h = piece.y % box.y_strides.d / box.y_strides.h;
      const std::int64_t row = std::max<std::int64_t>(0, 2 * h - 1), plane = std::max<std::int64_t>(0, d - 1);
      EXPECT_EQ(piece.x, piece.y / box.y_strides.n * box.x_strides.n + plane * box.x_strides.d + row * box.x_strides.h);
      for (std::int64_t n = 0; n < part.n; ++n)
        for (std::int64_t pixel = 0; pixel < part.out.volume(); ++pixel) {
          const std::int64_t line = pixel / part.out.w;
          ++times[static_cast<std::size_t>(piece.y + n * box.y_strides.n + line / part.out.h * box.y_strides.d +
                                           line % part.out.h * box.y_strides.h + pixel % part.out.w)];
        }
    }
    EXPECT_EQ(std::ranges::count(times, 1), std::ssize(times)) << most;
  }
}

}  // namespace
}  // namespace petaflow
