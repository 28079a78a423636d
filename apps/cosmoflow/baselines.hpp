// What is known without a network: classical estimates of the parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "data/cosmo.hpp"
#include "train/regression.hpp"

namespace petaflow::cosmoflow {

/// Estimates for all samples of `data` by methods that are fitted to the first samples of `train`:
///   ridge on spectrum          ridge regression on the mean count and the binned power spectrum of log(1 + count)
///   ridge, and histogram       likewise, and the distribution of the counts
///   prior mean                 the mean of the training targets
/// Reads all those samples, by all threads.  Throws user errors as reading does, and where all are of one universe.
std::vector<Estimates> classical_estimates(const CosmoData& train, const CosmoData& data, std::int64_t train_samples);

}  // namespace petaflow::cosmoflow
