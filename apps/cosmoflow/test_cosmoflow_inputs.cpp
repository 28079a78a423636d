// inputs/reference_cosmoflow.toml documents every option of cosmoflow, and its inputs load.
#include "application_inputs.hpp"
#include "cosmoflow/task.hpp"

namespace petaflow::cosmoflow {
namespace {

TEST(CosmoflowInputs, ReferenceHoldsEveryOption) {
  expect_options_documented<CosmoflowTask>("inputs/reference_cosmoflow.toml");
}

TEST(CosmoflowInputs, Load) { expect_inputs_load<CosmoflowTask>(); }

}  // namespace
}  // namespace petaflow::cosmoflow
