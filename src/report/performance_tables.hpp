// The section of a report that says where the time of training went.
#pragma once

#include <string>
#include <vector>

#include "report/run_record.hpp"

namespace petaflow {

/// One category of work of a step on rank 0.
struct WorkCategory {
  std::string name;
  double ms = 0, flop = 0;  // per step
};

/// The categories of Kurth et al., SC18 (their tables of kernels by category), as far as this program keeps them apart:
/// what is fused into a convolution counts as one.  In the order of a step; without those of which there is nothing.
std::vector<WorkCategory> work_categories(const nlohmann::json& performance);

/// The rate over all ranks beside the processors' peak: "5.00 GFLOP/s, 50 % of peak".  Work is counted as direct
/// convolutions do it; Winograd's transforms take fewer multiplications, so a rate above the peak is said to be that.
std::string sustained_text(const nlohmann::json& performance);

/// Bars, categories, and for one run the stages; empty where no run has ended.
std::string performance_section(const std::vector<RunRecord>& runs);

}  // namespace petaflow
