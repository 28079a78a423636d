// Moments of CF files: "hours since 1900-01-01 00:00:00" in one of CF's calendars, as ISO text.
// Source: CF conventions 1.11, section 4.4; day numbers after Richards, "Calendars", in the Explanatory Supplement to
// the Astronomical Almanac, 3rd edition, 2013, section 15.11.
#pragma once

#include <optional>
#include <string>

namespace petaflow::climate {

/// Counts of a time unit from a moment on.
class TimeUnits {
 public:
  /// @param units     "days since 1979-01-01", "hours since 1900-01-01 00:00:00.0", ...
  /// @param calendar  standard, gregorian, proleptic_gregorian, noleap, 365_day or 360_day, in upper or lower case;
  ///                  empty: standard
  /// @param where     begins messages ("file.nc: time")
  /// Throws a user error where units or calendar are unknown.
  TimeUnits(const std::string& units, const std::string& calendar, const std::string& where);

  /// "2017-02-28T00:00:00", to the nearest second.
  std::string text(double count) const;
  /// The count of such a moment; nullopt where the text is none of the calendar's.
  std::optional<double> count(const std::string& text) const;

 private:
  enum class Calendar { kStandard, kProlepticGregorian, kNoLeap, k360Day };

  struct Day {
    long long year;
    int month, day;
  };
  long long number(const Day& day) const;
  Day day(long long number) const;

  Calendar calendar_ = Calendar::kStandard;
  double unit_s_ = 1;  // length of the unit
  long long day_ = 0;  // of count 0
  double second_ = 0;  // in that day, of count 0
};

}  // namespace petaflow::climate
