// The report of one or several runs: one HTML file that needs nothing else.
#pragma once

#include <string>
#include <vector>

#include "report/reporter.hpp"
#include "report/run_record.hpp"

namespace petaflow {

/// Whose report it is.
struct PageHead {
  std::string application, description;
};

/// The page: results of the application, training curves, where the time went, environment and configuration; several
/// runs side by side.  What a run has not (yet) left in its folder is left out.  Throws a user error where a file of a
/// run holds something else than petaflow writes.
std::string run_report(const PageHead& head, const Reporter& reporter, const std::vector<RunRecord>& runs);

/// Writes report.html into the folder of a run, from what is there.  On rank 0.
void write_report(const PageHead& head, const Reporter& reporter, const std::string& folder);

}  // namespace petaflow
