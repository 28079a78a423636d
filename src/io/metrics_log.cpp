// Appending JSON lines.
#include "io/metrics_log.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "io/atomic_file.hpp"

namespace petaflow {

namespace {

void add_scalars(const nlohmann::json& object, const std::string& prefix, std::vector<NamedScalar>& scalars) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) add_scalars(value, prefix + key + "/", scalars);
    if (value.is_number() && key != "step") scalars.emplace_back(prefix + key, value.get<double>());
  }
}

}  // namespace

MetricsLog::MetricsLog(std::string path, const std::string& events_folder) : path_(std::move(path)) {
  file_ = open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) user_error("cannot write {}: {}", path_, std::strerror(errno));
  const off_t size = lseek(file_, 0, SEEK_END);
  char last = '\n';
  if (size > 0 && pread(file_, &last, 1, size - 1) == 1 && last != '\n') write_all(file_, "\n", path_);
  if (!events_folder.empty()) events_ = std::make_unique<EventFile>(events_folder);
}

MetricsLog::~MetricsLog() { close(file_); }

void MetricsLog::write(const nlohmann::json& object) {
  const off_t size = lseek(file_, 0, SEEK_END);
  append_all(file_, object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n", path_);
  if (!events_ || !object.contains("step")) return;
  std::vector<NamedScalar> scalars;
  add_scalars(object, "", scalars);
  if (scalars.empty()) return;
  try {
    events_->write(object["step"].get<std::int64_t>(), scalars);
  } catch (const Error&) {
    if (ftruncate(file_, size) != 0) throw;  // in both files or in none: whoever tries again writes both
    throw;
  }
}

}  // namespace petaflow
