#include "io/write_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "io/host_name.hpp"
#include "io/log.hpp"

namespace petaflow {
namespace {

/// When a process began, in ticks since the host was started; empty: there is none that lives.  Process numbers come
/// again, pairs of number and beginning do not.
std::string beginning_of(long process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));  // names may hold blanks
  std::string state, field;
  fields >> state;
  for (int i = 4; i <= 22; ++i) fields >> field;  // proc(5): starttime is the 22nd
  return !fields || state == "Z" || state == "X" ? "" : field;
}

std::string text_of(int file) {
  std::array<char, 4096> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(0, size))};
}

std::string read_again(const std::string& path) {  // opening asks a file server anew
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// That of what a path leads to: symbolic links to one folder or file have one lock, and keep it where they are changed
// meanwhile.  Beside a file it begins with a dot, so that patterns such as data/train* do not take it for data.
std::string lock_of(const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path path = fs::weakly_canonical(fs::absolute(name));
  if (fs::is_directory(path)) return path / "lock";
  return path.parent_path() / ("." + path.filename().string() + ".lock");
}

}  // namespace

WriteLock::WriteLock(std::string path, const WriteLockTimes& times, std::string otherwise)
    : path_(std::move(path)), lock_(lock_of(path_)), otherwise_(std::move(otherwise)) {
  try {
    constexpr double kBetween_s = 0.1;
    for (double waited_s = 0; !open_and_lock(waited_s >= times.dying_s); waited_s += kBetween_s) {
      if (waited_s == 0)
        log_info("waiting up to {:.0f} s for the end of another process that writes {}", times.dying_s, path_);
      usleep(static_cast<useconds_t>(1e6 * kBetween_s));
    }
    refuse_living_holder(times.patience_s);
    try {
      write();
    } catch (...) {
      unlink(lock_.c_str());
      throw;
    }
  } catch (...) {
    close(file_);
    throw;
  }
  heart_ = std::thread([this, every_s = times.beat_s] { beat(every_s); });
}

WriteLock::~WriteLock() {
  {
    const std::lock_guard guard(mutex_);
    ended_ = true;
  }
  end_.notify_one();
  heart_.join();
  unlink(lock_.c_str());
  close(file_);
}

/// False where another process holds the lock, or its holder has removed the file meanwhile.
/// @param last_try  throws in the first case
bool WriteLock::open_and_lock(bool last_try) {
  file_ = open(lock_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) user_error("cannot write {}: {}", lock_, std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    if (last_try) refuse(text_of(file_));
    close(std::exchange(file_, -1));
    return false;
  }
  struct stat mine{}, there{};
  if (fstat(file_, &mine) == 0 && stat(lock_.c_str(), &there) == 0 && mine.st_ino == there.st_ino) return true;
  close(std::exchange(file_, -1));
  return false;
}

/// @param text  what the holder wrote into the lock's file
void WriteLock::refuse(const std::string& text) const {
  const nlohmann::json holder = nlohmann::json::parse(text, nullptr, false);
  const std::string name = holder.is_object() ? holder.value("name", "another process") : "another process";
  user_error("{} is being written by {}; wait for its end, or {}", path_, name, otherwise_);
}

/// Throws where a living holder stands in the file although it could be locked, or cannot be on this file system.
void WriteLock::refuse_living_holder(double patience_s) {
  const std::string before = text_of(file_);
  const nlohmann::json holder = nlohmann::json::parse(before, nullptr, false);
  if (!holder.is_object()) return;
  bool lives = false;
  if (holder.value("host", "") == host_name()) {
    const std::string beginning = beginning_of(holder.value("process", 0L));
    lives = !beginning.empty() && beginning == holder.value("beginning", "");
  } else {
    for (double waited_s = 0; waited_s < patience_s && !lives; waited_s += 0.2) {
      usleep(200'000);
      lives = read_again(lock_) != before;
    }
  }
  if (lives) refuse(before);
}

void WriteLock::write() {
  const char* const job = std::getenv("SLURM_JOB_ID");
  const std::string host = host_name();
  const auto process = static_cast<long>(getpid());
  nlohmann::json json = {
      {"name", fmt::format("process {} on {}{}", process, host, job != nullptr ? fmt::format(" (job {})", job) : "")},
      {"host", host},
      {"process", process},
      {"beginning", beginning_of(process)},
      {"beats", beats_++}};
  const std::string text = json.dump() + "\n";
  // Numbers of beats get longer, never shorter: no older text sticks out.
  if (pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()) ||
      ftruncate(file_, static_cast<off_t>(text.size())) != 0) {
    user_error("cannot write {}: {}", lock_, std::strerror(errno));
  }
  fsync(file_);
}

void WriteLock::beat(double every_s) {
  std::unique_lock guard(mutex_);
  while (!end_.wait_for(guard, std::chrono::duration<double>(every_s), [this] { return ended_; })) {
    try {
      write();
    } catch (const Error&) {
      continue;  // a full disk ends no run
    }
  }
}

}  // namespace petaflow
