// Symmetries of the atmosphere that training may use: the longitude has no beginning, and north is as south where winds
// along the meridian change their sign (Coriolis' force does with them).
#pragma once

#include "climate/climate_data.hpp"
#include "climate_segmentation/options.hpp"
#include "data/augment.hpp"

namespace petaflow::climate_segmentation {

/// Changes channels and map alike; empty: none.
Augmentation augmentation(const AugmentOptions& options, const climate::ClimateData& train);

}  // namespace petaflow::climate_segmentation
