// A file of JSON lines, one object per line, for machines to follow while the run lasts, and the same numbers as events
// of TensorBoard.
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "io/tensorboard.hpp"

namespace petaflow {

class MetricsLog {
 public:
  /// Opens for appending; a last line that a crash cut short is ended first.  Throws a user error where it cannot.
  /// @param events_folder  where TensorBoard's events go too; empty: nowhere
  explicit MetricsLog(std::string path, const std::string& events_folder = "");
  ~MetricsLog();
  MetricsLog(const MetricsLog&) = delete;
  MetricsLog& operator=(const MetricsLog&) = delete;

  /// Appends a line; it is in the file when this returns.  NaN and infinity become null.  Of an object with a "step"
  /// every other number becomes a scalar event of that step, {"validation": {"auc": 0.9}} one with the tag
  /// "validation/auc".  Throws an error where a file cannot take it (disk full), and leaves no part of it there: it
  /// goes before the next one.
  void write(const nlohmann::json& object);

 private:
  std::string path_;
  int file_ = -1;
  std::string unwritten_;  // lines that the file could not take so far
  std::unique_ptr<EventFile> events_;
};

}  // namespace petaflow
