// inputs/reference_climate_segmentation.toml documents every option of climate_segmentation, and its inputs load.
#include "application_inputs.hpp"
#include "climate_segmentation/task.hpp"

namespace petaflow::climate_segmentation {
namespace {

TEST(SegmentationInputs, ReferenceHoldsEveryOption) {
  expect_options_documented<SegmentationTask>("inputs/reference_climate_segmentation.toml");
}

TEST(SegmentationInputs, Load) { expect_inputs_load<SegmentationTask>(); }

}  // namespace
}  // namespace petaflow::climate_segmentation
