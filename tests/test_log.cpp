// Log lines, progress, JSON lines and atomic files.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "io/metrics_log.hpp"
#include "io/progress.hpp"

namespace petaflow {
namespace {

using testing::internal::CaptureStderr;
using testing::internal::CaptureStdout;
using testing::internal::GetCapturedStderr;
using testing::internal::GetCapturedStdout;

class Log : public ::testing::Test {
 protected:
  ~Log() override { log_start(0); }
};

TEST_F(Log, RankZeroWritesLinesToStdout) {
  log_start(0);
  CaptureStdout();
  CaptureStderr();
  log_info("loss {:.2f}", 0.125);
  log_warning("{} is slow", "disk");
  EXPECT_EQ(GetCapturedStdout(), "loss 0.12\n");
  EXPECT_EQ(GetCapturedStderr(), "warning: disk is slow\n");
}

TEST_F(Log, OtherRanksOnlyWarn) {
  log_start(3);
  CaptureStdout();
  CaptureStderr();
  log_info("loss {:.2f}", 0.125);
  log_warning("{} is slow", "disk");
  EXPECT_EQ(GetCapturedStdout(), "");
  EXPECT_EQ(GetCapturedStderr(), "rank 3: warning: disk is slow\n");
}

TEST_F(Log, NoStatusWithoutATerminal) {
  CaptureStdout();
  EXPECT_FALSE(log_is_terminal());
  log_status("[###...]");
  log_info("line");
  EXPECT_EQ(GetCapturedStdout(), "line\n");
}

// Text that f writes to stdout where that is a terminal of 20 columns.
template <class F>
std::string on_terminal(const char* term, const F& f) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_TRUE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
  const winsize size{.ws_row = 25, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
  ioctl(slave, TIOCSWINSZ, &size);
  const char* before = std::getenv("TERM");
  const std::string saved = before == nullptr ? "" : before;
  setenv("TERM", term, 1);
  std::fflush(stdout);
  const int real = dup(STDOUT_FILENO);
  dup2(slave, STDOUT_FILENO);
  f();
  std::fflush(stdout);
  dup2(real, STDOUT_FILENO);
  setenv("TERM", saved.c_str(), 1);
  // The terminal passes on what it got in pieces, when it likes: read up to a mark.
  EXPECT_EQ(write(slave, "#", 1), 1);
  std::string text;
  for (pollfd ready{master, POLLIN, 0}; (text.empty() || text.back() != '#') && poll(&ready, 1, 10000) > 0;) {
    char piece[1000];
    const ssize_t n = read(master, piece, sizeof piece);
    if (n <= 0) break;
    text.append(piece, static_cast<std::size_t>(n));
  }
  for (const int file : {slave, real, master}) close(file);
  return text.substr(0, text.find('#'));
}

TEST_F(Log, StatusLineOnATerminal) {
  const auto draw = [] {
    log_status("step 1 of a long line that is cut");
    log_info("line");
    log_status("");
    log_info("end");
  };
  EXPECT_EQ(on_terminal("xterm", draw),
            "\r\x1b[Kstep 1 of a long li\r\x1b[Kline\r\nstep 1 of a long li\r\x1b[Kend\r\n");
  EXPECT_EQ(on_terminal("dumb", draw), "line\r\nend\r\n");
  log_start(1);
  EXPECT_EQ(on_terminal("xterm", draw), "");
}

TEST(Format, Duration) {
  EXPECT_EQ(format_duration(7), "0:07");
  EXPECT_EQ(format_duration(59.6), "1:00");
  EXPECT_EQ(format_duration(754), "12:34");
  EXPECT_EQ(format_duration(3723), "1:02:03");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600 + 5 * 60), "3 d 04:05");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::nan("")), "?");
}

TEST(Format, Rate) {
  EXPECT_EQ(format_rate(3.206), "3.21");
  EXPECT_EQ(format_rate(45.6), "45.6");
  EXPECT_EQ(format_rate(99.96), "100");
  EXPECT_EQ(format_rate(1234.4), "1234");
  EXPECT_EQ(format_rate(5.67e6), "5.67e+06");
  EXPECT_EQ(format_rate(0), "0.00");
  EXPECT_EQ(format_count(1, "sample"), "1 sample");
  EXPECT_EQ(format_count(1234, "sample"), "1234 samples");
}

class ProgressTest : public ::testing::Test {
 protected:
  ProgressOptions options(bool terminal, std::int64_t total, std::int64_t interval, std::int64_t first = 0) {
    return {.title = "epoch 1",
            .total = total,
            .first = first,
            .interval = interval,
            .clock_s = [this] { return now_s_; },
            .terminal = [terminal] { return terminal; },
            .draw = [this](const std::string& text) { drawn_.push_back(text); },
            .print = [this](const std::string& text) { printed_.push_back(text); }};
  }

  double now_s_ = 100;
  std::vector<std::string> drawn_, printed_;
};

TEST_F(ProgressTest, OnePlainLinePerIntervalAndOneAtTheEnd) {
  Progress progress(options(false, 5, 2));
  for (int step = 1; step <= 5; ++step) {
    now_s_ += 0.5;
    progress.update(step, 8 * step, step == 4 ? "loss 0.3" : "");
  }
  EXPECT_EQ(printed_, (std::vector<std::string>{"epoch 1  step 2/5  16.0 samples/s  0:02 left",
                                                "epoch 1  step 4/5  loss 0.3  16.0 samples/s  0:01 left",
                                                "epoch 1  step 5/5  16.0 samples/s  0:00 left"}));
  EXPECT_TRUE(drawn_.empty());
}

