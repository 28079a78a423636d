// The weighted sum of losses over several outputs: values, parts, gradients by differences, and what is refused.
#include <array>
#include <memory>
#include <numeric>

#include "nn/objective.hpp"
#include "op_support.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::error_of;
using testing_support::DeviceArray;
using testing_support::number;
using testing_support::numbers;

constexpr std::int64_t kSamples = 3;
constexpr float kLossScale = 0.5F;
const Shape kMap{kSamples, 3, 1, 6, 7}, kClass{kSamples, 4}, kNumbers{kSamples, 2};

/// A map, a class and numbers; in another order than the outputs 0, 1, 2.
std::vector<LossTerm> terms() {
  return {{2, "values", std::make_shared<RegressionLoss>(RegressionError::kSquared), 0.25},
          {0, "mask", std::make_shared<PixelSoftmaxLoss>(PixelSoftmaxOptions{{1, 2, 0.5F}, -1}), 3},
          {1, "kind", std::make_shared<SoftmaxLoss>(), 1}};
}

struct Fixture {
  Fixture() {
    for (std::int64_t p = 0; p < kSamples * kMap.pixels(); ++p) mask_host.push_back(static_cast<std::uint8_t>(p % 3));
    mask.set(mask_host);
    state.weight = weight.data(), state.loss_scale = kLossScale;
    step.set({state});
    context.step = step.data();
  }

  /// Losses of the samples and their sum where one output has moved by h along a fixed direction.
  struct Result {
    std::vector<double> losses;
    double total = 0;
    double slope = 0, size = 0;  // gradient times direction, and the sum of the products' absolute values
  };
  Result run(ObjectiveRun& losses, std::size_t moved = 0, float h = 0) {
    Result result;
    std::vector<DeviceArray<float>> x, dx;
    std::vector<Tensor> outputs, gradients;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const auto seed = static_cast<std::uint32_t>(10 * i);
      std::vector<float> host = numbers(shapes[i].elements(), seed);
      for (std::uint32_t e = 0; e < host.size() && i == moved; ++e) host[e] += h * number(e, 1);
      x.emplace_back(host);
      dx.emplace_back(std::vector<float>(host.size(), NAN));
      outputs.push_back(Tensor::dense(shapes[i], DType::kF32, x.back().data()));
      gradients.push_back(Tensor::dense(shapes[i], DType::kF32, dx.back().data()));
    }
    losses.run(context, std::array<const void*, 3>{values.data(), mask.data(), kind.data()}, outputs, {}, gradients);
    context.space.fence();
    const std::span<const double> found = losses.losses();
    result.losses.assign(found.begin(), found.end());
    result.total = std::accumulate(found.begin(), found.end(), 0.0);
    const std::vector<float> gradient = dx[moved].get();
    for (std::uint32_t e = 0; e < gradient.size(); ++e) {
      const double product = static_cast<double>(gradient[e]) * static_cast<double>(number(e, 1));
      result.slope += product;
      result.size += std::abs(product);
    }
    return result;
  }

  std::vector<Shape> shapes = {kMap, kClass, kNumbers};
  std::vector<std::uint8_t> mask_host;
  DeviceArray<float> values{numbers(kSamples * 2, 31)}, weight{std::vector<float>{0.5F, 0, 2}};
  DeviceArray<std::uint8_t> mask{static_cast<std::size_t>(kSamples * kMap.pixels())};
  DeviceArray<std::int32_t> kind{std::vector<std::int32_t>{1, 0, 3}};
  StepState state;
  DeviceArray<StepState> step{1};
  Context context = testing_support::context_for(2);
};

TEST(Objective, GradientOfTheWeightedSumMatchesDifferences) {
  Fixture fixture;
  const Objective objective(terms());
  ObjectiveRun losses(objective, fixture.shapes);
  constexpr float kStep = 1.0F / 64;
  for (std::size_t output = 0; output < fixture.shapes.size(); ++output) {
    const auto found = fixture.run(losses, output);
    const double difference =
        (fixture.run(losses, output, kStep).total - fixture.run(losses, output, -kStep).total) / (2 * kStep);
    EXPECT_NEAR(found.slope / kLossScale, difference, 5e-4 * found.size) << "output " << output;
    EXPECT_GT(std::abs(found.slope), 0.02 * found.size) << "output " << output;
  }
}

// Alone, with weight 1, each loss is what it is among others.
TEST(Objective, IsTheWeightedSumOfItsTerms) {
  Fixture fixture;
  const Objective all(terms());
  ObjectiveRun losses(all, fixture.shapes);
  const auto found = fixture.run(losses);
  ASSERT_EQ(std::ssize(found.losses), kSamples);
  const std::array<const void*, 3> targets = {fixture.mask.data(), fixture.kind.data(), fixture.values.data()};
  std::vector<double> expected(found.losses.size(), 0.0);
  for (const LossTerm& term : terms()) {
    const Shape& shape = fixture.shapes[term.output];
    const DeviceArray<float> x(numbers(shape.elements(), static_cast<std::uint32_t>(10 * term.output)));
    const Objective one(term.target, term.loss);
    ObjectiveRun alone(one, std::array{shape});
    alone.run(fixture.context, std::array{targets[term.output]},
              std::array{Tensor::dense(shape, DType::kF32, x.data())}, {}, {});
    fixture.context.space.fence();
    const std::span<const double> parts = alone.losses();
    for (std::size_t n = 0; n < expected.size(); ++n) {
      EXPECT_EQ(parts[n] == 0, n == 1) << "padding has weight 0, and nothing else";
      expected[n] += term.weight * parts[n];
    }
  }
  EXPECT_EQ(found.losses, expected);
}

