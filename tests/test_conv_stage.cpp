// The stage of a convolution by itself: gradients that are added to others, and operands that are slices of the
// channels of wider pixels, against the same stage with dense operands that writes.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "conv_request.hpp"
#include "nn/conv_stage.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;

struct StageCase {
  const char* name;
  ConvDesc conv;
  PoolGeometry pool;
  DType type = DType::kF32;
  ConvRole role = ConvRole::kConvolution;
};

void PrintTo(const StageCase& c, std::ostream* out) { *out << c.name; }

ConvDesc describe(std::int64_t n, std::int64_t in_channels, std::int64_t out_channels, const Extent& in,
                  const ConvGeometry& geometry) {
  ConvDesc conv;
  conv.n = n, conv.in_channels = in_channels, conv.out_channels = out_channels;
  conv.in = in, conv.out = window_output(in, geometry), conv.geometry = geometry;
  conv.x_strides = Strides::of(conv.in, in_channels);
  conv.y_strides = Strides::of(conv.out, out_channels);
  return conv;
}

constexpr ConvGeometry window(const Extent& kernel, const Extent& pad, const Extent& stride = {},
                              std::int64_t groups = 1, const Extent& dilation = {}) {
  return {kernel, stride, dilation, pad, pad, groups};
}

// Winograd's transforms, strides, groups, few channels, planes that are cut along rows too.
const StageCase kCases[] = {
    {"transforms", describe(2, 32, 32, {1, 40, 48}, window({1, 3, 3}, {0, 1, 1})), {}},
    {"pooled",
     describe(2, 16, 16, {1, 24, 36}, window({1, 3, 3}, {0, 1, 1})),
     {PoolKind::kMax, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}}},
    {"stride", describe(2, 16, 32, {1, 33, 18}, window({1, 5, 5}, {0, 2, 2}, {1, 2, 2})), {}},
    {"five_taps", describe(2, 32, 16, {1, 40, 30}, window({1, 5, 5}, {0, 2, 2})), {}},
    {"dilated", describe(2, 16, 32, {1, 96, 48}, window({1, 3, 3}, {0, 2, 2}, {}, 1, {1, 2, 2})), {}},
    {"dilated_few", describe(2, 32, 32, {1, 24, 36}, window({1, 3, 3}, {0, 4, 4}, {}, 1, {1, 4, 4})), {}},
    {"groups", describe(2, 8, 12, {1, 16, 7}, window({1, 3, 3}, {0, 1, 1}, {}, 4)), {}},
    {"narrow", describe(2, 3, 16, {1, 24, 20}, window({1, 3, 3}, {0, 1, 1})), {}},
    {"odd", describe(3, 5, 7, {1, 9, 11}, window({1, 3, 3}, {0, 1, 1})), {}},
    {"planes", describe(2, 16, 16, {4, 12, 20}, window({3, 3, 3}, {1, 1, 1})), {}},
    {"flat_in_3d", describe(2, 16, 16, {5, 12, 9}, window({1, 3, 3}, {0, 1, 1})), {}},
    {"in_bf16", describe(2, 32, 32, {1, 24, 28}, window({1, 3, 3}, {0, 1, 1})), {}, DType::kBf16},
    {"transposed",
     describe(2, 16, 32, {1, 60, 81}, window({1, 3, 3}, {0, 1, 1}, {1, 2, 2})),
     {},
     DType::kF32,
     ConvRole::kTransposed},
    {"transposed_3d",
     describe(2, 7, 16, {8, 9, 11}, window({3, 3, 3}, {1, 1, 1}, {2, 2, 2})),
     {},
     DType::kF32,
     ConvRole::kTransposed},
    {"transposed_in_bf16",
     describe(1, 16, 32, {1, 34, 40}, window({1, 4, 4}, {0, 1, 1}, {1, 2, 2})),
     {},
     DType::kBf16,
     ConvRole::kTransposed},
    {"strided_in_bf16", describe(2, 16, 32, {1, 33, 18}, window({1, 3, 3}, {0, 1, 1}, {1, 2, 2})), {}, DType::kBf16},
};

/// Channels of somebody else between the pixels, whether dx is added to what is there, and what follows the
/// convolution: everything, a bias, nothing.
struct Layout {
  std::int64_t x = 0, y = 0, dy = 0;
  bool adds = false, linear = false, bare = false;
};

