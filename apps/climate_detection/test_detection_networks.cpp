// The networks of the climate detection: their sizes, what they refuse, and with few filters PyTorch's values layer by
// layer and through ten training steps, one of whose frames has no known boxes (tests/golden/make_climate_golden.py).
#include <array>
#include <cstring>

#include "climate_detection/model.hpp"
#include "climate_golden.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate_detection {
namespace {

using test::error_of;
using testing_support::DeviceArray;
using testing_support::kGoldenBatch;
using testing_support::NetworkSize;
using testing_support::node;
using testing_support::size_of;

Shape fields(std::int64_t height, std::int64_t width) { return {1, 16, 1, height, width}; }

/// 302.1 MiB; the gradient of the fields is not needed: a step takes less than three times the arithmetic of forward.
TEST(DetectionNetworks, HaveThePublishedSizes) {
  const Graph square = model({}, true, fields(768, 768)), wide = model({}, true, fields(768, 1152));
  EXPECT_EQ(size_of(square).weights, 79'194'138);
  EXPECT_NEAR(static_cast<double>(size_of(square).weights * 4) / (1 << 20), 302.1, 0.05);
  EXPECT_NEAR(1e-9 * size_of(square).flop, 421, 0.5);
  EXPECT_NEAR(1e-9 * size_of(wide).flop, 632, 0.5);
  const double unused = node(square, "encoder1").layer->cost(fields(768, 768)).flop;
  EXPECT_NEAR(1e-12 * (3 * size_of(square).flop - unused), 1.25, 0.01);

  ModelOptions options{.kind = "racah"};
  const Graph six = model(options, false, fields(768, 1152));
  EXPECT_EQ(size_of(six).weights, 66'528'138);
  EXPECT_EQ(six.output(), (Shape{1, 10, 1, 12, 18}));
  EXPECT_EQ(cell_pixels(options), 64);
  EXPECT_EQ(wide.output(0), (Shape{1, 10, 1, 24, 36}));
  EXPECT_EQ(wide.output(1), fields(768, 1152));
  options.kind = "small";
  EXPECT_EQ(model(options, true, fields(96, 144)).output(), (Shape{1, 10, 1, 12, 18}));
}

TEST(DetectionNetworks, OptionsChangeTheirLayers) {
  ModelOptions options{.kind = "small", .filters = {4, 4}};
  const auto layers = [&](const std::string& part) {
    const Graph graph = model(options, true, fields(16, 16));
    return std::ranges::count_if(graph.nodes(), [&](const Graph::Node& n) { return n.name.find(part) != n.name.npos; });
  };
  EXPECT_EQ(layers("periodic"), 2);
  EXPECT_EQ(layers("norm"), 1);
  EXPECT_EQ(layers("decoder"), 3);
  options.periodic_longitude = false;
  options.batch_norm = "none";
  EXPECT_EQ(layers("periodic"), 0);
  EXPECT_EQ(layers("norm"), 0);
  EXPECT_EQ(model(options, false, fields(16, 16)).outputs().size(), 1U);
  EXPECT_HOLDS(error_of([&] { model({}, true, fields(768, 1160)); }),
               "cells of 32 x 32 pixels, which do not divide 768 x 1160 pixels");
}

struct GoldenCase {
  const char* name;
  ModelOptions options;
  double rate;
};

void PrintTo(const GoldenCase& c, std::ostream* out) { *out << c.name; }

const GoldenCase kGoldenCases[] = {
    {"detection_sc17", {.kind = "sc17", .filters = {6, 8, 10}}, 1e-4},
    {"detection_racah", {.kind = "racah", .filters = {6, 8, 10, 12}}, 1e-4},
    {"detection_small", {.kind = "small", .filters = {6, 8}, .batch_norm = "none"}, 1e-4},
};

class DetectionGolden : public testing::TestWithParam<GoldenCase> {
 protected:
  Graph graph() const {
    return model(GetParam().options, true, fields(testing_support::kGoldenHeight, testing_support::kGoldenWidth));
  }
};

TEST_P(DetectionGolden, LayersAgreeWithPyTorch) {
  testing_support::GoldenClimate(GetParam().name).expect_layers(graph());
}

TEST_P(DetectionGolden, StepsAgreeWithPyTorch) {
  constexpr std::int64_t kMost = 3;
  struct {
    std::int32_t count;
    float boxes[kMost][kBoxFields];
  } frames[kGoldenBatch] = {{2, {{10, 20, 30, 50, 1}, {40, 60, 47, 95, 3}}}, {-1, {}}};
  std::vector<std::byte> bytes(sizeof frames);
  std::memcpy(bytes.data(), frames, sizeof frames);
  const DeviceArray<std::byte> target(bytes);
  const auto cell = static_cast<float>(cell_pixels(GetParam().options));
  const Objective objective({{0, "boxes", std::make_shared<DetectionLoss>(DetectionOptions{cell, kMost})},
                             {1, "", std::make_shared<SquareLoss>(), 10}});
  testing_support::GoldenClimate(GetParam().name)
      .expect_steps(graph(), objective, std::array<const void*, 1>{target.data()}, GetParam().rate);
}

INSTANTIATE_TEST_SUITE_P(All, DetectionGolden, testing::ValuesIn(kGoldenCases), testing::PrintToStringParamName());

}  // namespace
}  // namespace petaflow::climate_detection
