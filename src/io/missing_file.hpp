// Why there is nothing to be read at a path.
#pragma once

#include <string>

namespace petaflow {

/// "<path> does not exist", or that it is a link to nothing, a folder, empty or cannot be reached (a loop of links, a
/// folder without permission); empty where something can be read.
std::string missing_file_text(const std::string& path);

}  // namespace petaflow
