// Mean absolute and mean squared error against closed forms, their padding, and their gradients.
#include <limits>

#include "base/error.hpp"
#include "nn/loss.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::numbers;

struct Result {
  std::vector<float> loss, scores, gradient;
};

Result run(RegressionError error, std::int64_t channels, const std::vector<float>& outputs,
           const std::vector<float>& targets, const std::vector<float>& weights, float loss_scale,
           bool with_gradient = true) {
  const auto n = static_cast<std::int64_t>(weights.size());
  const DeviceArray<float> x(outputs), target(targets), weight(weights);
  const DeviceArray<float> loss(std::vector<float>(weights.size(), NAN)),
      scores(std::vector<float>(outputs.size(), NAN)), gradient(std::vector<float>(outputs.size(), NAN));
  StepState state;
  state.weight = weight.data(), state.loss_scale = loss_scale;
  const DeviceArray<StepState> step(std::vector<StepState>{state});
  Context context = testing_support::context_for(2);
  context.step = step.data();
  const auto tensor = [&](const DeviceArray<float>& values) {
    return Tensor::dense({n, channels}, DType::kF32, values.data());
  };
  LossOperands operands;
  operands.output = tensor(x), operands.target = target.data(), operands.scores = tensor(scores),
  operands.losses = loss.data();
  if (with_gradient) operands.doutput = tensor(gradient);
  RegressionLoss(error).run(context, operands);
  return {loss.get(), scores.get(), gradient.get()};
}

// Differences 1, -2, 0 and 0.5, 0.5, -4; weights 1 and 3.
TEST(RegressionLoss, CountedByHand) {
  const std::vector<float> outputs = {1, -1, 4, 0, 1.5F, -2}, targets = {0, 1, 4, -0.5F, 1, 2}, weights = {1, 3};
  const Result absolute = run(RegressionError::kAbsolute, 3, outputs, targets, weights, 0.5F);
  EXPECT_EQ(absolute.loss, (std::vector<float>{1, 5}));
  EXPECT_EQ(absolute.scores, outputs);
  EXPECT_EQ(absolute.gradient, (std::vector<float>{0.5F / 3, -0.5F / 3, 0, 0.5F, 0.5F, -0.5F}));
  const Result squared = run(RegressionError::kSquared, 3, outputs, targets, weights, 0.5F);
  EXPECT_EQ(squared.loss, (std::vector<float>{5.0F / 3, 16.5F}));
  EXPECT_EQ(squared.scores, outputs);
  const std::vector<float> expected = {1.0F / 3, -2.0F / 3, 0, 0.5F, 0.5F, -4};
  for (std::size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(squared.gradient[i], expected[i]) << i;
}

TEST(RegressionLoss, PaddingIsExactlyZeroWhateverItHolds) {
  const float huge = std::numeric_limits<float>::max();
  for (const RegressionError error : {RegressionError::kAbsolute, RegressionError::kSquared}) {
    const Result found = run(error, 2, {NAN, huge, 1, 2, INFINITY, 0}, {0, -huge, 0, 0, NAN, 0}, {0, 1, 0}, 1);
    EXPECT_EQ(found.loss[0], 0);
    EXPECT_EQ(found.loss[1], error == RegressionError::kAbsolute ? 1.5F : 2.5F);
    EXPECT_EQ(found.loss[2], 0);
    for (const std::size_t i : {0, 1, 4, 5}) EXPECT_EQ(found.gradient[i], 0) << i;
  }
}

TEST(RegressionLoss, NanShows) {
  for (const RegressionError error : {RegressionError::kAbsolute, RegressionError::kSquared}) {
    const Result found = run(error, 2, {NAN, 1}, {0, 0}, {1}, 1);
    EXPECT_TRUE(std::isnan(found.loss[0]));
    EXPECT_TRUE(std::isnan(found.gradient[0]));
    EXPECT_FALSE(std::isnan(found.gradient[1]));
  }
}

TEST(RegressionLoss, GradientMatchesDifferences) {
  const std::int64_t n = 7, channels = 5;
  const std::vector<float> outputs = numbers(n * channels, 1), targets = numbers(n * channels, 2),
                           direction = numbers(n * channels, 3);
  std::vector<float> weights = numbers(n, 4);
  for (float& weight : weights) weight = std::abs(weight);
  for (const RegressionError error : {RegressionError::kAbsolute, RegressionError::kSquared}) {
    const auto loss = [&](double h) {
      double sum = 0;
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        const double difference =
            static_cast<double>(outputs[i]) + h * static_cast<double>(direction[i]) - static_cast<double>(targets[i]);
        sum += static_cast<double>(weights[i / channels]) / channels *
               (error == RegressionError::kSquared ? difference * difference : std::abs(difference));
      }
      return sum;
    };
    const Result found = run(error, channels, outputs, targets, weights, 0.25F);
    double slope = 0, total = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      slope += static_cast<double>(direction[i]) * static_cast<double>(found.gradient[i]) / 0.25;
    for (const float value : found.loss) total += static_cast<double>(value);
    EXPECT_NEAR(slope, (loss(1e-4) - loss(-1e-4)) / 2e-4, 1e-5);
    EXPECT_NEAR(total, loss(0), 1e-5);
    EXPECT_EQ(run(error, channels, outputs, targets, weights, 0.25F, false).loss, found.loss);
  }
}

}  // namespace
}  // namespace petaflow
