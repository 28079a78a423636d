// A folder or file is written by one process at a time, and held by none that is dead.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/write_lock.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::error_of;
using test::ScratchFolder;

TEST(WriteLock, NamesItsHolderAndLeavesNothing) {
  const ScratchFolder folder;
  {
    const WriteLock lock(folder.path());
    EXPECT_HOLDS(error_of([&] { WriteLock(folder.path(), {.patience_s = 0.3}); }),
                 fmt::format("{} is being written by process {} on ", folder.path(), getpid()));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  const WriteLock again(folder.path());
}

TEST(WriteLock, TakesSingleFiles) {
  const ScratchFolder folder;
  const WriteLock one(folder / "one.h5"), other(folder / "other.h5");
  EXPECT_TRUE(std::filesystem::exists(folder / ".one.h5.lock"));
  const std::string error = error_of([&] { WriteLock(folder / "one.h5", {.patience_s = 0.3}, "take another"); });
  EXPECT_HOLDS(error, fmt::format("one.h5 is being written by process {} on ", getpid()));
  EXPECT_HOLDS(error, "; wait for its end, or take another");
}

TEST(WriteLock, IsOfWhatSymbolicLinksLeadTo) {
  namespace fs = std::filesystem;
  const ScratchFolder scratch;
  for (const char* folder : {"run", "other"}) fs::create_directory(scratch / folder);
  std::ofstream(scratch / "run/one.h5") << "data";
  fs::create_directory_symlink("run", scratch / "link");
  fs::create_symlink("run/one.h5", scratch / "link.h5");
  const auto refused = [&](const char* name) {
    const std::string error = error_of([&] { WriteLock(scratch / name, {.patience_s = 0.3}); });
    return error.find(fmt::format("{} is being written by process {} on ", scratch / name, getpid())) != error.npos;
  };
  const WriteLock other(scratch / "other");
  {
    const WriteLock folder(scratch / "link"), file(scratch / "link.h5");
    EXPECT_TRUE(refused("run"));
    EXPECT_TRUE(refused("link"));
    EXPECT_TRUE(refused("run/one.h5"));
    EXPECT_TRUE(refused("link/one.h5"));
    EXPECT_TRUE(refused("link.h5"));
    // A link that leads elsewhere meanwhile takes no lock with it.
    fs::remove(scratch / "link");
    fs::create_directory_symlink("other", scratch / "link");
    EXPECT_TRUE(refused("run"));
  }
  EXPECT_TRUE(refused("link"));
  EXPECT_FALSE(fs::exists(scratch / "run/lock"));
  const WriteLock folder(scratch / "run"), file(scratch / "run/one.h5");
}

TEST(WriteLock, WaitsForADyingHolder) {
  const ScratchFolder folder;
  auto lock = std::make_unique<WriteLock>(folder.path());
  std::thread end([&] {
    usleep(300'000);
    lock.reset();
  });
  const WriteLock next(folder.path(), {.dying_s = WriteLock::kDying_s});
  end.join();
}

TEST(WriteLock, DiesWithItsProcess) {
  const ScratchFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const WriteLock lock(folder.path());
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
  }
  char x = 0;
  ASSERT_EQ(read(ready[0], &x, 1), 1);
  EXPECT_HOLDS(error_of([&] { WriteLock(folder.path(), {.patience_s = 0.3}); }), fmt::format("process {} on ", child));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(folder / "lock"));
  const WriteLock lock(folder.path());
}

/// Writes what a holder leaves whose flock is not seen here.
std::string holder(const std::string& host, long process, const std::string& beginning, int beats) {
  return fmt::format(
      "{{\"name\": \"process {} on {}\", \"host\": \"{}\", \"process\": {}, \"beginning\": \"{}\", \"beats\": {}}}\n",
      process, host, host, process, beginning, beats);
}

