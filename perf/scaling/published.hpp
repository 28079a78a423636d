// Steps that papers report, beside those of the simulator.
#pragma once

#include <string>

namespace petaflow::scaling {

/// Fits the noise, or the time of a step, of each system to one of its points, and prints what all others become.
/// @param inputs  folder with machines/*.toml and workloads/*.toml
/// @param only    cosmoflow, hep, daint or summit; empty: all
void print_published(const std::string& inputs, const std::string& only);

}  // namespace petaflow::scaling
