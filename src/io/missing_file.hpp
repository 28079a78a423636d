// Why a file is not there.
#pragma once

#include <string>

namespace petaflow {

/// "<path> does not exist", or that it is a link to nothing or cannot be reached (a loop of links, a folder without
/// permission); empty where it can be reached.
std::string missing_file_text(const std::string& path);

}  // namespace petaflow