TEST(WriteLock, WhereThereAreNoLocksOfTheSystem) {
  const ScratchFolder folder;
  char host[256] = "";
  gethostname(host, sizeof host);
  // On this host: a process that is gone, one that began at another time, one that lives.
  std::ofstream(folder / "lock") << holder(host, 999'999'999, "1", 0);
  {
    const WriteLock lock(folder.path());
  }
  std::ofstream(folder / "lock") << holder(host, getppid(), "1", 0);
  {
    const WriteLock lock(folder.path());
  }
  {
    const WriteLock lock(folder.path());
    std::filesystem::copy_file(folder / "lock", folder / "copy");
  }
  std::filesystem::rename(folder / "copy", folder / "lock");
  EXPECT_HOLDS(error_of([&] { WriteLock(folder.path(), {.patience_s = 0.3}); }),
               fmt::format("process {} on {}", getpid(), host));
  // On another host: one that changes the file lives.
  std::ofstream(folder / "lock") << holder("elsewhere", 7, "1", 0);
  {
    const WriteLock lock(folder.path(), {.patience_s = 0.5});
  }
  std::ofstream(folder / "lock") << holder("elsewhere", 7, "1", 0);
  std::atomic<bool> end = false;
  std::thread heart([&] {
    for (int beat = 1; !end; ++beat) {
      std::fstream(folder / "lock", std::ios::in | std::ios::out) << holder("elsewhere", 7, "1", beat);  // never empty
      usleep(100'000);
    }
  });
  EXPECT_HOLDS(error_of([&] { WriteLock(folder.path(), {.patience_s = 30}); }),
               "is being written by process 7 on elsewhere; ");
  end = true;
  heart.join();
}

/// How often the holder has changed the file, -1 where there is none or half of one.
long beats_in(const std::string& path) {
  const auto json = nlohmann::json::parse(test::read_bytes(path), nullptr, false);
  return json.is_object() ? json.value("beats", -1L) : -1;
}

/// Whether the holder changes the file so often again within so many seconds.
bool beats_again(const std::string& path, long times, double within_s) {
  const long before = beats_in(path);
  for (double waited_s = 0; waited_s < within_s; waited_s += 0.01) {
    if (beats_in(path) >= before + times) return true;
    usleep(10'000);
  }
  return false;
}

TEST(WriteLock, ChangesTheFileWhileItLives) {
  const ScratchFolder folder;
  const WriteLock lock(folder.path(), {.beat_s = 0.05});
  EXPECT_TRUE(beats_again(folder / "lock", 3, 10));  // once or twice at the interval of runs
  // A holder that has lived for many intervals is refused to others: by the system's lock, and by its process where
  // that is not seen.
  EXPECT_HOLDS(error_of([&] { WriteLock(folder.path(), {.patience_s = 0.3}); }),
               fmt::format("process {} on ", getpid()));
  const ScratchFolder unlocked;
  std::filesystem::copy_file(folder / "lock", unlocked / "lock");
  EXPECT_HOLDS(error_of([&] { WriteLock(unlocked.path(), {.patience_s = 0.3}); }),
               fmt::format("process {} on ", getpid()));
}

/// The file of a holder as another host sees it without its flock: a copy, with another name of the host, that follows
/// every change.
class SeenElsewhere {
 public:
  SeenElsewhere(std::string from, std::string to) : from_(std::move(from)), to_(std::move(to)) {
    copy();
    thread_ = std::thread([this] {
      for (; !ended_; usleep(5'000)) copy();
    });
  }
  ~SeenElsewhere() {
    ended_ = true;
    thread_.join();
  }
  SeenElsewhere(const SeenElsewhere&) = delete;
  SeenElsewhere& operator=(const SeenElsewhere&) = delete;

 private:
  void copy() {
    auto json = nlohmann::json::parse(test::read_bytes(from_), nullptr, false);
    if (!json.is_object() || json == last_) return;
    last_ = json;
    json["host"] = "elsewhere";
    const std::string text = json.dump() + "\n";
    const int file = open(to_.c_str(), O_WRONLY | O_CREAT, 0666);  // never empty, as the holder's own
    EXPECT_EQ(pwrite(file, text.data(), text.size(), 0), std::ssize(text));
    close(file);
  }
  std::string from_, to_;
  nlohmann::json last_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

TEST(WriteLock, IsLostToAnotherHostWhereItsHeartHasStoppedForLong) {
  constexpr double kBeat_s = 0.1, kPatience_s = 2;
  const ScratchFolder folder, elsewhere;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const WriteLock lock(folder.path(), {.beat_s = kBeat_s});
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char x = 0;
  ASSERT_EQ(read(ready[0], &x, 1), 1);
  const auto stop = [child] {
    kill(child, SIGSTOP);
    waitpid(child, nullptr, WUNTRACED);
  };
  {
    const SeenElsewhere seen(folder / "lock", elsewhere / "lock");
    const auto refused = [&](const ScratchFolder& by) {
      const std::string error = error_of([&] { WriteLock(by.path(), {.patience_s = 10}); });
      return error.find(fmt::format("is being written by process {} on ", child)) != error.npos;
    };
    for (int life = 0; life < 3; ++life) EXPECT_TRUE(refused(elsewhere)) << "it beats";
    stop();
    EXPECT_FALSE(beats_again(folder / "lock", 1, 0.5));
    EXPECT_TRUE(refused(folder)) << "here a process that stands still holds what it has";
    kill(child, SIGCONT);
    EXPECT_TRUE(refused(elsewhere)) << "it goes on";
    stop();
  }
  const auto begin = std::chrono::steady_clock::now();
  {
    const WriteLock lock(elsewhere.path(), {.patience_s = kPatience_s});
    EXPECT_GE(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), kPatience_s);
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  // The times of runs: missing one change, or two, is no death.
  EXPECT_GE(WriteLockTimes{}.patience_s, 3 * WriteLockTimes{}.beat_s);
}

}  // namespace
}  // namespace petaflow
