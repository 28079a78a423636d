// Epilogues: every case forward and backward against the formulas of epilogue.hpp in double, whole and in boxes.
#include <limits>

#include "kernels/epilogue.hpp"
#include "op_cases.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::largest_error;
using testing_support::number;

constexpr int kGap = 3;  // channels of somebody else between the pixels of y
constexpr float kTheirs = 777;

struct Values {
  std::vector<double> y, dv, bias_gradient;
};

/// Numbers of a case in T; many are equal, few are NaN, and many sums of v and bias are 0.
template <class T>
struct Given {
  explicit Given(const EpilogueDesc& desc)
      : v(static_cast<std::size_t>(desc.v.elements())),
        dy(static_cast<std::size_t>(desc.y.elements())),
        bias(static_cast<std::size_t>(desc.bias ? desc.v.c : 0)) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<T>(coarse(i, 1));
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<T>(number(static_cast<std::uint32_t>(i), 2));
    for (std::size_t i = 0; i < bias.size(); ++i)
      bias[i] = i % 3 == 0 ? number(static_cast<std::uint32_t>(i), 3) : coarse(i, 3);
    const auto step = static_cast<std::size_t>(13 * desc.pool.window.volume() + 4);
    for (std::size_t i = 3; i < v.size(); i += step) v[i] = static_cast<T>(NAN);
    for (int n = 0; n < desc.v.n; ++n) samples.push_back((std::int64_t{1} << 33) + 5 - 2 * n);
  }
  static float coarse(std::size_t i, std::uint32_t seed) {
    return std::floor(number(static_cast<std::uint32_t>(i), seed) * 8) / 8;
  }

  std::vector<T> v, dy;
  std::vector<float> bias;
  std::vector<std::int64_t> samples;
};

StepState step_state() {
  StepState state;
  state.seed = 11, state.epoch = 4;
  return state;
}

/// Draw `channel % 8` of the block of the pixel's eight channels.
bool keeps(const EpilogueDesc& desc, std::int64_t sample, std::int64_t pixel, std::int64_t channel) {
  const RandomStream stream = layer_stream(step_state(), RandomPurpose::kDropout, desc.layer);
  const RandomBlock block = stream(static_cast<std::uint64_t>(sample),
                                   static_cast<std::uint64_t>(pixel * ((desc.y.c + 7) / 8) + channel / 8));
  const std::uint32_t draw = block.word[channel % 8 / 2] >> (16 * (channel % 2)) & 0xFFFFU;
  return draw >= std::lround(desc.dropout * 65536.0F);
}

