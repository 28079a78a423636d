// The comparison of the documented input file with the declared options.
#pragma once

#include <string>
#include <vector>

#include "config/schema.hpp"

namespace petaflow {

/// Faults of a reference file, one sentence each; empty: it holds every declared option, no other, each with
/// its default value and type, and with a comment on its own line or the line above.  Throws a user error where the
/// file cannot be read.
std::vector<std::string> compare_with_reference(const Schema& schema, const std::string& toml_file);

}  // namespace petaflow
