// Whole label maps by the heuristics: rivers, and cyclones over them.
#pragma once

#include "climate/cyclones.hpp"
#include "climate/rivers.hpp"

namespace petaflow::climate {

struct LabelOptions {
  RiverOptions rivers;
  CycloneOptions cyclones;
};

/// Writes the frame's labels and boxes: a tropical depression (wind below a gale) or cyclone per storm, a river per
/// component.  What was there goes.
void label_frame(Frame& frame, const LabelOptions& options);

}  // namespace petaflow::climate