/// The definition, one element of y after the other.
template <class T>
Values expected_values(const EpilogueDesc& desc, const Given<T>& given, bool training) {
  Values e;
  e.y.resize(given.dy.size()), e.dv.resize(given.v.size());
  e.bias_gradient.resize(static_cast<std::size_t>(desc.v.c));
  const PoolGeometry& pool = desc.pool;
  const auto value_at = [&](std::size_t v, std::int64_t c) {
    const double bias = desc.bias ? static_cast<double>(given.bias[static_cast<std::size_t>(c)]) : 0;
    return static_cast<double>(static_cast<float>(given.v[v])) + bias;
  };
  const auto slope_at = [&](double value) {
    return value > 0 || !desc.activation ? 1 : static_cast<double>(desc.negative_slope);
  };
  for (std::int64_t i = 0; i < desc.y.elements(); ++i) {
    const std::int64_t c = i % desc.y.c, pixel = i / desc.y.c % desc.y.pixels(), n = i / desc.y.sample_size();
    const std::int64_t w0 = pixel % desc.y.w * pool.stride.w - pool.pad.w,
                       h0 = pixel / desc.y.w % desc.y.h * pool.stride.h - pool.pad.h,
                       d0 = pixel / desc.y.w / desc.y.h * pool.stride.d - pool.pad.d;
    std::vector<std::size_t> window;
    for (std::int64_t d = std::max<std::int64_t>(0, d0); d < std::min(d0 + pool.window.d, desc.v.d); ++d)
      for (std::int64_t h = std::max<std::int64_t>(0, h0); h < std::min(h0 + pool.window.h, desc.v.h); ++h)
        for (std::int64_t w = std::max<std::int64_t>(0, w0); w < std::min(w0 + pool.window.w, desc.v.w); ++w)
          window.push_back(
              static_cast<std::size_t>((((n * desc.v.d + d) * desc.v.h + h) * desc.v.w + w) * desc.v.c + c));
    if (pool.kind != PoolKind::kAverage) {  // of equal values the first, of NaN the last
      std::size_t best = window.front();
      for (const std::size_t v : window) {
        const double value = value_at(v, c);
        if (value > value_at(best, c) || std::isnan(value)) best = v;
      }
      window = {best};
    }
    const bool drops = training && desc.dropout > 0;
    const bool kept = !drops || keeps(desc, given.samples[static_cast<std::size_t>(n)], pixel, c);
    if (!kept) continue;
    const double scale = (drops ? 1 / (1 - static_cast<double>(desc.dropout)) : 1) /
                         static_cast<double>(pool.kind == PoolKind::kAverage ? pool.window.volume() : 1);
    for (const std::size_t v : window) {
      const double value = value_at(v, c), slope = slope_at(value);
      const double gradient =
          scale * slope * static_cast<double>(static_cast<float>(given.dy[static_cast<std::size_t>(i)]));
      e.y[static_cast<std::size_t>(i)] += scale * slope * value;
      e.dv[v] += gradient;
      e.bias_gradient[static_cast<std::size_t>(c)] += gradient;
    }
  }
  return e;
}

/// Boxes of so many planes and rows of one sample; of all samples where they hold all rows.
std::vector<RowBox> boxes_of(const Shape& shape, std::int64_t planes, std::int64_t rows) {
  if (planes >= shape.d && rows >= shape.h) return {whole_box(shape)};
  std::vector<RowBox> boxes;
  for (std::int64_t n = 0; n < shape.n; ++n)
    for (std::int64_t d = 0; d < shape.d; d += planes)
      for (std::int64_t h = 0; h < shape.h; h += rows)
        boxes.push_back({{n, n + 1}, {d, std::min(d + planes, shape.d)}, {h, std::min(h + rows, shape.h)}});
  return boxes;
}

/// Calls f(place in the tensor, place in the dense buffer of the box, elements) for every row.
template <class F>
void for_rows(const Shape& shape, const RowBox& box, const F& f) {
  const std::int64_t row = shape.w * shape.c;
  std::int64_t at = 0;
  for (std::int64_t n = box.sample.begin; n < box.sample.end; ++n)
    for (std::int64_t d = box.d.begin; d < box.d.end; ++d)
      for (std::int64_t h = box.h.begin; h < box.h.end; ++h, at += row)
        f(((n * shape.d + d) * shape.h + h) * row, at, row);
}

template <class T>
std::vector<double> doubles(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(static_cast<double>(static_cast<float>(value)));
  return result;
}

/// An epilogue with its tensors; the pixels of y and dy lie channels + gap apart.
template <class T>
class Runner {
 public:
  Runner(const EpilogueDesc& desc, const Given<T>& given, std::int64_t gap)
      : desc_(desc),
        given_(given),
        gap_(gap),
        bias_(given.bias),
        y_(spread(given.dy)),
        dy_(spread(given.dy)),
        saved_(std::vector<std::uint8_t>(static_cast<std::size_t>(desc.v.n * desc.saved_bytes_per_sample()), kPoison)),
        samples_(given.samples),
        state_(std::vector<StepState>{[&] {
          StepState state = step_state();
          state.sample = samples_.data();
          return state;
        }()}),
        context_(testing_support::context_for(2)),
        epilogue_(desc, desc.bias ? bias_.data() : nullptr, tensor(y_), tensor(dy_),
                  desc.saves() ? saved_.data() : nullptr) {
    context_.step = state_.data();
  }

