// cosmoflow: cosmological parameters from the distribution of dark matter (Mathuriya et al., SC18; MLPerf HPC).
#include "cosmoflow/reporter.hpp"
#include "cosmoflow/task.hpp"
#include "program/run.hpp"

int main(int argc, char** argv) {
  petaflow::cosmoflow::CosmoflowTask task;
  const petaflow::cosmoflow::CosmoflowReporter reporter;
  return petaflow::run(argc, argv, task, reporter);
}
