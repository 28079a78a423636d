// Commands that the applications on frames have beside the common ones: `label` and `stats`.
#pragma once

#include <vector>

#include "climate/data_options.hpp"
#include "climate/labels.hpp"

namespace petaflow::climate {

/// Rules that `label` follows; options of [label].
struct LabelRules {
  std::string rivers = "water";      // field of the threshold; "transport" of vapour; "none": no rivers
  double threshold = 24;             // kg/m2 of water
  double percentile = 94;            // of transport
  std::string cyclones = "default";  // set of criteria; "none": no cyclones
};
void declare_label(Schema& schema, LabelRules& rules);

/// stats FILE... -o OUT.h5: statistics of the variables, as data.stats takes them.  The data must outlive the command.
TaskCommand stats_command(const FrameDataOptions& data);

/// label FILE... -o FOLDER: the labels of the heuristics, a netCDF file (map_file.hpp) for each file of frames, which
/// ranks and threads share; and stats.
/// What the arguments refer to must outlive the commands.
std::vector<TaskCommand> frame_commands(const FrameDataOptions& data, const LabelRules& rules);

}  // namespace petaflow::climate