  /// By the kernels for whole tensors; those have no gradient of the bias.
  Values whole() {
    forget();
    const DeviceArray<T> v(given_.v), dv(std::vector<T>(given_.v.size(), static_cast<T>(NAN)));
    epilogue_.forward_all(context_, "test", v.data());
    epilogue_.backward_all(context_, "test", dv.data());
    return {result(), doubles(dv.get()), {}};
  }

  /// In boxes of so many planes and rows, of y and then of v.
  Values in_boxes(std::int64_t planes, std::int64_t rows) {
    forget();
    std::vector<T> dv(given_.v.size(), static_cast<T>(NAN));
    for (const RowBox& box : boxes_of(desc_.y, planes, rows)) {
      const RowBox under = epilogue_.v_under(box);
      std::vector<T> buffer(static_cast<std::size_t>(under.rows() * desc_.v.w * desc_.v.c));
      for_rows(desc_.v, under, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        std::copy_n(given_.v.begin() + from, count, buffer.begin() + to);
      });
      epilogue_.forward(context_, box, under, buffer.data());
    }
    std::vector<float> some(static_cast<std::size_t>(desc_.v.c));
    std::vector<double> total(some.size());
    for (const RowBox& box : boxes_of(desc_.v, planes, rows)) {
      std::vector<T> buffer(static_cast<std::size_t>(box.rows() * desc_.v.w * desc_.v.c), static_cast<T>(NAN));
      epilogue_.backward(context_, box, buffer.data(), {some.data(), total.data()});
      for_rows(desc_.v, box, [&](std::int64_t to, std::int64_t from, std::int64_t count) {
        std::copy_n(buffer.begin() + from, count, dv.begin() + to);
      });
    }
    EXPECT_EQ(some, std::vector<float>(some.size()));
    return {result(), doubles(dv), total};
  }

  /// Without dropout, and nothing is kept.
  std::vector<double> evaluate() {
    forget();
    context_.training = false;
    const DeviceArray<T> v(given_.v);
    epilogue_.forward_all(context_, "test", v.data());
    const std::vector<std::uint8_t> saved = saved_.get();
    EXPECT_EQ(saved, std::vector<std::uint8_t>(saved.size(), kPoison));
    context_.training = true;
    return result();
  }

 private:
  static constexpr std::uint8_t kPoison = 0xA5;

  /// What earlier runs wrote.
  void forget() {
    y_.set(spread(std::vector<T>(given_.dy.size(), static_cast<T>(NAN))));
    saved_.set(std::vector<std::uint8_t>(saved_.get().size(), kPoison));
  }
  std::vector<T> spread(const std::vector<T>& dense) const {
    const auto channels = static_cast<std::size_t>(desc_.y.c), pixels = dense.size() / channels;
    std::vector<T> wide(pixels * (channels + static_cast<std::size_t>(gap_)), static_cast<T>(kTheirs));
    for (std::size_t i = 0; i < dense.size(); ++i) wide[i + i / channels * static_cast<std::size_t>(gap_)] = dense[i];
    return wide;
  }
  Tensor tensor(const DeviceArray<T>& array) const { return {desc_.y, desc_.type, desc_.y.c + gap_, array.data()}; }
  /// y without the gaps, which must be as they were.
  std::vector<double> result() const {
    const std::vector<T> wide = y_.get();
    std::vector<T> dense;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      if (static_cast<std::int64_t>(i) % (desc_.y.c + gap_) < desc_.y.c) {
        dense.push_back(wide[i]);
      } else {
        EXPECT_EQ(static_cast<float>(wide[i]), static_cast<float>(static_cast<T>(kTheirs)));
      }
    }
    return doubles(dense);
  }

  EpilogueDesc desc_;
  const Given<T>& given_;
  std::int64_t gap_;
  DeviceArray<float> bias_;
  DeviceArray<T> y_, dy_;
  DeviceArray<std::uint8_t> saved_;
  DeviceArray<std::int64_t> samples_;
  DeviceArray<StepState> state_;
  Context context_;
  Epilogue epilogue_;
};

