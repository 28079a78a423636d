// Softmax cross-entropy at every pixel against a plain loop in double, by hand, and its gradient by differences.
#include <algorithm>
#include <limits>

#include "kernels/pixel_softmax_xent.hpp"
#include "op_cases.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::numbers;

constexpr float kLossScale = 0.25F, kScale = 1.5F;

struct Inputs {
  cases::PixelSoftmaxCase c;
  std::vector<float> logits, class_weights, weights;
  std::vector<std::uint8_t> map;

  std::size_t pixels() const { return static_cast<std::size_t>(c.logits.pixels()); }
  std::size_t classes() const { return static_cast<std::size_t>(c.logits.c); }
  bool counts(std::size_t pixel) const { return map[pixel] != c.ignored; }
  double class_weight(std::size_t pixel) const {
    return class_weights.empty() ? 1.0 : static_cast<double>(class_weights[map[pixel]]);
  }
};

Inputs inputs_of(const cases::PixelSoftmaxCase& c) {
  Inputs in{c, numbers(c.logits.elements(), 1), {}, numbers(c.logits.n, 2), {}};
  for (float& logit : in.logits) logit *= 10;
  for (float& weight : in.weights) weight = std::abs(weight) + 0.25F;
  if (c.weighted) {
    in.class_weights = numbers(c.logits.c, 3);
    for (float& weight : in.class_weights) weight = std::abs(weight) + 0.1F;
  }
  for (std::int64_t p = 0; p < c.logits.n * c.logits.pixels(); ++p) {
    const auto any = static_cast<std::int64_t>(32768 * (1 + testing_support::number(static_cast<std::uint32_t>(p), 4)));
    in.map.push_back(static_cast<std::uint8_t>(any % c.logits.c));
    if (c.ignored >= c.logits.c && p % 3 == 0) in.map.back() = static_cast<std::uint8_t>(c.ignored);
  }
  return in;
}

struct Result {
  std::vector<float> loss, probabilities, dlogits;
};

Result run(const Inputs& in, bool with_gradient = true, bool with_probabilities = true) {
  const Shape& shape = in.c.logits;
  const DeviceArray<float> x(in.logits), weight(in.weights), class_weights(in.class_weights);
  const DeviceArray<std::uint8_t> map(in.map);
  const std::vector<float> nans(in.logits.size(), NAN);
  const DeviceArray<float> loss(std::vector<float>(in.weights.size(), NAN)), p(nans), dx(nans);
  const DeviceArray<std::byte> scratch(pixel_softmax_scratch_bytes(shape));
  StepState state;
  state.weight = weight.data(), state.loss_scale = kLossScale;
  const DeviceArray<StepState> step(std::vector<StepState>{state});
  Context context = testing_support::context_for(2);
  context.step = step.data();
  PixelSoftmax args;
  args.logits = Tensor::dense(shape, DType::kF32, x.data());
  args.map = map.data(), args.scale = kScale, args.ignored = in.c.ignored, args.focus = in.c.focus;
  args.class_weights = in.class_weights.empty() ? nullptr : class_weights.data();
  args.probabilities = with_probabilities ? p.data() : nullptr;
  args.loss = loss.data(), args.scratch = scratch.data();
  if (with_gradient) args.dlogits = Tensor::dense(shape, DType::kF32, dx.data());
  pixel_softmax_cross_entropy(context, args);
  return {loss.get(), p.get(), dx.get()};
}

struct Reference {
  std::vector<double> loss, probabilities, dlogits;
};

