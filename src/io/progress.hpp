// How far a loop is: a bar with rate and time left on a terminal, one plain line per interval in a job log.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

namespace petaflow {

struct ProgressOptions {
  std::string title;             // "epoch 3"; may be empty
  std::int64_t total = 0;        // steps in all; 0: unknown, then neither bar nor time left
  std::int64_t first = 0;        // steps that were done before (a resumed run)
  std::int64_t interval = 1;     // steps per plain line
  double quiet_s = 0;            // without plain lines at first, for what is mostly done at once
  std::string step = "step";     // what is counted to total
  std::string unit = "samples";  // of the rate

  // For tests; empty: the steady clock, whether stdout is a terminal, and the log.
  std::function<double()> clock_s = {};
  std::function<bool()> terminal = {};
  std::function<void(const std::string&)> draw = {}, print = {};
};

/// "0:07", "12:34", "1:02:03", "3 d 04:05"; negative or not finite: "?".
std::string format_duration(double seconds);

/// "1 sample", "1234 samples": of a noun with a regular plural.
std::string format_count(std::int64_t count, const std::string& noun);

/// "1, 2, 3, 6": what divides a number, for messages that name valid values.
std::string format_divisors(std::int64_t number);

/// "3.21", "45.6", "1234", "5.67e6": three digits or a whole number below a million.
std::string format_rate(double per_second);

/// For titles where rank 0 shows how far it is with its share: " (rank 0 of 4)"; nothing where it is alone.
std::string of_rank_0(int ranks);

class Progress {
 public:
  explicit Progress(ProgressOptions options);
  /// Wipes the bar.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// To be called after each step: steps done (options.first included), items done since construction, and a note such
  /// as "loss 0.312".  Draws at most 10 times a second, prints where step is a multiple of the interval or the last.
  void update(std::int64_t step, std::int64_t items, const std::string& note = {});

  /// Items per second over about the last 20 s.
  double rate() const;
  /// Seconds to the last step at the present pace; negative: unknown.
  double time_left() const;

 private:
  struct Mark {
    double time_s;
    std::int64_t step, items;
  };

  std::string text(const std::string& note, bool bar) const;

  ProgressOptions options_;
  bool terminal_;
  double begun_s_, drawn_s_;
  Mark now_;
  std::deque<Mark> marks_;  // at least 0.1 s apart
};

}  // namespace petaflow
