// Sets of generated frames on disk, one file each.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "climate/weather.hpp"
#include "comm/communicator.hpp"
#include "config/schema.hpp"

namespace petaflow::climate {

struct GenerateOptions {
  std::string folder;                                     // that of the folders train, validation and test
  std::int64_t train = 300, validation = 60, test = 100;  // frames: no two sets share one
  std::int64_t seed = 1;
  WeatherOptions weather;
};

void declare_generate(Schema& schema, GenerateOptions& options);

/// Name of the file of a frame by its moment, as DeepCAM has them: "data-1979-01-31-01-0.h5" of 3 o'clock.
std::string frame_name(const WeatherOptions& weather, std::int64_t index);

/// Writes a frame in some layout to a file: write_frame, or another one.
using FrameWriter = std::function<void(const std::string& path, const Frame& frame)>;

/// On all ranks: writes the sets, each rank every `ranks`-th frame; rank 0 shows how far it is.  What a file holds
/// depends on the options, the grid and its frame alone.  Throws on all ranks alike, user errors where a set's folder
/// holds files (with `overwrite`: others than those to be written) or cannot be written; a failure where the run is
/// asked to stop.
void generate_frames(const GenerateOptions& options, std::int64_t height, std::int64_t width, Communicator& comm,
                     bool overwrite, const FrameWriter& write);

}  // namespace petaflow::climate