/// Memory of a tensor whose first channel stands behind half of the gap.
class Operand {
 public:
  Operand(const Shape& shape, DType type, std::int64_t gap)
      : gap_(gap), values_(static_cast<std::size_t>(shape.elements() + shape.n * shape.pixels() * gap), kOther) {
    std::byte* const first = type == DType::kF32 ? reinterpret_cast<std::byte*>(f32_.emplace(values_.size()).data())
                                                 : reinterpret_cast<std::byte*>(bf16_.emplace(values_.size()).data());
    tensor_ = {shape, type, shape.c + gap, first + static_cast<std::size_t>(gap / 2) * size_of(type)};
    write();
  }

  const Tensor& tensor() const { return tensor_; }

  void fill(std::uint32_t seed) {
    for (std::int64_t i = 0; i < tensor_.shape.elements(); ++i)
      values_[place(i)] = testing_support::number(static_cast<std::uint32_t>(i), seed);
    write();
  }
  /// The elements, after a look at the others.
  std::vector<float> read() const {
    std::vector<float> all(values_.size()), result;
    const auto widen = [](auto value) { return static_cast<float>(value); };
    if (f32_) std::ranges::transform(f32_->get(), all.begin(), widen);
    if (bf16_) std::ranges::transform(bf16_->get(), all.begin(), widen);
    for (std::int64_t i = 0; i < tensor_.shape.elements(); ++i) {
      result.push_back(all[place(i)]);
      all[place(i)] = kOther;
    }
    EXPECT_EQ(std::ranges::count(all, kOther), std::ssize(all)) << "channels of somebody else were written";
    return result;
  }

 private:
  static constexpr float kOther = 9;

  std::size_t place(std::int64_t i) const {
    const std::int64_t c = tensor_.shape.c;
    return static_cast<std::size_t>(i / c * tensor_.pixel_stride + gap_ / 2 + i % c);
  }
  void write() {
    if (f32_) f32_->set(values_);
    if (bf16_) bf16_->set(std::vector<Bf16>(values_.begin(), values_.end()));
  }

  std::int64_t gap_;
  std::vector<float> values_;
  std::optional<DeviceArray<float>> f32_;
  std::optional<DeviceArray<Bf16>> bf16_;
  Tensor tensor_;
};

struct Results {
  std::vector<float> y, dx, gradient;
};

constexpr std::uint32_t kOfDx = 4;  // what is in dx before

Results run(const StageCase& c, const ConvPassOptions& kernels, bool fixed_order, const Layout& layout) {
  const Context context = testing_support::context_for(2);
  ConvStage::Options options;
  options.name = c.name;
  options.conv = c.conv;
  options.conv.type = c.type;
  options.role = c.role;
  const bool transposed = c.role == ConvRole::kTransposed;
  const Shape x_shape = options.x();
  (transposed ? options.conv.y_strides : options.conv.x_strides) = Strides::of(x_shape.extent(), x_shape.c + layout.x);
  const Extent& v = transposed ? c.conv.in : c.conv.out;
  const std::int64_t channels = transposed ? c.conv.in_channels : c.conv.out_channels;
  options.epilogue.v = {c.conv.n, channels, v.d, v.h, v.w};
  if (!layout.linear && !layout.bare) options.epilogue.pool = c.pool;
  const Extent out = options.epilogue.pool.output(v);
  options.epilogue.y = {c.conv.n, channels, out.d, out.h, out.w};
  options.epilogue.bias = !layout.bare;
  // In bf16 implementations round otherwise, and a value near zero may find itself on the other side.
  options.epilogue.activation = c.type == DType::kF32 && !layout.linear && !layout.bare;
  options.epilogue.type = c.type;
  if (!layout.bare) options.bias = StageParameter{c.conv.weight_elements()};
  options.y_is_slice = layout.y > 0;
  options.fixed_order = fixed_order;
  options.kernels = {kernels, kernels, kernels};
  ConvStage stage(options, context);

  Operand x(x_shape, c.type, layout.x), dx(x_shape, c.type, layout.x), y(options.epilogue.y, c.type, layout.y),
      dy(options.epilogue.y, c.type, layout.dy);
  x.fill(1), dy.fill(2);
  if (layout.adds) dx.fill(kOfDx);
  StageBuffers& buffers = stage.buffers;
  buffers.adds = {layout.adds};
  if (layout.adds) stage.prepare_to_add(buffers.adds, context);
  buffers.x = {x.tensor()}, buffers.dx = {dx.tensor()}, buffers.y = {y.tensor()}, buffers.dy = {dy.tensor()};
  std::vector<float> weights = testing_support::numbers(c.conv.weight_elements() + channels, 3);
  for (float& weight : weights) weight *= 0.3F;
  const DeviceArray<float> parameters(weights), gradient(weights.size());
  const auto nan_bytes = [](std::size_t bytes) {
    return DeviceArray<std::byte>(std::vector<std::byte>(bytes + 1, std::byte{0xFF}));
  };
  const DeviceArray<std::byte> saved = nan_bytes(stage.saved_bytes()),
                               forward = nan_bytes(stage.forward_scratch_bytes()),
                               backward = nan_bytes(stage.backward_scratch_bytes());
  buffers.weights = parameters.data();
  buffers.saved = saved.data(), buffers.forward_scratch = forward.data(), buffers.backward_scratch = backward.data();
  stage.refresh(context);
  stage.forward(context);
  stage.backward(context, gradient.data());
  return {y.read(), dx.read(), gradient.get()};
}

