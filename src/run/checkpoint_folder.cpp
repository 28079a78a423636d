#include "run/checkpoint_folder.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "data/files.hpp"
#include "io/atomic_file.hpp"

namespace petaflow {
namespace fs = std::filesystem;
namespace {

const std::string kLink = "checkpoint.h5";

// Ten digits: names sort like numbers.
constexpr const char* kCheckpoints = "checkpoint-[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9].h5";

// The entries of the folder whose name matches a glob pattern, in order of name.
std::vector<fs::path> matching(const fs::path& folder, const std::string& pattern) {
  std::vector<fs::path> found;
  std::error_code status;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, status)) {
    if (name_matches(pattern, entry.path().string())) found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("checkpoint-{:010}.h5", step); }

void remove_all_of(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    std::error_code status;
    fs::remove(path, status);
    if (status) user_error("cannot remove {}: {}", path.string(), status.message());
  }
}

void remove_leftovers(const std::string& folder) { remove_all_of(matching(folder, "*.tmp.[0-9]*")); }

}  // namespace

std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const fs::path& path : matching(folder, kCheckpoints)) paths.push_back(path.string());
  std::ranges::reverse(paths);
  return paths;
}

std::string save_to_folder(const std::string& folder, std::int64_t step, const Checkpoint& checkpoint,
                           std::int64_t keep) {
  const std::string name = checkpoint_name(step);
  const std::string path = folder + "/" + name;
  save_checkpoint(path, checkpoint);
  publish_link(name, folder + "/" + kLink);
  std::int64_t kept = 1;
  for (const std::string& other : checkpoints_in(folder)) {
    const std::string file = fs::path(other).filename().string();
    if (file == name || (file < name && ++kept <= keep)) continue;
    std::error_code status;
    fs::remove(other, status);  // one too many does no harm
  }
  return path;
}

void put_in_order(const std::string& folder, std::int64_t step) {
  remove_leftovers(folder);
  if (fs::exists(fs::path(folder) / checkpoint_name(step))) publish_link(checkpoint_name(step), folder + "/" + kLink);
}

void remove_checkpoints(const std::string& folder) {
  remove_all_of(matching(folder, kLink));
  remove_all_of(matching(folder, kCheckpoints));
  remove_leftovers(folder);
}

}  // namespace petaflow
