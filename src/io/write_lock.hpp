// The right to write a folder or file, which one process at a time has.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace petaflow {

struct WriteLockTimes {
  double dying_s = 0;      // to wait at most for a holder that has the system's lock
  double patience_s = 20;  // to wait at most for a change by a holder on another host; several beats of every holder
  double beat_s = 5;       // between the holder's own changes
};

/// While it lives, no other process takes the same folder or file, by whatever path or symbolic link: others are
/// refused.  (FileLock lets them wait.)  The file `lock` in the folder, or .FILE.lock beside the file, names the holder
/// (host, process, job) and is removed at the end; a holder that died holds nothing:
///   flock     the system frees it with the process, on most shared file systems on all hosts;
///   process   on the same host, where there is no flock, a process that is gone or began later is not the holder;
///   changes   from another host, where flock is missing or sees its own host only: a living holder changes the file
///             every beat_s, and one that has not for patience_s is dead.  No clocks of two hosts are compared.
class WriteLock {
 public:
  static constexpr double kDying_s = 5;  // that the ranks of a killed job may take to end

  /// Throws a user error that names the holder where it is taken, and where the lock's file cannot be written.
  /// @param path  a folder; or a file, there or not, in one
  /// @param otherwise  what the user may do instead of waiting, for that error
  explicit WriteLock(std::string path, const WriteLockTimes& times = {},
                     std::string otherwise = "give this run another run.name");
  ~WriteLock();
  WriteLock(const WriteLock&) = delete;
  WriteLock& operator=(const WriteLock&) = delete;

 private:
  bool open_and_lock(bool last_try);
  [[noreturn]] void refuse(const std::string& text) const;
  void refuse_living_holder(double patience_s);
  void write();
  void beat(double every_s);

  std::string path_, lock_, otherwise_;
  int file_ = -1;
  long beats_ = 0;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ended_ = false;
  std::thread heart_;
};

}  // namespace petaflow
