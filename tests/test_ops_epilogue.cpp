// Epilogues: every case forward and backward against the formulas of epilogue.hpp in double, whole and in boxes.
#include <limits>

#include "epilogue_reference.hpp"
#include "kernels/epilogue.hpp"
#include "op_cases.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::doubles;
using testing_support::largest_error;
using testing_support::number;

constexpr int kGap = 3;  // channels of somebody else between the pixels of y
constexpr float kTheirs = 777;

struct Values {
  std::vector<double> y, dv, bias_gradient;
};

/// Numbers of a case in T; many are equal, few are NaN, many sums of v and bias are 0, and scales are such that z is
/// exact.
template <class T>
struct Given {
  explicit Given(const EpilogueDesc& desc, bool scaled = false, bool adds = false)
      : v(static_cast<std::size_t>(desc.v.elements())),
        dy(static_cast<std::size_t>(desc.y.elements())),
        residual(adds ? v.size() : 0),
        bias(static_cast<std::size_t>(desc.bias ? desc.v.c : 0)),
        scale(static_cast<std::size_t>(scaled ? desc.v.c : 0)) {
    for (std::size_t i = 0; i < residual.size(); ++i) residual[i] = static_cast<T>(coarse(i, 4));
    for (std::size_t i = 0; i < scale.size(); ++i) scale[i] = (i % 2 == 0 ? 1.0F : -1.0F) * (i % 3 == 0 ? 0.5F : 2.0F);
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

  std::vector<T> v, dy, residual;
  std::vector<float> bias, scale;
  std::vector<std::int64_t> samples;
};

template <class T>
Values expected_values(const EpilogueDesc& desc, const Given<T>& given, bool training) {
  std::vector<double> z = doubles(given.v);
  const auto channels = static_cast<std::size_t>(desc.v.c);
  for (std::size_t i = 0; i < z.size(); ++i) {
    if (!given.scale.empty()) z[i] *= static_cast<double>(given.scale[i % channels]);
    if (!given.bias.empty()) z[i] += static_cast<double>(given.bias[i % channels]);
    if (!given.residual.empty()) z[i] += static_cast<double>(static_cast<float>(given.residual[i]));
  }
  const auto [y, dv] = testing_support::epilogue_reference(desc, z, doubles(given.dy), given.samples, training);
  Values e{y, dv, std::vector<double>(channels)};
  for (std::size_t i = 0; i < dv.size(); ++i) e.bias_gradient[i % channels] += dv[i];
  return e;
}

/// Boxes of so many planes and rows of one sample; of all samples where they hold all rows.
std::vector<TileRange> boxes_of(const Shape& shape, std::int64_t planes, std::int64_t rows) {
  if (planes >= shape.d && rows >= shape.h) return {whole_range(shape)};
  std::vector<TileRange> boxes;
  for (std::int64_t n = 0; n < shape.n; ++n)
    for (std::int64_t d = 0; d < shape.d; d += planes)
      for (std::int64_t h = 0; h < shape.h; h += rows)
        boxes.push_back({{n, n + 1}, {d, std::min(d + planes, shape.d)}, {h, std::min(h + rows, shape.h)}});
  return boxes;
}

/// Calls f(place in the tensor, place in the dense buffer of the box, elements) for every row.
template <class F>
void for_rows(const Shape& shape, const TileRange& box, const F& f) {
  const std::int64_t row = shape.w * shape.c;
  std::int64_t at = 0;
  for (std::int64_t n = box.sample.begin; n < box.sample.end; ++n)
    for (std::int64_t d = box.d.begin; d < box.d.end; ++d)
      for (std::int64_t h = box.h.begin; h < box.h.end; ++h, at += row)
        f(((n * shape.d + d) * shape.h + h) * row, at, row);
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
        scale_(given.scale),
        residual_(spread(given.residual)),
        y_(spread(given.dy)),
        dy_(spread(given.dy)),
        saved_(std::vector<std::uint8_t>(static_cast<std::size_t>(desc.v.n * desc.saved_bytes_per_sample()), kPoison)),
        samples_(given.samples),
        state_(std::vector<StepState>{[&] {
          StepState state = testing_support::step_state();
          state.sample = samples_.data();
          return state;
        }()}),
        context_(testing_support::context_for(2)),
        epilogue_(desc, desc.bias ? bias_.data() : nullptr, tensor(y_), tensor(dy_),
                  desc.saves() ? saved_.data() : nullptr,
                  {given.scale.empty() ? nullptr : scale_.data(),
                   given.residual.empty() ? Tensor{} : Tensor{desc.v, desc.type, desc.v.c + gap, residual_.data()}}) {
    context_.step = state_.data();
  }

  /// By the kernels for whole tensors, v with gaps as well; those have no gradient of the bias.
  Values whole() {
    forget();
    const DeviceArray<T> v(spread(given_.v)), dv(spread(std::vector<T>(given_.v.size(), static_cast<T>(NAN))));
    epilogue_.forward_all(context_, "test", v.data(), desc_.v.c + gap_);
    epilogue_.backward_all(context_, "test", dv.data(), desc_.v.c + gap_);
    return {result(), without_gaps(dv), {}};
  }

  /// In boxes of so many planes and rows, of y and then of v.
  Values in_boxes(std::int64_t planes, std::int64_t rows) {
    forget();
    std::vector<T> dv(given_.v.size(), static_cast<T>(NAN));
    for (const TileRange& box : boxes_of(desc_.y, planes, rows)) {
      const TileRange under = epilogue_.v_under(box);
      std::vector<T> buffer(static_cast<std::size_t>(under.rows() * desc_.v.w * desc_.v.c));
      for_rows(desc_.v, under, [&](std::int64_t from, std::int64_t to, std::int64_t count) {
        std::copy_n(given_.v.begin() + from, count, buffer.begin() + to);
      });
      epilogue_.forward(context_, box, under, buffer.data());
    }
    std::vector<float> some(static_cast<std::size_t>(desc_.v.c));
    std::vector<double> total(some.size());
    for (const TileRange& box : boxes_of(desc_.v, planes, rows)) {
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

  /// Forgets the results of earlier runs.
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
  std::vector<double> result() const { return without_gaps(y_); }
  /// Without the gaps, which must be as they were.
  std::vector<double> without_gaps(const DeviceArray<T>& array) const {
    const std::vector<T> wide = array.get();
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
  DeviceArray<float> bias_, scale_;
  DeviceArray<T> residual_, y_, dy_;
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
    const Given<T> given(desc, GetParam().scale, GetParam().residual);
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
    constexpr double kTolerance = 2e-6 + (is_rounded(kDTypeOf<T>) ? testing_support::roundoff(kDTypeOf<T>) : 0);
    if (exact) {
      for (double& value : expected) value = testing_support::rounded<T>(static_cast<float>(value));
      EXPECT_EQ(comparable(found), comparable(expected)) << what;
    } else {
      EXPECT_LE(largest_error(comparable(found), comparable(expected), 0.1), kTolerance) << what;
    }
  }
};

TEST_P(Epilogues, MatchTheDefinition) { compare<float>(); }
TEST_P(Epilogues, MatchTheDefinitionRounded) {
  testing_support::for_rounded_types([this]<class T>(T) { compare<T>(); });
}

INSTANTIATE_TEST_SUITE_P(Cases, Epilogues, testing::ValuesIn(cases::kEpilogueCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(Activation, AloneKeepsABit) {
  EpilogueDesc desc;
  desc.v = desc.y = {1, 12, 1, 5, 6};
  desc.activation = true;
  EXPECT_EQ(desc.saved_bytes_per_sample(), 30 * 2);
  desc.dropout = 0.5F;
  EXPECT_EQ(desc.saved_bytes_per_sample(), 30 * 12);
}

// An evaluation walks rows of pixels where training, which draws, walks single pixels: 0 times a negative number is -0
// in both.  (An activation without dropout in its description begins a mean with 0 instead.)
TEST(Activation, BehindWhichNothingIsDroppedKeepsTheSignOfZero) {
  EpilogueDesc desc;
  desc.v = desc.y = {1, 24, 1, 2, 40};
  desc.activation = true;
  desc.dropout = 0.5F;
  const Given<float> given(desc);
  const std::vector<double> y = Runner<float>(desc, given, 0).evaluate();
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (given.v[i] < 0) {
      EXPECT_TRUE(y[i] == 0 && std::signbit(y[i])) << i;
    }
  }
}

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
