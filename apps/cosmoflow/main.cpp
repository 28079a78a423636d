// cosmoflow: cosmological parameters from the distribution of dark matter (Mathuriya et al., SC18; MLPerf HPC).
#include "cosmoflow/cosmoflow_app.hpp"
#include "program/run.hpp"

int main(int argc, char** argv) {
  petaflow::cosmoflow::CosmoflowApplication application;
  return petaflow::run(argc, argv, application);
}
