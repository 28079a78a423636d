#include "program/generated_files.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "io/atomic_file.hpp"

namespace petaflow {
namespace fs = std::filesystem;
namespace {

void refuse_existing(const std::string& path, const char* set, bool overwrite) {
  if (!fs::exists(path) || overwrite) return;
  user_error("{} exists; name another file in data.{}, or --overwrite to replace it", path, set);
}

}  // namespace

std::vector<GeneratedFile> plan_generated_files(const DataOptions& data, const std::array<std::int64_t, 3>& counts,
                                                bool overwrite) {
  const std::array<const char*, 3> sets = {"train", "validation", "test"};
  const std::array<const std::vector<std::string>*, 3> names = {&data.train, &data.validation, &data.test};
  std::vector<GeneratedFile> files;
  std::vector<fs::path> written;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (counts[i] == 0) continue;
    if (names[i]->size() != 1 || names[i]->front().find_first_of("*?[") != std::string::npos) {
      user_error("generate writes one file for data.{}: name it, without patterns, or set generate.{} to 0", sets[i],
                 sets[i]);
    }
    const std::string& path = names[i]->front();
    refuse_existing(path, sets[i], overwrite);
    check_output(path);
    written.push_back(fs::weakly_canonical(fs::absolute(path)));
    if (std::ranges::count(written, written.back()) > 1) {
      user_error("data.{} names {}, which another set is to be written to", sets[i], path);
    }
    files.push_back({path, sets[i], first, counts[i], nullptr});
    first += counts[i];
  }
  for (GeneratedFile& file : files) {
    make_parent(file.path);
    file.lock =
        std::make_unique<WriteLock>(file.path, WriteLockTimes{}, fmt::format("name another file in data.{}", file.set));
    refuse_existing(file.path, file.set, overwrite);  // another process may have made it since
  }
  return files;
}

}  // namespace petaflow
