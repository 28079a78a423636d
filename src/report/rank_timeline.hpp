// A chart of what ranks did over time: the parts of the traced steps.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace petaflow {

/// A figure with a row per rank; empty where the trace is of fewer than two.
/// @param trace  trace.json, or null
std::string rank_timeline(const nlohmann::json& trace);

}  // namespace petaflow