class ConvStages : public testing::TestWithParam<StageCase> {
 protected:
  /// f(description, options, in a fixed order) for tiles, small ones, whole tensors, and sums in a fixed order.
  template <class F>
  static void for_cuts(const F& f) {
    if (!kOnHost) return f("whole", ConvPassOptions{.tiles = false}, false);
    for (const std::string name : {"auto", "direct", "kokkos"}) {
      const ConvRequest conv = testing_support::conv_request(name);
      f(name, ConvPassOptions{.conv = conv}, false);
      f(name + " in small tiles", ConvPassOptions{.conv = conv, .cache_share = 1e-9}, true);
      f(name + " whole", ConvPassOptions{.conv = conv, .tiles = false}, false);
    }
  }

  /// Relative L2 difference of results whose sums have another order: in bf16 each may be rounded to a neighbour, 2^-8
  /// away.
  static double tolerance_of_order() { return GetParam().type == DType::kF32 ? 1e-6 : std::ldexp(1.0, -8); }
};

TEST_P(ConvStages, AddToGradients) {
  for_cuts([&](const std::string& how, const ConvPassOptions& kernels, bool fixed_order) {
    const Results written = run(GetParam(), kernels, fixed_order, {}),
                  added = run(GetParam(), kernels, fixed_order, {.adds = true}),
                  sliced = run(GetParam(), kernels, fixed_order, {.x = 5, .adds = true});
    EXPECT_EQ(added.gradient, written.gradient) << how;
    ASSERT_EQ(added.dx.size(), written.dx.size());
    for (std::size_t i = 0; i < written.dx.size(); ++i) {
      float before = testing_support::number(static_cast<std::uint32_t>(i), kOfDx), sum = 0;
      if (GetParam().type == DType::kF32) {
        sum = before + written.dx[i];
      } else {
        sum = static_cast<float>(Bf16(static_cast<float>(Bf16(before)) + written.dx[i]));
      }
      ASSERT_EQ(added.dx[i], sum) << how << ", element " << i;
    }
    EXPECT_EQ(sliced.dx, added.dx) << how;  // the kernel writes the same dense tile
  });
}

// Where y is dense kernels write it and read dy; otherwise they work on dense tiles that are copied.
TEST_P(ConvStages, WriteWithoutACopyWhereNothingFollows) {
  const auto error = [](const std::vector<float>& found, const std::vector<float>& expected) {
    return testing_support::relative_l2({found.begin(), found.end()}, {expected.begin(), expected.end()});
  };
  const double tolerance = tolerance_of_order();
  for_cuts([&](const std::string& how, const ConvPassOptions& kernels, bool fixed_order) {
    for (const bool bare : {false, true}) {
      const Results direct = run(GetParam(), kernels, fixed_order, {.linear = true, .bare = bare}),
                    copied = run(GetParam(), kernels, fixed_order, {.y = 3, .dy = 5, .linear = true, .bare = bare});
      EXPECT_EQ(direct.y, copied.y) << how;
      EXPECT_EQ(direct.dx, copied.dx) << how;
      EXPECT_LE(error(direct.gradient, copied.gradient), tolerance) << how;  // transposed: other tiles
    }
  });
}

// Other implementations may take slices than dense operands (first layers): their sums differ in rounding.
TEST_P(ConvStages, TakeSlices) {
  for_cuts([&](const std::string& how, const ConvPassOptions& kernels, bool fixed_order) {
    const Results dense = run(GetParam(), kernels, fixed_order, {}),
                  sliced = run(GetParam(), kernels, fixed_order, {.x = 6, .y = 10, .dy = 7});
    const auto error = [](const std::vector<float>& found, const std::vector<float>& expected) {
      return testing_support::relative_l2({found.begin(), found.end()}, {expected.begin(), expected.end()});
    };
    const double tolerance = tolerance_of_order();
    EXPECT_LE(error(sliced.y, dense.y), tolerance) << how;
    EXPECT_LE(error(sliced.dx, dense.dx), tolerance) << how;
    EXPECT_LE(error(sliced.gradient, dense.gradient), tolerance) << how;
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, ConvStages, testing::ValuesIn(kCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace petaflow
