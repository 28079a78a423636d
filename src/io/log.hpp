// Lines for people: plain text, rank 0 to stdout, warnings of any rank to stderr.
#pragma once

#include <string>
#include <utility>

#include <fmt/format.h>

namespace petaflow {

/// Says which rank this process is; before it, the process is rank 0.
void log_start(int rank);

/// From now on log_line() is silent on all ranks: the standard output is for machines.  Warnings are not.
void log_nothing_but_warnings();

/// Whether this rank's stdout is a terminal that can redraw a line (TERM=dumb cannot).
bool log_is_terminal();

/// One line to stdout, flushed; other ranks than 0 are silent.
void log_line(const std::string& line);

/// One line to stderr, "warning: ..." or "rank 3: warning: ...", flushed; any rank.
void log_warning_line(const std::string& line);

/// Draws text over the present status line of the terminal, cut to its width; empty text wipes it.  Log lines push the
/// status line down.  Without a terminal nothing happens.
void log_status(const std::string& text);

template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) {
  log_line(fmt::format(text, std::forward<Args>(args)...));
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> text, Args&&... args) {
  log_warning_line(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace petaflow