/// As PyTorch's cross_entropy(reduction="none", weight, ignore_index), summed over the pixels of a sample and divided
/// by the number of those that count.  Logits move by `h` along a direction.
Reference reference(const Inputs& in, double h = 0) {
  const std::size_t classes = in.classes(), pixels = in.pixels();
  Reference out{std::vector<double>(in.weights.size()), std::vector<double>(in.logits.size()),
                std::vector<double>(in.logits.size())};
  for (std::size_t n = 0; n < in.weights.size(); ++n) {
    double counted = 0;
    for (std::size_t p = n * pixels; p < (n + 1) * pixels; ++p) counted += in.counts(p) ? 1 : 0;
    for (std::size_t p = n * pixels; p < (n + 1) * pixels; ++p) {
      const auto at = [&](std::size_t c) {
        return static_cast<double>(in.logits[p * classes + c]) +
               h * static_cast<double>(testing_support::number(static_cast<std::uint32_t>(p * classes + c), 6));
      };
      double sum = 0;
      for (std::size_t c = 0; c < classes; ++c) sum += std::exp(at(c));
      const double share = in.counts(p) ? static_cast<double>(in.weights[n]) * in.class_weight(p) / counted : 0;
      // d/dp of -(1 - p)^focus log p, times -p: what the gradient of a loss of focus 0 is multiplied by.
      double focal = 1, slope = 1;
      if (in.c.focus > 0 && share != 0) {
        const auto focus = static_cast<double>(in.c.focus);
        double others = 0;
        for (std::size_t c = 0; c < classes; ++c) others += c == in.map[p] ? 0 : std::exp(at(c));
        const double right = std::exp(at(in.map[p])) / sum, wrong = others / sum;
        focal = std::pow(wrong, focus);
        slope = wrong > 0 ? focal - focus * right * std::pow(wrong, focus - 1) * std::log1p(-wrong) : 0;
      }
      for (std::size_t c = 0; c < classes; ++c) {
        const double probability = std::exp(at(c)) / sum, target = c == in.map[p] ? 1 : 0;
        out.probabilities[p * classes + c] = probability;
        out.dlogits[p * classes + c] = share * slope * (probability - target);
      }
      if (share != 0) out.loss[n] += share * focal * (std::log(sum) - at(in.map[p]));
    }
  }
  return out;
}

std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

class PixelSoftmaxTest : public testing::TestWithParam<cases::PixelSoftmaxCase> {};

TEST_P(PixelSoftmaxTest, MatchesDouble) {
  const Inputs in = inputs_of(GetParam());
  const Result found = run(in);
  Reference expected = reference(in);
  for (double& gradient : expected.dlogits) gradient *= static_cast<double>(kLossScale * kScale);
  EXPECT_LE(testing_support::largest_error(doubles(found.loss), expected.loss, 1), 3e-6);
  EXPECT_LE(testing_support::largest_error(doubles(found.probabilities), expected.probabilities, 1e-3), 1e-5);
  EXPECT_LE(testing_support::largest_error(doubles(found.dlogits), expected.dlogits,
                                           std::max(testing_support::root_mean_square(expected.dlogits), 1e-6)),
            1e-5);
  EXPECT_EQ(run(in, false).loss, found.loss);
  EXPECT_EQ(run(in, true, false).dlogits, found.dlogits);
  EXPECT_EQ(run(in, false, false).loss, found.loss);
}

TEST_P(PixelSoftmaxTest, GradientMatchesDifferences) {
  const Inputs in = inputs_of(GetParam());
  const Result found = run(in);
  double slope = 0;
  for (std::uint32_t i = 0; i < found.dlogits.size(); ++i) {
    slope += static_cast<double>(found.dlogits[i]) * static_cast<double>(testing_support::number(i, 6));
  }
  const auto loss = [&](double h) {
    const std::vector<double> losses = reference(in, h).loss;
    double sum = 0;
    for (const double of_sample : losses) sum += of_sample;
    return sum;
  };
  EXPECT_NEAR(slope / static_cast<double>(kLossScale * kScale), (loss(1e-4) - loss(-1e-4)) / 2e-4, 2e-6);
}

INSTANTIATE_TEST_SUITE_P(All, PixelSoftmaxTest, testing::ValuesIn(cases::kPixelSoftmaxCases),
                         [](const auto& c) { return std::string("case_") + c.param.name; });

