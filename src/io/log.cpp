// Lines and the status line below them share a terminal: each line wipes the status line and draws it again.
#include "io/log.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace petaflow {
namespace {

struct State {
  std::mutex mutex;  // loader threads warn too
  int rank = 0;
  bool has_lines = true;
  std::string status;
};

State& state() {
  static State instance;
  return instance;
}

constexpr const char* kWipe = "\r\x1b[K";  // to the line's start, erase to its end

std::size_t terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write(std::FILE* file, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

// Writes a line with the status line taken away before it and drawn again after it.
void write_line(State& s, std::FILE* file, const std::string& line) {
  if (!s.status.empty()) write(stdout, kWipe);
  write(file, line + "\n");
  if (!s.status.empty()) write(stdout, s.status);
}

}  // namespace

void log_start(int rank) { state().rank = rank; }

void log_nothing_but_warnings() { state().has_lines = false; }

bool log_is_terminal() {
  const char* term = std::getenv("TERM");
  // Open MPI's mpirun hands ranks a terminal of its own, also where the job's output goes to a file.
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) return false;
  return state().rank == 0 && isatty(STDOUT_FILENO) != 0 && term != nullptr && std::string(term) != "dumb";
}

void log_line(const std::string& line) {
  State& s = state();
  if (s.rank != 0 || !s.has_lines) return;
  const std::lock_guard lock(s.mutex);
  write_line(s, stdout, line);
}

void log_warning_line(const std::string& line) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  write_line(s, stderr, (s.rank == 0 ? "" : fmt::format("rank {}: ", s.rank)) + "warning: " + line);
}

void log_status(const std::string& text) {
  if (!log_is_terminal()) return;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.status = text.substr(0, terminal_width() - 1);
  write(stdout, kWipe + s.status);
}

}  // namespace petaflow
