#include "run/mllog.hpp"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/error.hpp"

namespace petaflow {

MlLog::MlLog() {
  point("cache_clear", true);
  start("init_start");
}

void MlLog::open(const std::string& path) {
  path_ = path;
  std::ofstream(path_, std::ios::trunc).close();
  write();
}

void MlLog::start(const std::string& key, const nlohmann::json& metadata) {
  event("INTERVAL_START", key, nullptr, metadata);
}
void MlLog::stop(const std::string& key, const nlohmann::json& metadata) {
  event("INTERVAL_END", key, nullptr, metadata);
}
void MlLog::point(const std::string& key, const nlohmann::json& value, const nlohmann::json& metadata) {
  event("POINT_IN_TIME", key, value, metadata);
}

void MlLog::event(const char* type, const std::string& key, const nlohmann::json& value,
                  const nlohmann::json& metadata) {
  using std::chrono::duration_cast, std::chrono::milliseconds, std::chrono::system_clock;
  const auto now = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
  nlohmann::ordered_json line;
  line["namespace"] = "";
  line["time_ms"] = now;
  line["event_type"] = type;
  line["key"] = key;
  line["value"] = value;
  line["metadata"] = metadata;
  unwritten_ += ":::MLLOG " + line.dump() + "\n";
  if (!path_.empty()) write();
}

void MlLog::write() {
  std::ofstream file(path_, std::ios::app);
  file << unwritten_;
  file.flush();
  if (!file) user_error("{} cannot be written: {}", path_, std::strerror(errno));
  unwritten_.clear();
}

}  // namespace petaflow
