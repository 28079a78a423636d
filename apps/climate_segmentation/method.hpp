// A way of making maps, and what it reaches on a set of frames.
#pragma once

#include <string>
#include <vector>

#include "climate_segmentation/class_offsets.hpp"
#include "metrics/segmentation.hpp"

namespace petaflow::climate_segmentation {

struct Method {
  std::string name;
  std::string how;                  // for people: offsets, thresholds; may be empty
  FrameCounts counts{kClasses};     // of this rank
  std::vector<PixelCounts> frames;  // on rank 0, after a merge of counts
  SegmentationReport report{0, {}, {}, {}, {}, PixelCounts(kClasses)};
};

}  // namespace petaflow::climate_segmentation
