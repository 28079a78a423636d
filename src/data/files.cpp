#include "data/files.hpp"

#include <fnmatch.h>
#include <glob.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <set>

#include "base/error.hpp"
#include "io/missing_file.hpp"

namespace petaflow {

namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Takes the digits at the front of `text` away, returns them without leading zeros.
std::string_view take_number(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, is_digit) - text.begin();
  std::string_view digits = text.substr(0, static_cast<std::size_t>(end));
  text.remove_prefix(digits.size());
  while (digits.size() > 1 && digits.front() == '0') digits.remove_prefix(1);
  return digits;
}

/// The file of this name, or those that match it as a pattern.
std::vector<std::string> files_named(const std::string& name) {
  std::error_code status;  // a name that cannot be reached is a pattern as well
  if (name.find_first_of("*?[~") == std::string::npos || std::filesystem::exists(name, status)) return {name};
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(name.c_str(), GLOB_TILDE, nullptr, &found) == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  std::ranges::sort(paths, natural_less);
  return paths;
}

/// The first folder of a pattern's fixed part that is not there; empty: all are.
std::string missing_folder(const std::string& pattern) {
  const std::string fixed = pattern.substr(0, pattern.find_first_of("*?[~"));
  std::filesystem::path folder;
  for (const auto& part : std::filesystem::path(fixed).parent_path()) {
    folder /= part;
    if (std::error_code status; !std::filesystem::exists(folder, status)) return folder.string();
  }
  return "";
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = take_number(a), y = take_number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return whole_a < whole_b;  // chunk01 and chunk1
}

std::vector<std::string> expand_files(const std::vector<std::string>& names, const std::string& what) {
  if (names.empty()) user_error("{} names no file", what);
  const std::string help =  // for options, not for arguments
      what.starts_with("data.") ? fmt::format("; set {} to where your files are, as {}=\"FOLDER/*\"", what, what) : "";
  std::vector<std::string> files;
  for (const std::string& name : names) {
    const std::vector<std::string> found = files_named(name);
    if (found.empty()) {
      const std::string folder = missing_folder(name);
      user_error("{}: no file matches {}{}{}", what, name, folder.empty() ? "" : ": there is no folder " + folder,
                 help);
    }
    files.insert(files.end(), found.begin(), found.end());
  }
  std::set<std::string> seen;
  for (const std::string& file : files) {
    if (const std::string text = missing_file_text(file); !text.empty()) user_error("{}: {}{}", what, text, help);
    if (!seen.insert(std::filesystem::path(file).lexically_normal()).second)
      user_error("{} names {} twice", what, file);
  }
  return files;
}

std::vector<std::string> common_files(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto canonical = [](const std::vector<std::string>& names) {
    std::set<std::string> files;
    for (const std::string& name : names) {
      for (const std::string& file : files_named(name)) {
        std::error_code status;  // a file that is not there has its own complaint
        files.insert(std::filesystem::weakly_canonical(file, status).string());
      }
    }
    return files;
  };
  const std::set<std::string> first = canonical(a), second = canonical(b);
  std::vector<std::string> common;
  std::ranges::set_intersection(first, second, std::back_inserter(common));
  return common;
}

bool name_matches(const std::string& pattern, const std::string& path) {
  return fnmatch(pattern.c_str(), std::filesystem::path(path).filename().c_str(), 0) == 0;
}

}  // namespace petaflow
