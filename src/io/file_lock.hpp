// A file that several processes change: one after the other.
#pragma once

#include <string>

namespace petaflow {

/// While it lives, others that make one of the same path wait, on this machine and, where the file system has locks for
/// all of them, on others.  Nobody waits longer than ten seconds, and nobody where there are no locks: what is locked
/// must be safe without, too.
class FileLock {
 public:
  /// @param path  of a file for this purpose alone, which is made and stays
  explicit FileLock(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

}  // namespace petaflow
