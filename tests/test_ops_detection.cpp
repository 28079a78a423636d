// The loss of boxes that cells predict against a plain loop in double, by hand, and its gradient by differences.
#include <cstring>

#include "base/error.hpp"
#include "kernels/detection_loss.hpp"
#include "nn/loss.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;
using testing_support::doubles;
using testing_support::number;

constexpr float kLossScale = 0.25F, kScale = 1.5F, kCell = 32;
constexpr std::int64_t kMost = 3, kKinds = 3;

struct Box {
  float ymin, xmin, ymax, xmax, kind;
};

struct Sample {
  std::int32_t count;
  std::vector<Box> boxes;
  float weight = 1;
};

struct Inputs {
  Shape shape;
  std::vector<float> cells;
  std::vector<Sample> samples;

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> result;
    for (const Sample& sample : samples) {
      std::vector<std::byte> own(sizeof(std::int32_t) + kMost * sizeof(Box),
                                 std::byte{0xFF});  // NaN where there is none
      std::memcpy(own.data(), &sample.count, sizeof sample.count);
      if (!sample.boxes.empty())
        std::memcpy(own.data() + sizeof sample.count, sample.boxes.data(), sample.boxes.size() * sizeof(Box));
      result.insert(result.end(), own.begin(), own.end());
    }
    return result;
  }
};

// Four rows of three cells.  Two boxes of the first sample share a cell; the second has none, those of the third are
// not known, the fourth is padding, and the last has a box whose centre lies outside.
Inputs inputs() {
  Inputs in{{5, 6 + kKinds, 1, 4, 3}, {}, {}};
  in.cells = testing_support::numbers(in.shape.elements(), 1);
  for (float& value : in.cells) value *= 4;
  in.samples = {{3, {{10, 10, 100, 30, 0}, {64, 33, 96, 62, 2}, {70, 30, 92, 93, 1}}, 0.75F},
                {0, {}, 2},
                {-1, {}, 1},
                {1, {{10, 10, 100, 30, 0}}, 0},
                {2, {{-90, 0, 0, 20, 0}, {97, 65, 127, 95, 1}}, 1.25F}};
  return in;
}

struct Result {
  std::vector<float> loss, scores, gradient;
};

Result run(const Inputs& in, bool with_gradient = true) {
  const DeviceArray<float> x(in.cells);
  const std::vector<float> nans(in.cells.size(), NAN);
  const DeviceArray<float> loss(std::vector<float>(in.samples.size(), NAN)), scores(nans), gradient(nans);
  const DeviceArray<std::byte> boxes(in.bytes());
  std::vector<float> weights;
  for (const Sample& sample : in.samples) weights.push_back(sample.weight);
  const DeviceArray<float> weight(weights);
  StepState state;
  state.weight = weight.data(), state.loss_scale = kLossScale;
  const DeviceArray<StepState> step(std::vector<StepState>{state});
  Context context = testing_support::context_for(2);
  context.step = step.data();
  const DetectionLoss detection({.cell = kCell, .boxes = kMost});
  EXPECT_EQ(detection.target(in.shape).bytes() * in.samples.size(), in.bytes().size());
  const DeviceArray<std::byte> scratch(detection.scratch_bytes(in.shape));
  LossOperands operands;
  operands.output = Tensor::dense(in.shape, DType::kF32, x.data());
  operands.target = boxes.data(), operands.weight = kScale;
  operands.scores = Tensor::dense(in.shape, DType::kF32, scores.data());
  if (with_gradient) operands.doutput = Tensor::dense(in.shape, DType::kF32, gradient.data());
  operands.losses = loss.data(), operands.scratch = scratch.data();
  detection.run(context, operands);
  return {loss.get(), scores.get(), gradient.get()};
}

double smooth(double d) { return std::abs(d) < 1 ? d * d / 2 : std::abs(d) - 0.5; }

/// -log softmax of `count` logits.
double surprise(const std::vector<double>& cells, std::size_t first, std::size_t count, std::size_t label) {
  double sum = 0;
  for (std::size_t c = 0; c < count; ++c) sum += std::exp(cells[first + c]);
  return std::log(sum) - cells[first + label];
}

/// Losses of the samples where cells have moved by h along a direction.
std::vector<double> reference(const Inputs& in, double h = 0) {
  std::vector<double> losses;
  const auto rows = static_cast<std::size_t>(in.shape.h), columns = static_cast<std::size_t>(in.shape.w),
             channels = static_cast<std::size_t>(in.shape.c);
  std::vector<double> cells = doubles(in.cells);
  for (std::uint32_t i = 0; i < cells.size(); ++i) cells[i] += h * static_cast<double>(number(i, 6));
  for (std::size_t n = 0; n < in.samples.size(); ++n) {
    const Sample& sample = in.samples[n];
    std::vector<const Box*> owner(rows * columns);
    for (const Box& box : sample.boxes) {
      const double row = std::floor(static_cast<double>(box.ymin + box.ymax) / 2 / static_cast<double>(kCell)),
                   column = std::floor(static_cast<double>(box.xmin + box.xmax) / 2 / static_cast<double>(kCell));
      if (row < 0 || column < 0 || row >= static_cast<double>(rows) || column >= static_cast<double>(columns)) continue;
      owner[static_cast<std::size_t>(row) * columns + static_cast<std::size_t>(column)] = &box;
    }
    double sum = 0;
    for (std::size_t cell = 0; cell < owner.size() && sample.count >= 0 && sample.weight != 0; ++cell) {
      const std::size_t at = (n * owner.size() + cell) * channels;
      const Box* box = owner[cell];
      sum += (box == nullptr ? 0.5 : 1.0) * surprise(cells, at + 4, 2, box == nullptr ? 1 : 0);
      if (box == nullptr) continue;
      const auto in_cells = [](float pixels) { return static_cast<double>(pixels) / static_cast<double>(kCell); };
      const double u = in_cells((box->xmin + box->xmax) / 2), v = in_cells((box->ymin + box->ymax) / 2);
      sum += 5 * (smooth(cells[at] - (u - std::floor(u))) + smooth(cells[at + 1] - (v - std::floor(v))));
      sum += 7 * (smooth(cells[at + 2] - std::log2(in_cells(box->xmax - box->xmin))) +
                  smooth(cells[at + 3] - std::log2(in_cells(box->ymax - box->ymin))));
      sum += surprise(cells, at + 6, kKinds, static_cast<std::size_t>(box->kind));
    }
    losses.push_back(static_cast<double>(sample.weight) * sum);
  }
  return losses;
}

