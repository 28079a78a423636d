// A run folder belongs to one process at a time, and to none that is dead.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "io/folder_lock.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::error_of;
using test::ScratchFolder;

TEST(FolderLock, NamesItsHolderAndLeavesNothing) {
  const ScratchFolder folder;
  {
    const FolderLock lock(folder.path());
    EXPECT_HOLDS(error_of([&] { FolderLock(folder.path(), 0, 0.3); }),
                 fmt::format("{} is being written by process {} on ", folder.path(), getpid()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const FolderLock again(folder.path());
}

TEST(FolderLock, WaitsForADyingHolder) {
  const ScratchFolder folder;
  auto lock = std::make_unique<FolderLock>(folder.path());
  std::thread end([&] {
    usleep(300'000);
    lock.reset();
  });
  const FolderLock next(folder.path(), FolderLock::kDying_s);
  end.join();
}

TEST(FolderLock, DiesWithItsProcess) {
  const ScratchFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock lock(folder.path());
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char x = 0;
  ASSERT_EQ(read(ready[0], &x, 1), 1);
  EXPECT_HOLDS(error_of([&] { FolderLock(folder.path(), 0, 0.3); }), fmt::format("process {} on ", child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "lock"));
  const FolderLock lock(folder.path());
}

/// Writes what a holder leaves whose flock is not seen here.
void write_holder(const std::string& path, const std::string& host, long process, const std::string& beginning,
                  int beats) {
  std::ofstream(path) << fmt::format(
      "{{\"name\": \"process {} on {}\", \"host\": \"{}\", \"process\": {}, \"beginning\": \"{}\", \"beats\": {}}}\n",
      process, host, host, process, beginning, beats);
}

TEST(FolderLock, WhereThereAreNoLocksOfTheSystem) {
  const ScratchFolder folder;
  char host[256] = "";
  gethostname(host, sizeof host);
  // On this host: a process that is gone, one that began at another time, one that lives.
  write_holder(folder / "lock", host, 999'999'999, "1", 0);
  {
    const FolderLock lock(folder.path());
  }
  write_holder(folder / "lock", host, getppid(), "1", 0);
  {
    const FolderLock lock(folder.path());
  }
  {
    const FolderLock lock(folder.path());
    std::filesystem::copy_file(folder / "lock", folder / "copy");
  }
  std::filesystem::rename(folder / "copy", folder / "lock");
  EXPECT_HOLDS(error_of([&] { FolderLock(folder.path(), 0, 0.3); }), fmt::format("process {} on {}", getpid(), host));
  // On another host: one that changes the file lives.
  write_holder(folder / "lock", "elsewhere", 7, "1", 0);
  {
    const FolderLock lock(folder.path(), 0, 0.5);
  }
  write_holder(folder / "lock", "elsewhere", 7, "1", 0);
  std::atomic<bool> end = false;
  std::thread heart([&] {
    for (int beat = 1; !end; ++beat) {
      write_holder(folder / "lock", "elsewhere", 7, "1", beat);
      usleep(100'000);
    }
  });
  EXPECT_HOLDS(error_of([&] { FolderLock(folder.path(), 0, 30.0); }), "is being written by process 7 on elsewhere; ");
  end = true;
  heart.join();
}

}  // namespace
}  // namespace petaflow