TEST_F(ProgressTest, WhatIsDoneAtOncePrintsNothing) {
  ProgressOptions quiet = options(false, 5, 1);
  quiet.quiet_s = 2;
  Progress progress(quiet);
  for (int step = 1; step <= 5; ++step) {
    now_s_ += 0.5;
    progress.update(step, step);
  }
  EXPECT_EQ(printed_.size(), 2U);  // of the steps after 2.0 and 2.5 s
}

TEST_F(ProgressTest, TheBarIsRedrawnTenTimesASecond) {
  {
    Progress progress(options(true, 1000, 1));
    for (int step = 1; step <= 1000; ++step) {
      now_s_ += 0.001;
      progress.update(step, step);
    }
    EXPECT_GE(drawn_.size(), 9U);
    EXPECT_LE(drawn_.size(), 10U);
    EXPECT_EQ(drawn_.back(), "epoch 1  [########################] step 1000/1000  1000 samples/s  0:00 left");
    EXPECT_NE(drawn_[4].find("[############............] step 50"), std::string::npos) << drawn_[4];
  }
  EXPECT_EQ(drawn_.back(), "");
  EXPECT_TRUE(printed_.empty());
}

TEST_F(ProgressTest, TheRateFollowsTheLastTwentySeconds) {
  Progress progress(options(false, 0, 0));
  for (int step = 1; step <= 100; ++step) {
    now_s_ += 1;
    progress.update(step, 10 * step);
  }
  EXPECT_DOUBLE_EQ(progress.rate(), 10);
  for (int step = 1; step <= 30; ++step) {
    now_s_ += 1;
    progress.update(100 + step, 1000 + 2 * step);
  }
  EXPECT_DOUBLE_EQ(progress.rate(), 2);
  EXPECT_LT(progress.time_left(), 0);  // no total
}

TEST_F(ProgressTest, AResumedRunCountsItsOwnStepsOnly) {
  Progress progress(options(false, 100, 10, 50));
  EXPECT_LT(progress.time_left(), 0);
  now_s_ += 10;
  progress.update(60, 320);
  EXPECT_DOUBLE_EQ(progress.rate(), 32);
  EXPECT_DOUBLE_EQ(progress.time_left(), 40);
}

class Files : public ::testing::Test {
 protected:
  Files() {
    char name[] = "/tmp/petaflow_files_XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  template <class F>
  static std::pair<ErrorKind, std::string> error(const F& f) {
    try {
      f();
    } catch (const Error& e) {
      return {e.kind(), e.what()};
    }
    return {ErrorKind::kUser, "no error"};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

  std::string folder_;
};

TEST_F(Files, MetricsAreThereAfterEachLineAndAppended) {
  const std::string path = folder_ + "/metrics.jsonl";
  {
    MetricsLog log(path);
    log.write({{"step", 1}, {"loss", 0.5}});
    EXPECT_EQ(content(path), "{\"loss\":0.5,\"step\":1}\n");
    log.write({{"step", 2}, {"loss", std::nan("")}, {"rate", HUGE_VAL}, {"name", "a\xff\n"}});
  }
  MetricsLog(path).write({{"step", 3}});
  EXPECT_EQ(content(path),
            "{\"loss\":0.5,\"step\":1}\n{\"loss\":null,\"name\":\"a\xEF\xBF\xBD\\n\",\"rate\":null,\"step\":2}\n"
            "{\"step\":3}\n");
}

TEST_F(Files, ALineThatACrashCutShortIsEnded) {
  const std::string path = folder_ + "/metrics.jsonl";
  std::ofstream(path) << "{\"step\":1}\n{\"st";
  MetricsLog(path).write({{"step", 3}});
  EXPECT_EQ(content(path), "{\"step\":1}\n{\"st\n{\"step\":3}\n");
}

TEST_F(Files, MetricsThatCannotBeWritten) {
  const auto folder = error([&] { MetricsLog log(folder_ + "/none/metrics.jsonl"); });
  EXPECT_EQ(folder.first, ErrorKind::kUser);
  EXPECT_EQ(folder.second, "cannot write " + folder_ + "/none/metrics.jsonl: No such file or directory");
  MetricsLog full("/dev/full");
  const auto disk = error([&] { full.write({{"step", 1}}); });
  EXPECT_EQ(disk.first, ErrorKind::kUser);
  EXPECT_EQ(disk.second, "cannot write /dev/full: No space left on device");
}

TEST_F(Files, AtomicWriteReplacesAndLeavesNothingElse) {
  const std::string path = folder_ + "/config.toml";
  write_file_atomically(path, "old");
  struct stat before{};
  stat(path.c_str(), &before);
  write_file_atomically(path, "new text");
  struct stat after{};
  stat(path.c_str(), &after);
  EXPECT_EQ(content(path), "new text");
  EXPECT_NE(before.st_ino, after.st_ino);  // another file under the name, not the old one overwritten
  EXPECT_EQ(files(), 1U);
}

TEST_F(Files, AtomicWriteInTheWorkingFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  write_file_atomically("plain.txt", "x");
  std::filesystem::current_path(before);
  EXPECT_EQ(content(folder_ + "/plain.txt"), "x");
}

TEST_F(Files, AtomicWriteThatFails) {
  const auto folder = error([&] { write_file_atomically(folder_ + "/none/a", "x"); });
  EXPECT_EQ(folder.first, ErrorKind::kUser);
  EXPECT_EQ(folder.second, "cannot write " + folder_ + "/none/a: No such file or directory");
  std::filesystem::create_directory(folder_ + "/taken");
  const auto taken = error([&] { write_file_atomically(folder_ + "/taken", "x"); });
  EXPECT_EQ(taken.first, ErrorKind::kUser);
  EXPECT_EQ(taken.second, "cannot write " + folder_ + "/taken: Is a directory");
  EXPECT_EQ(files(), 1U);  // no temporary is left
}

}  // namespace
}  // namespace petaflow