// Two pixels with p = (1/2, 1/2) and (1/4, 3/4) for classes 0 and 1 of weights 1 and 3: the mean is
// (ln 2 + 3 ln 4/3) / 2.
TEST(PixelSoftmax, CountedByHand) {
  Inputs in{{"", {1, 2, 1, 1, 2}, true}, {0, 0, 0, std::log(3.0F)}, {1, 3}, {2}, {0, 1}};
  const Result found = run(in);
  EXPECT_NEAR(found.loss[0], 2 * (std::log(2.0) + 3 * std::log(4.0 / 3)) / 2, 1e-6);
  EXPECT_NEAR(found.dlogits[0], 2 * -0.5 / 2 * kLossScale * kScale, 1e-7);
  EXPECT_NEAR(found.dlogits[3], 2 * 3 * -0.25 / 2 * kLossScale * kScale, 1e-7);
}

// The same pixels with a focus of 2: factors (1/2)^2 and (1/4)^2 of the losses.  Of the gradients they are q^2 - 2 p q
// log p.
TEST(PixelSoftmax, FocusCountedByHand) {
  Inputs in{{"", {1, 2, 1, 1, 2}, true, -1, 2}, {0, 0, 0, std::log(3.0F)}, {1, 3}, {2}, {0, 1}};
  const Result found = run(in);
  EXPECT_NEAR(found.loss[0], 2 * (std::log(2.0) / 4 + 3 * std::log(4.0 / 3) / 16) / 2, 1e-6);
  const double first = 0.25 + 0.5 * std::log(2.0), second = 1.0 / 16 + 3.0 / 8 * std::log(4.0 / 3);
  EXPECT_NEAR(found.dlogits[0], 2 * -0.5 / 2 * first * kLossScale * kScale, 1e-7);
  EXPECT_NEAR(found.dlogits[3], 2 * 3 * -0.25 / 2 * second * kLossScale * kScale, 1e-7);
}

// Sure and right: p is 1 in f32, 1 - p is e^-20; with a focus of 1/2 the gradient is 1.5 e^-10 times -e^-20.
TEST(PixelSoftmax, FocusKnowsHowSureAPixelIs) {
  Inputs in{{"", {1, 2, 1, 1, 1}, false, -1, 0.5F}, {20, 0}, {}, {1}, {0}};
  const Result found = run(in);
  EXPECT_NEAR(found.dlogits[1], 1.5 * std::exp(-30.0) * kLossScale * kScale, 1e-5 * std::exp(-30.0));
  EXPECT_NEAR(found.loss[0], std::exp(-30.0), 1e-5 * std::exp(-30.0));
  in.logits = {200, 0};  // 1 - p is 0, too
  EXPECT_EQ(run(in).loss[0], 0.0F);
  EXPECT_EQ(run(in).dlogits[1], 0.0F);
}

TEST(PixelSoftmax, PaddingAndSamplesWithoutPixelsThatCountAreExactlyZero) {
  Inputs in = inputs_of({"", {3, 3, 1, 9, 9}, false, 2});
  in.weights[0] = 0;
  std::fill_n(in.logits.begin(), 3 * 81, NAN);
  std::fill_n(in.map.begin() + 81, 81, std::uint8_t{2});
  const Result found = run(in);
  EXPECT_EQ(found.loss[0], 0.0F);
  EXPECT_EQ(found.loss[1], 0.0F);
  EXPECT_GT(found.loss[2], 0.0F);
  for (std::size_t i = 0; i < std::size_t{2} * 3 * 81; ++i) ASSERT_EQ(found.dlogits[i], 0.0F) << i;
}

TEST(PixelSoftmax, LargeLogitsStayFiniteNanAndWrongClassesShow) {
  const float huge = std::numeric_limits<float>::max() / 4;
  Inputs in{{"", {3, 2, 1, 1, 1}}, {huge, -huge, NAN, 0, 0, 0}, {}, {1, 1, 1}, {0, 0, 2}};
  const Result found = run(in);
  EXPECT_EQ(found.loss[0], 0.0F);
  EXPECT_TRUE(std::isnan(found.loss[1]));
  EXPECT_TRUE(std::isnan(found.loss[2]));
}

}  // namespace
}  // namespace petaflow
