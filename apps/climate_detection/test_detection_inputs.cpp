// inputs/reference_climate_detection.toml documents every option of climate_detection, and its inputs load.
#include "application_inputs.hpp"
#include "climate_detection/task.hpp"

namespace petaflow::climate_detection {
namespace {

TEST(DetectionInputs, ReferenceHoldsEveryOption) {
  expect_options_documented<DetectionTask>("inputs/reference_climate_detection.toml");
}

TEST(DetectionInputs, Load) { expect_inputs_load<DetectionTask>(); }

}  // namespace
}  // namespace petaflow::climate_detection
