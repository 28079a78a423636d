// A folder for the files of one test, removed with it; samples of real data.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>

#include "base/error.hpp"

namespace petaflow::test {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "petaflow_test_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch folder " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::filesystem::remove(path);  // file systems write a file to disk at once where its contents are replaced
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// The sentence of the Error that `act` throws; fails the test where there is none.
inline std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

/// Where the shared samples of real data lie.
inline std::filesystem::path samples_folder() {
  const char* const folder = std::getenv("PETAFLOW_SAMPLES");
  return folder == nullptr ? "../shared/data" : folder;
}

}  // namespace petaflow::test

/// Expects that a text holds another one.
#define EXPECT_HOLDS(text, part)                             \
  EXPECT_NE(std::string(text).find(part), std::string::npos) \
      << "\"" << (text) << "\" does not hold \"" << (part) << "\""
