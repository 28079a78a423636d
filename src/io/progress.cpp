// Rate, time left and the text of the progress line.
#include "io/progress.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "io/log.hpp"

namespace petaflow {
namespace {

constexpr double kRedraw_s = 0.1;
constexpr double kWindow_s = 20;
constexpr int kBarWidth = 24;

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string format_duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9) return "?";
  const auto s = static_cast<std::int64_t>(std::llround(seconds));
  if (s >= 86400) return fmt::format("{} d {:02}:{:02}", s / 86400, s / 3600 % 24, s / 60 % 60);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

std::string format_count(std::int64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string format_divisors(std::int64_t number) {
  std::string all;
  for (std::int64_t i = 1; i <= number; ++i) {
    if (number % i == 0) all += fmt::format("{}{}", all.empty() ? "" : ", ", i);
  }
  return all;
}

std::string format_rate(double per_second) {
  if (per_second >= 999999.5) return fmt::format("{:.3g}", per_second);
  return per_second >= 99.95 ? fmt::format("{:.0f}", per_second) : fmt::format("{:#.3g}", per_second);
}

std::string of_rank_0(int ranks) { return ranks > 1 ? fmt::format(" (rank 0 of {})", ranks) : ""; }

Progress::Progress(ProgressOptions options) : options_(std::move(options)) {
  if (!options_.clock_s) options_.clock_s = steady_seconds;
  if (!options_.draw) options_.draw = log_status;
  if (!options_.print) options_.print = log_line;
  terminal_ = options_.terminal ? options_.terminal() : log_is_terminal();
  now_ = {options_.clock_s(), options_.first, 0};
  begun_s_ = drawn_s_ = now_.time_s;
  marks_.push_back(now_);
}

Progress::~Progress() {
  if (terminal_) options_.draw("");
}

double Progress::rate() const {
  const double elapsed_s = now_.time_s - marks_.front().time_s;
  return elapsed_s > 0 ? static_cast<double>(now_.items - marks_.front().items) / elapsed_s : 0;
}

double Progress::time_left() const {
  const std::int64_t steps = now_.step - marks_.front().step;
  if (options_.total <= 0 || steps <= 0) return -1;
  const double step_s = (now_.time_s - marks_.front().time_s) / static_cast<double>(steps);
  return step_s * static_cast<double>(std::max<std::int64_t>(0, options_.total - now_.step));
}

std::string Progress::text(const std::string& note, bool bar) const {
  std::string line = options_.title.empty() ? "" : options_.title + "  ";
  if (options_.total > 0) {
    const double share = std::clamp(static_cast<double>(now_.step) / static_cast<double>(options_.total), 0.0, 1.0);
    const auto full = static_cast<std::size_t>(share * kBarWidth);
    if (bar) line += fmt::format("[{:#<{}}{:.<{}}] ", "", full, "", kBarWidth - full);
    line += fmt::format("{} {}/{}", options_.step, now_.step, options_.total);
  } else {
    line += fmt::format("{} {}", options_.step, now_.step);
  }
  if (!note.empty()) line += "  " + note;
  line += fmt::format("  {} {}/s", format_rate(rate()), options_.unit);
  if (options_.total > 0) line += fmt::format("  {} left", format_duration(time_left()));
  return line;
}

void Progress::update(std::int64_t step, std::int64_t items, const std::string& note) {
  now_ = {options_.clock_s(), step, items};
  const bool last = step == options_.total;
  if (terminal_) {
    if (last || now_.time_s - drawn_s_ >= kRedraw_s) {
      options_.draw(text(note, true));
      drawn_s_ = now_.time_s;
    }
  } else if (now_.time_s - begun_s_ >= options_.quiet_s &&
             (last || (options_.interval > 0 && step % options_.interval == 0))) {
    options_.print(text(note, false));
  }
  if (now_.time_s - marks_.back().time_s >= kRedraw_s) marks_.push_back(now_);
  while (marks_.size() > 2 && now_.time_s - marks_[1].time_s >= kWindow_s) marks_.pop_front();
}

}  // namespace petaflow
