// A file of JSON lines, one object per line, for machines to follow while the run lasts.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

namespace petaflow {

class MetricsLog {
 public:
  /// Opens for appending; a last line that a crash cut short is ended first.  Throws a user error where it cannot.
  explicit MetricsLog(std::string path);
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// Appends a line; it is in the file when this returns.  NaN and infinity become null.  Throws an error
  /// where the file cannot take it (disk full), and leaves no part of the line.
  void write(const nlohmann::json& object);

 private:
  std::string path_;
  int file_ = -1;
};

}  // namespace petaflow
