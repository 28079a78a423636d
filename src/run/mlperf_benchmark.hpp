// An application as a benchmark of MLPerf HPC.
#pragma once

#include <string>

namespace petaflow {

/// MLPerf's names for an application's benchmark.
struct MlperfBenchmark {
  std::string name;    // "cosmoflow"; empty: it is none
  std::string metric;  // of Task::metrics()
  std::string key;     // of its events: "eval_error"
};

}  // namespace petaflow
