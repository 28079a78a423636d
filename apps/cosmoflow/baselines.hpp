// Classical estimates of the parameters, without a network.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/communicator.hpp"
#include "data/cosmo.hpp"
#include "metrics/regression.hpp"

namespace petaflow::cosmoflow {

/// Estimates for all samples of `data`, on rank 0, by methods that are fitted to the first samples of `train`:
///   ridge on spectrum                ridge regression on mean count and binned power spectrum of log(1 + count)
///   ridge on spectrum and histogram  likewise, and on the distribution of the counts
///   mean of the training set         of its targets
/// A regression that cannot be fitted (all samples are of one universe) is left out with a warning.  On all ranks: each
/// reads its share of all those samples, and the numbers are the same however many share them.  Throws user errors as
/// reading does and where the run is asked to stop, on all ranks alike.
std::vector<Estimates> classical_estimates(Communicator& comm, const CosmoData& train, const CosmoData& data,
                                           std::int64_t train_samples);

}  // namespace petaflow::cosmoflow
