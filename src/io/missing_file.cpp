#include "io/missing_file.hpp"

#include <filesystem>

#include <fmt/format.h>

namespace petaflow {

std::string missing_file_text(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::exists(path, error)) return "";
  if (error) return fmt::format("{} cannot be opened: {}", path, error.message());
  if (fs::is_symlink(path, error)) {
    return fmt::format("{} is a link to {}, which does not exist", path, fs::read_symlink(path, error).string());
  }
  return path + " does not exist";
}

}  // namespace petaflow
