// Writes generated events as a file of the public RPV-SUSY layout.
#pragma once

#include <cstdint>
#include <string>

#include "hep/options.hpp"
#include "train/options.hpp"

namespace petaflow::hep {

/// Numbers of events of a written file.
struct EventCounts {
  std::int64_t signal = 0, selected_background = 0, selected_signal = 0;
};

/// Events [first, first + count) of the seed, in group all_events: hist, histEM, histtrack (count, size, size), y,
/// weight, normalized_weight (1 at the largest weight), passSR4J, passSR5J, passSR, numJet, HT.  Written to a temporary
/// name and renamed; its folder must exist.  All threads work.  Throws user errors.
EventCounts write_events(const std::string& path, const GeneratorOptions& options, std::uint64_t seed,
                         std::int64_t first, std::int64_t count, int gzip);

/// The sets that the options of [generate] ask for, to the files that `data` names.  Throws user errors.
void write_sets(const DataOptions& data, const Options& options, bool overwrite);

}  // namespace petaflow::hep
