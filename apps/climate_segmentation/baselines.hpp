// Maps without a network: the heuristics of the published labels, and a threshold per pixel, both tuned on training
// frames.
#pragma once

#include <cstdint>
#include <vector>

#include "climate/climate_data.hpp"
#include "climate_segmentation/method.hpp"
#include "comm/communicator.hpp"

namespace petaflow::climate_segmentation {

/// Maps of all frames of `data` by
///   heuristics   climate::label_frame
///   per pixel    wind above and pressure below a threshold are a cyclone, damped water above one a river
/// with thresholds that reach the highest intersection over union of cyclones and of rivers in `trials` random draws on
/// `train_frames` frames that lie evenly in `train`.  On all ranks: each maps its share of the frames; the result is
/// the same however many share them.  Throws user errors as reading does, where the run is asked to stop, and where
/// frames have not all 16 variables.
std::vector<Method> classical_methods(Communicator& comm, const climate::ClimateData& train,
                                      const climate::ClimateData& data, std::int64_t train_frames, std::int64_t trials);

}  // namespace petaflow::climate_segmentation
