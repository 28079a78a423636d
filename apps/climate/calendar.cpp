#include "climate/calendar.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <regex>
#include <utility>

#include "base/error.hpp"

namespace petaflow::climate {
namespace {

constexpr long long kFirstGregorian = 2299161;  // day number of 1582-10-15, which followed 1582-10-04

constexpr std::array kMonthStarts = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};  // without leap days

/// a / b and a mod b, rounded downwards.
constexpr long long floor_div(long long a, long long b) { return a / b - (a % b < 0 ? 1 : 0); }
constexpr long long floor_mod(long long a, long long b) { return a - b * floor_div(a, b); }

/// Day number (Julian day at noon) of a day of the Gregorian or the Julian calendar.
long long day_number(bool gregorian, long long year, int month, int day) {
  const long long before_march = month < 3 ? 1 : 0, y = year + 4800 - before_march, m = month + 12 * before_march - 3;
  const long long days = day + (153 * m + 2) / 5 + 365 * y + floor_div(y, 4);
  return gregorian ? days - floor_div(y, 100) + floor_div(y, 400) - 32045 : days - 32083;
}

/// In lower case: models write NOLEAP and Days, too.
std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The length of a unit in seconds; 0: unknown.  Months and years have none.
double unit_seconds(const std::string& name) {
  const auto is = [&](const char* names) { return std::regex_match(lower(name), std::regex(names)); };
  if (is("d|days?")) return 86400;
  if (is("h|hrs?|hours?")) return 3600;
  if (is("min|mins|minutes?")) return 60;
  if (is("s|secs?|seconds?")) return 1;
  return 0;
}

}  // namespace

TimeUnits::TimeUnits(const std::string& units, const std::string& calendar, const std::string& where) {
  const std::string name = lower(calendar);
  if (name.empty() || name == "standard" || name == "gregorian") {
    calendar_ = Calendar::kStandard;
  } else if (name == "proleptic_gregorian") {
    calendar_ = Calendar::kProlepticGregorian;
  } else if (name == "noleap" || name == "365_day") {
    calendar_ = Calendar::kNoLeap;
  } else if (name == "360_day") {
    calendar_ = Calendar::k360Day;
  } else {
    user_error(
        "{} has the calendar \"{}\"; standard, gregorian, proleptic_gregorian, noleap, 365_day or 360_day was expected "
        "(cdo setcalendar,standard OLD NEW writes one of them)",
        where, calendar);
  }
  static const std::regex form(R"(\s*([a-zA-Z]+)\s+since\s+(-?[0-9]{1,6})-([0-9]{1,2})-([0-9]{1,2}))"
                               R"((?:[T ]\s*([0-9]{1,2}):([0-9]{1,2})(?::([0-9.]+))?)?\s*(?:Z|UTC|\+?0?0:?00)?\s*)");
  std::smatch found;
  const bool matches = std::regex_match(units, found, form);
  unit_s_ = matches ? unit_seconds(found[1]) : 0;
  if (unit_s_ == 0) {
    user_error("{} has the units \"{}\"; days, hours, minutes or seconds since a date were expected", where, units);
  }
  const auto value = [&](std::size_t i) { return found[i].matched ? std::stod(found[i]) : 0.0; };
  const Day first{std::stoll(found[2]), std::stoi(found[3]), std::stoi(found[4])};
  day_ = number(first);
  if (value(5) >= 24 || value(6) >= 60 || value(7) >= 60)
    user_error("{} has the units \"{}\": no such time of day", where, units);
  second_ = 3600 * value(5) + 60 * value(6) + value(7);
  const Day back = day(day_);
  if (std::pair(back.month, back.day) != std::pair(first.month, first.day)) {
    user_error("{} has the units \"{}\": no such day in this calendar", where, units);
  }
}

std::string TimeUnits::text(double count) const {
  const double seconds = std::round(second_ + count * unit_s_);
  if (!(std::abs(seconds) < 1e14)) return "";
  const auto whole = static_cast<long long>(seconds);
  const Day at = day(day_ + floor_div(whole, 86400));
  const long long s = floor_mod(whole, 86400);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", at.year, at.month, at.day, s / 3600, s / 60 % 60, s % 60);
}

std::optional<double> TimeUnits::count(const std::string& text) const {
  static const std::regex form("(-?[0-9]{3,6})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})");
  std::smatch found;
  if (!std::regex_match(text, found, form)) return std::nullopt;
  const Day at{std::stoll(found[1]), std::stoi(found[2]), std::stoi(found[3])};
  const int hour = std::stoi(found[4]), minute = std::stoi(found[5]), second = std::stoi(found[6]);
  const long long of_day = number(at);
  const Day back = day(of_day);
  if (std::pair(back.month, back.day) != std::pair(at.month, at.day) || hour > 23 || minute > 59 || second > 59)
    return std::nullopt;
  const long long seconds = 3600LL * hour + 60LL * minute + second;
  return (86400.0 * static_cast<double>(of_day - day_) + static_cast<double>(seconds) - second_) / unit_s_;
}

long long TimeUnits::number(const Day& day) const {
  switch (calendar_) {
    case Calendar::kStandard: {
      const long long gregorian = day_number(true, day.year, day.month, day.day);
      return gregorian >= kFirstGregorian ? gregorian : day_number(false, day.year, day.month, day.day);
    }
    case Calendar::kProlepticGregorian:
      return day_number(true, day.year, day.month, day.day);
    case Calendar::kNoLeap:
      return 365 * day.year + kMonthStarts.at(static_cast<std::size_t>(floor_mod(day.month - 1, 12))) + day.day - 1;
    case Calendar::k360Day:
      return 360 * day.year + 30 * (day.month - 1) + day.day - 1;
  }
  return 0;
}

TimeUnits::Day TimeUnits::day(long long number) const {
  if (calendar_ == Calendar::k360Day) {
    const long long in_year = floor_mod(number, 360);
    return {floor_div(number, 360), static_cast<int>(in_year / 30) + 1, static_cast<int>(in_year % 30) + 1};
  }
  if (calendar_ == Calendar::kNoLeap) {
    const auto in_year = static_cast<int>(floor_mod(number, 365));
    int month = 1;
    while (in_year >= kMonthStarts.at(static_cast<std::size_t>(month))) ++month;
    return {floor_div(number, 365), month, in_year - kMonthStarts.at(static_cast<std::size_t>(month - 1)) + 1};
  }
  const bool gregorian = calendar_ == Calendar::kProlepticGregorian || number >= kFirstGregorian;
  long long f = number + 1401;  // days since a 1 March of the Julian calendar
  if (gregorian) f += floor_div(floor_div(4 * number + 274277, 146097) * 3, 4) - 38;
  const long long e = 4 * f + 3, g = floor_mod(e, 1461) / 4, h = 5 * g + 2;
  const auto month = static_cast<int>((h / 153 + 2) % 12) + 1;
  return {floor_div(e, 1461) - 4716 + (14 - month) / 12, month, static_cast<int>(h % 153 / 5) + 1};
}

}  // namespace petaflow::climate
