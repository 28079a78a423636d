// The files that generate writes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/write_lock.hpp"
#include "train/options.hpp"

namespace petaflow {

struct GeneratedFile {
  std::string path;
  const char* set = "";               // "train": data.train names it
  std::int64_t first = 0, count = 0;  // its samples, [first, first + count): no two files share one
  std::unique_ptr<WriteLock> lock;    // no other process writes it meanwhile
};

/// The files that data.train, data.validation and data.test name, with so many samples each; 0: that one is not
/// written. Checks all of them, then makes the folders that they lie in, then locks them.  Throws user errors: no name
/// or a pattern, a file that exists (unless `overwrite`), cannot be written, is being written, or is named twice.
std::vector<GeneratedFile> plan_generated_files(const DataOptions& data, const std::array<std::int64_t, 3>& counts,
                                                bool overwrite);

}  // namespace petaflow
