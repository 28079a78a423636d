// The options that the networks of the application share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace petaflow::climate_segmentation {

struct ModelOptions {
  std::string kind = "unet";               // model() has the others
  std::vector<std::int64_t> filters = {};  // of each level (unet) or layer (pixel); empty: those of the kind
  std::string batch_norm = "pass";         // statistics over a micro-batch, the "global" batch, or "none"
  bool periodic_longitude = true;          // what leaves the map in the east comes in from the west
};

}  // namespace petaflow::climate_segmentation
