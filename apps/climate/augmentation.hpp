// Symmetries of the atmosphere that training may use: the longitude has no beginning, and north is as south where winds
// along the meridian change their sign (Coriolis' force does with them).
#pragma once

#include "climate/climate_data.hpp"
#include "config/schema.hpp"
#include "data/augment.hpp"

namespace petaflow::climate {

struct AugmentOptions {
  bool roll = true;  // in longitude, by any number of pixels
  bool flip = true;  // north and south, half of the frames
};

inline void declare_augment(Schema& schema, AugmentOptions& options) {
  schema.add("augment.roll", options.roll);
  schema.add("augment.flip", options.flip);
}

/// Changes channels, map and boxes alike; empty: none.
Augmentation augmentation(const AugmentOptions& options, const ClimateData& train);

}  // namespace petaflow::climate
