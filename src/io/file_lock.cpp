#include "io/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

namespace petaflow {

FileLock::FileLock(const std::string& path) : file_(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
  if (file_ < 0) return;
  constexpr int kTries = 200, kBetween_us = 50'000;
  for (int i = 0; i < kTries && flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; ++i) usleep(kBetween_us);
}

FileLock::~FileLock() {
  if (file_ >= 0) close(file_);
}

}  // namespace petaflow
