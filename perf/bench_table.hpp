// The table of bench: which lines are wanted, and the median time of each beside what the processor can do.
#pragma once

#include <algorithm>
#include <cstdio>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/error.hpp"
#include "io/progress.hpp"
#include "measure/binding.hpp"
#include "measure/peak.hpp"

namespace petaflow::perf {

/// Work of a line beside its time.
struct Work {
  std::string shape, pass, implementation;
  std::size_t tiles = 1;
  double flop = 0, bytes = 0;  // bytes: to and from memory at least
  std::string detail;

  std::string form() const { return tiles == 1 ? "whole" : fmt::format("{} tiles", tiles); }
  /// Path that --filter searches.
  std::string path() const {
    return fmt::format("{}/{}/{}/{}", shape, pass, implementation, tiles == 1 ? "whole" : "tiles");
  }
};

/// Table of one run of the program; prints as it goes.
class Table {
 public:
  struct Options {
    std::string precision = "f32", filter;
    double seconds = 0.2;  // of each line
    bool refused = false;  // print them
  };

  /// Measures the peaks and prints the head.
  Table(Options options, const Context& context)
      : options_(std::move(options)),
        filter_(to_filter(options_.filter)),
        context_(context),
        peaks_(measure_peaks(context)),
        triad_(context),
        triad_gbs_(triad_.measure_gbs()) {
    fmt::print("{}, {}, {}; it reaches {}, {:.1f} GB/s in a triad\n", own_binding(0, context.threads).processor,
               format_count(context.threads, "thread"), options_.precision, peaks_.describe(), triad_gbs_);
    fmt::print("{:<26} {:<16} {:<15} {:<11} {:>9} {:>8} {:>7} {:>7} {:>8}  {}\n", "shape", "pass", "implementation",
               "runs as", "ms", "GFLOP/s", "of peak", "GB/s", "of triad", "what runs");
  }

  /// Whether --filter lets it through.
  bool wanted(const Work& work) const { return std::regex_search(work.path(), filter_); }

  /// Counts a line whose implementation refuses the shape, and prints why where that is asked for.
  void refuse(const Work& work, const std::string& reason) {
    ++refused_;
    if (!options_.refused) return;
    fmt::print("{:<26} {:<16} {:<15} {:<11} refused: {}\n", work.shape, work.pass, work.implementation, work.form(),
               reason);
  }

  /// Prints the line of run(), which is called for options.seconds.  A line bound by memory takes turns with the triad:
  /// other tenants of a machine take a share of its bandwidth that changes by a factor of two within minutes.
  template <class F>
  void measure(const Work& work, const F& run) {
    constexpr int kTurns = 5;
    const bool computes = work.flop > 0;
    run();                                // touches memory
    std::vector<double> seconds, shares;  // medians of the turns
    const int turns = computes || options_.seconds == 0 ? 1 : kTurns;
    for (int turn = 0; turn < turns; ++turn) {
      seconds.push_back(median(times(run, options_.seconds / turns)));
      shares.push_back(1e-9 * work.bytes / seconds.back() / (turns == 1 ? triad_gbs_ : triad_.measure_gbs()));
    }
    ++timed_;
    const double s = median(seconds), gflops = 1e-9 * work.flop / s, gbs = 1e-9 * work.bytes / s;
    fmt::print("{:<26} {:<16} {:<15} {:<11} {:>9.4f} {:>8} {:>7} {:>7.1f} {:>6.0f} %  {}\n", work.shape, work.pass,
               work.implementation, work.form(), 1e3 * s, computes ? fmt::format("{:.1f}", gflops) : "-",
               computes ? fmt::format("{:.0f} %", 100 * gflops / peaks_.of(options_.precision)) : "-", gbs,
               100 * median(shares), work.detail);
    std::fflush(stdout);
  }

  /// Says how many were refused; an error where there was nothing to time.
  void finish() const {
    if (refused_ > 0 && !options_.refused) fmt::print("{} refused; --refused says why\n", refused_);
    if (timed_ + refused_ == 0) {
      user_error("--filter \"{}\" lets nothing through; it searches texts such as hep/conv2/forward/winograd/tiles",
                 options_.filter);
    }
  }

 private:
  /// Throws a user error where the text is no regular expression.
  static std::regex to_filter(const std::string& text) {
    try {
      return std::regex(text);
    } catch (const std::regex_error& error) {
      user_error("--filter \"{}\" is no regular expression: {}", text, error.what());
    }
  }

  /// Seconds of each call of run(), for so many seconds: of 3 to 1000 calls.
  template <class F>
  std::vector<double> times(const F& run, double limit_s) const {
    constexpr std::size_t kFewest = 3, kMost = 1000;
    std::vector<double> seconds;
    const Kokkos::Timer whole;
    while (seconds.size() < kFewest || (whole.seconds() < limit_s && seconds.size() < kMost)) {
      context_.space.fence();
      const Kokkos::Timer timer;
      run();
      context_.space.fence();
      seconds.push_back(timer.seconds());
    }
    return seconds;
  }

  static double median(std::vector<double> values) {
    std::ranges::sort(values);
    return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
  }

  Options options_;
  std::regex filter_;
  const Context& context_;  // of the whole run
  Peaks peaks_;
  Triad triad_;
  double triad_gbs_;  // at the start
  std::size_t timed_ = 0, refused_ = 0;
};

}  // namespace petaflow::perf