/// The same, with NaN that compares equal.
std::vector<double> comparable(std::vector<double> values) {
  for (double& value : values) value = std::isnan(value) ? 1e6 : value;
  return values;
}

class Epilogues : public testing::TestWithParam<cases::EpilogueCase> {
 protected:
  template <class T>
  void compare() {
    const EpilogueDesc desc = GetParam().desc(kDTypeOf<T>);
    const Given<T> given(desc);
    const Values expected = expected_values(desc, given, true), evaluated = expected_values(desc, given, false);
    // Without means and odd scales the numbers are rounded once.
    const bool one_pixel = desc.pool.kind != PoolKind::kAverage;
    const bool exact = one_pixel && (desc.dropout == 0 || desc.dropout == 0.5F);
    for (const int gap : {0, kGap}) {
      Runner<T> runner(desc, given, gap);
      expect_near<T>(runner.evaluate(), evaluated.y, one_pixel, "y of an evaluation");
      const Values whole = runner.whole();
      expect_near<T>(whole.y, expected.y, exact, "y");
      expect_near<T>(whole.dv, expected.dv, exact, "dv");
      if (!kOnHost) continue;  // boxes are for the host
      const double sum =
          testing_support::root_mean_square(expected.dv) * std::sqrt(static_cast<double>(desc.v.n * desc.v.pixels()));
      for (const auto& [planes, rows] : {std::pair{1, 1}, {1, 3}, {2, 2}, {1000, 1000}}) {
        const Values found = runner.in_boxes(planes, rows);
        const std::string what = fmt::format("{} planes, {} rows, gap {}", planes, rows, gap);
        EXPECT_EQ(comparable(found.y), comparable(whole.y)) << what;
        EXPECT_EQ(found.dv, whole.dv) << what;
        EXPECT_LE(largest_error(found.bias_gradient, expected.bias_gradient, sum), 2e-6) << what;
      }
    }
  }

 private:
  template <class T>
  static void expect_near(const std::vector<double>& found, std::vector<double> expected, bool exact,
                          const char* what) {
    constexpr double kTolerance = kDTypeOf<T> == DType::kF32 ? 2e-6 : 1.001 / 256;  // half a unit in the last place
    if (exact) {
      for (double& value : expected) value = testing_support::rounded<T>(static_cast<float>(value));
      EXPECT_EQ(comparable(found), comparable(expected)) << what;
    } else {
      EXPECT_LE(largest_error(comparable(found), comparable(expected), 0.1), kTolerance) << what;
    }
  }
};

TEST_P(Epilogues, MatchTheDefinition) { compare<float>(); }
TEST_P(Epilogues, MatchTheDefinitionInBf16) { compare<Bf16>(); }

INSTANTIATE_TEST_SUITE_P(Cases, Epilogues, testing::ValuesIn(cases::kEpilogueCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

// As in PyTorch: of equal values the first one gets the gradient, a NaN before all numbers, and of several the last.
TEST(MaxPooling, EqualValuesAndNan) {
  const cases::EpilogueCase c{"", {1, 1, 1, 1, 16}, cases::largest({1, 1, 4})};
  const EpilogueDesc desc = c.desc(DType::kF32);
  const float infinity = std::numeric_limits<float>::infinity();
  Given<float> given(desc);
  given.v = {1, 2, 2, 0, 3, NAN, infinity, NAN, NAN, 1, 0, 5, -infinity, -infinity, -3, -3};
  given.dy = {1, 2, 3, 4};
  const std::vector<double> y = {2, NAN, NAN, -3}, dv = {0, 1, 0, 0, 0, 0, 0, 2, 3, 0, 0, 0, 0, 0, 4, 0};
  const Values found = Runner<float>(desc, given, 0).whole();
  EXPECT_EQ(comparable(found.y), comparable(y));
  EXPECT_EQ(found.dv, dv);
}

}  // namespace
}  // namespace petaflow
