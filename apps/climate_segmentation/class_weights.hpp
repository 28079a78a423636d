// Weights of the classes in the loss, and the frequencies that they follow from.
#pragma once

#include <vector>

#include "climate_segmentation/options.hpp"
#include "data/dataset.hpp"

namespace petaflow::climate_segmentation {

/// Share of the pixels of each class, in frames of the set that lie evenly in it (all, where there are at most 128).
/// Throws a user error where a class does not occur in them.
std::vector<double> class_frequencies(const Dataset& data);

/// Weight of each class, one per class; empty: all 1.  1 / sqrt(f) sums to 1, as in Kurth et al., SC18, section V-B1;
/// f^(-1/8) is that of DeepCAM in MLPerf HPC.
std::vector<float> class_weights(const LossOptions& options);

}  // namespace petaflow::climate_segmentation