// An output that is an error itself: no target, and nothing of padding.
TEST(Objective, MayHoldAnOutputToBeSmall) {
  Fixture fixture;
  const Shape shape{kSamples, 5, 2, 7, 11};  // more numbers than a thread adds
  const std::vector<float> numbers_of_output = numbers(shape.elements(), 3);
  std::vector<float> host = numbers_of_output;
  for (std::int64_t i = 0; i < shape.sample_size(); ++i) host[static_cast<std::size_t>(shape.sample_size() + i)] = NAN;
  const DeviceArray<float> x(host), dx(std::vector<float>(host.size(), NAN)), scores(host.size());
  const auto tensor = [&](const DeviceArray<float>& values) {
    return Tensor::dense(shape, DType::kF32, values.data());
  };
  const Objective objective(std::vector<LossTerm>{{0, "", std::make_shared<SquareLoss>(), 3}});
  EXPECT_TRUE(objective.targets(std::array{shape}).empty());
  ObjectiveRun losses(objective, std::array{shape});
  losses.run(fixture.context, {}, std::array{tensor(x)}, std::array{tensor(scores)}, std::array{tensor(dx)});
  fixture.context.space.fence();
  const std::span<const double> found = losses.losses();
  const std::vector<float> gradient = dx.get(), kept = scores.get();
  for (std::size_t n = 0; n < kSamples; ++n) {
    const double weight = std::array{0.5, 0.0, 2.0}[n], size = static_cast<double>(shape.sample_size());
    double sum = 0;
    for (std::size_t i = n * gradient.size() / kSamples; i < (n + 1) * gradient.size() / kSamples; ++i) {
      const double value = static_cast<double>(numbers_of_output[i]);
      sum += value * value;
      ASSERT_NEAR(static_cast<double>(gradient[i]), 3 * weight * kLossScale * 2 * value / size, 1e-9);
      if (n != 1) {
        ASSERT_EQ(kept[i], host[i]);
      }
    }
    EXPECT_NEAR(found[n], 3 * weight * sum / size, 1e-6 * sum);
  }
  EXPECT_EQ(found[1], 0);
}

TEST(Objective, SaysWhatItReads) {
  const std::vector<TargetSpec> targets = Objective(terms()).targets(std::array{kMap, kClass, kNumbers});
  EXPECT_EQ(targets,
            (std::vector<TargetSpec>{TargetSpec::numbers("values", 2), TargetSpec::class_map("mask", 3, {1, 6, 7}),
                                     TargetSpec::label("kind", 4)}));
}

TEST(Objective, RefusesWhatDoesNotFit) {
  std::vector<LossTerm> twice = terms();
  twice[0].output = 1;
  EXPECT_HOLDS(error_of([&] { Objective{twice}; }), "not one for each output: output 1 has 2");
  EXPECT_HOLDS(error_of([&] { Objective(terms()).targets(std::array{kMap, kClass}); }),
               "3 losses for a network of 2 outputs");
  std::vector<LossTerm> shared = terms();
  shared[2].target = "mask";
  EXPECT_HOLDS(error_of([&] { Objective(shared).targets(std::array{kMap, kClass, kNumbers}); }),
               "the target mask is read as a map of 3 classes, 6x7 and as one of 4 classes");
  EXPECT_HOLDS(error_of([&] { SoftmaxLoss().target(kMap); }), "outputs of one pixel, found 3x6x7");
  EXPECT_HOLDS(error_of([&] { PixelSoftmaxLoss({{1, 2}, -1}).target(kMap); }),
               "2 class weights for an output of 3 classes");
  EXPECT_HOLDS(error_of([&] { PixelSoftmaxLoss().target({1, 257, 1, 4, 4}); }), "a map of 257 classes");
}

TEST(Objective, TargetsMustBeThoseOfTheData) {
  const auto error = [](const TargetSpec& wanted, const std::vector<TargetSpec>& offered) {
    return error_of([&] { check_targets(std::array{wanted}, offered, "data.train"); });
  };
  const TargetSpec map = TargetSpec::class_map("map", 3, {1, 4, 5});
  EXPECT_NO_THROW(check_targets(std::array{map}, std::array{TargetSpec::label("class", 2), map}, "data.train"));
  EXPECT_HOLDS(error(map, {TargetSpec::label("class", 2)}), "data.train has no target \"map\"");
  EXPECT_HOLDS(
      error(map, {TargetSpec::class_map("map", 2, {1, 4, 5})}),
      "the target \"map\" of data.train is a map of 2 classes, 4x5, but the network learns a map of 3 classes");
}

}  // namespace
}  // namespace petaflow
