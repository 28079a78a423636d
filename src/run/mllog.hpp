// Event lines of MLPerf: ":::MLLOG {json}", one per event (mlcommons/logging, rules of MLPerf HPC 3.0).
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace petaflow {

class MlLog {
 public:
  /// Logs cache_clear and init_start now; the lines are kept until there is a file.  The files that the system holds in
  /// memory are left to the job script, which the rules want to drop them before the program starts.
  MlLog();
  /// Creates the file and writes what has been logged so far.  Throws a user error where that fails, as the others do.
  void open(const std::string& path);

  /// Events INTERVAL_START, INTERVAL_END and POINT_IN_TIME; they throw as open() does.
  void start(const std::string& key, const nlohmann::json& metadata = nlohmann::json::object());
  void stop(const std::string& key, const nlohmann::json& metadata = nlohmann::json::object());
  void point(const std::string& key, const nlohmann::json& value,
             const nlohmann::json& metadata = nlohmann::json::object());

 private:
  void event(const char* type, const std::string& key, const nlohmann::json& value, const nlohmann::json& metadata);
  void write();

  std::string path_, unwritten_;
};

}  // namespace petaflow
