// Reads what a run has left in its folder.
#pragma once

#include <string>

#include "report/run_record.hpp"

namespace petaflow {

/// Why a path is no folder of a run, as a sentence without a full stop; "" where it is one.
std::string why_no_run(const std::string& folder);

/// Reads the folder of a run.  Where a resumed run repeated steps, the later lines count; a last line that was cut
/// short does not.  Throws user errors: no such folder, no run in it, a file that is not what it should be.
RunRecord read_run(const std::string& folder);

}  // namespace petaflow
