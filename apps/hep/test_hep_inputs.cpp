// inputs/reference.toml documents the options that all applications have and those of hep, and hep's inputs load.
#include "application_inputs.hpp"
#include "hep/task.hpp"

namespace petaflow::hep {
namespace {

TEST(HepInputs, ReferenceHoldsEveryOption) {
  HepTask task;
  expect_documented(Configuration(task).schema, "inputs/reference.toml");
}

TEST(HepInputs, Load) { expect_inputs_load<HepTask>(); }

}  // namespace
}  // namespace petaflow::hep