TEST(DetectionLoss, MatchesDouble) {
  const Inputs in = inputs();
  const Result found = run(in);
  EXPECT_LE(testing_support::largest_error(doubles(found.loss), reference(in), 1), 3e-6);
  EXPECT_GT(found.loss[0], 0);
  EXPECT_EQ(found.loss[2], 0) << "boxes that are not known";
  EXPECT_EQ(found.loss[3], 0) << "padding";
  EXPECT_EQ(run(in, false).loss, found.loss);
}

TEST(DetectionLoss, GradientMatchesDifferences) {
  const Inputs in = inputs();
  const Result found = run(in);
  double slope = 0, difference = 0;
  for (std::uint32_t i = 0; i < found.gradient.size(); ++i)
    slope += static_cast<double>(found.gradient[i]) * static_cast<double>(number(i, 6));
  const std::vector<double> plus = reference(in, 1e-5), minus = reference(in, -1e-5);
  for (std::size_t n = 0; n < plus.size(); ++n) difference += (plus[n] - minus[n]) / 2e-5;
  EXPECT_NEAR(slope / static_cast<double>(kLossScale * kScale), difference, 1e-5 * std::abs(difference));
  const std::size_t size = found.gradient.size() / 5;
  for (std::size_t i = 2 * size; i < 4 * size; ++i) ASSERT_EQ(found.gradient[i], 0.0F) << i;
}

// A box of 64 x 16 pixels whose centre (40, 8) is that of no cell: column 1, a quarter of a cell from its left.
TEST(DetectionLoss, CountedByHand) {
  Inputs in{{1, 6 + kKinds, 1, 1, 2}, std::vector<float>(18, 0.0F), {{1, {{0, 8, 16, 72, 1}}}}};
  in.cells[9 + 2] = 1.5F;  // of log2(64 / 32) = 1
  in.cells[9 + 3] = 1;     // of log2(16 / 32) = -1
  const Result found = run(in);
  const double expected =
      5 * (0.25 * 0.25 / 2 + 0.25 * 0.25 / 2) + 7 * (0.5 * 0.5 / 2 + 1.5) + 1.5 * std::log(2.0) + std::log(3.0);
  EXPECT_NEAR(static_cast<double>(found.loss[0]), expected, 1e-5);
  const float factor = kLossScale * kScale;
  EXPECT_FLOAT_EQ(found.gradient[9 + 0], -5 * 0.25F * factor);
  EXPECT_FLOAT_EQ(found.gradient[9 + 2], 7 * 0.5F * factor);
  EXPECT_FLOAT_EQ(found.gradient[9 + 3], 7 * factor);
  EXPECT_FLOAT_EQ(found.gradient[9 + 4], -0.5F * factor);
  EXPECT_FLOAT_EQ(found.gradient[5], 0.5F * -0.5F * factor);
  EXPECT_FLOAT_EQ(found.scores[9 + 2], 1.5F);
  EXPECT_FLOAT_EQ(found.scores[9 + 5], 0.5F);
  EXPECT_FLOAT_EQ(found.scores[9 + 8], 1.0F / 3);
}

TEST(DetectionLoss, PaddingIsExactlyZeroAndWrongKindsShow) {
  Inputs in = inputs();
  const std::size_t size = in.cells.size() / 5;
  std::fill_n(in.cells.begin() + static_cast<std::ptrdiff_t>(2 * size), 2 * size, NAN);
  in.samples[4].boxes[1].kind = 3;
  const Result found = run(in);
  EXPECT_EQ(found.loss[2], 0);
  EXPECT_EQ(found.loss[3], 0);
  for (std::size_t i = 2 * size; i < 4 * size; ++i) ASSERT_EQ(found.gradient[i], 0.0F) << i;
  EXPECT_TRUE(std::isnan(found.loss[4]));
  EXPECT_FALSE(std::isnan(found.loss[0]));
}

TEST(DetectionLoss, RefusesWhatIsNoMapOfCells) {
  EXPECT_THROW(DetectionLoss({.boxes = 0}), Error);
  EXPECT_THROW(DetectionLoss({.cell = 0, .boxes = 3}), Error);
  EXPECT_THROW(DetectionLoss({.boxes = 3}).target({1, 6, 1, 4, 4}), Error);
  EXPECT_THROW(DetectionLoss({.boxes = 3}).target({1, 9, 2, 4, 4}), Error);
}

}  // namespace
}  // namespace petaflow
