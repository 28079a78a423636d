// Moments in CF's calendars: against the standard library's where it has the calendar, and days that are known.
#include <chrono>

#include <gtest/gtest.h>

#include "climate/calendar.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace {

using test::error_of;

std::string text(const std::string& units, const std::string& calendar, double count) {
  return TimeUnits(units, calendar, "a.nc: time").text(count);
}

TEST(ClimateCalendar, GregorianDaysAreThoseOfTheStandardLibrary) {
  using namespace std::chrono;
  for (const int reference : {1583, 1900, 1979, 2404}) {
    const sys_days first = year(reference) / March / 1;
    const std::string since = fmt::format("days since {}-03-01", reference);
    const TimeUnits units(since, "proleptic_gregorian", "a.nc: time"), mixed(since, "standard", "a.nc: time");
    for (int days = -500000; days < 800000; days += 397) {
      const year_month_day at(first + std::chrono::days(days));
      const std::string expected = fmt::format("{:04}-{:02}-{:02}T00:00:00", static_cast<int>(at.year()),
                                               static_cast<unsigned>(at.month()), static_cast<unsigned>(at.day()));
      ASSERT_EQ(units.text(days), expected) << days;
      if (at.year() > year(1582)) {
        ASSERT_EQ(mixed.text(days), expected) << days;
      }
    }
  }
}

TEST(ClimateCalendar, KnowsTheGapOf1582) {
  EXPECT_EQ(text("days since 1582-10-04", "standard", 1), "1582-10-15T00:00:00");
  EXPECT_EQ(text("days since 1582-10-04", "gregorian", -4), "1582-09-30T00:00:00");
  EXPECT_EQ(text("days since 1582-10-04", "proleptic_gregorian", 1), "1582-10-05T00:00:00");
  EXPECT_EQ(text("days since 0001-01-01", "", 719164), "1970-01-01T00:00:00");  // two days more than Gregorian
  EXPECT_EQ(text("days since 0001-01-01", "proleptic_gregorian", 719162), "1970-01-01T00:00:00");
  EXPECT_EQ(text("days since 1500-02-28", "standard", 1), "1500-02-29T00:00:00");  // a leap year of Julius Caesar
  EXPECT_HOLDS(error_of([] { text("days since 1582-10-10", "standard", 0); }), "no such day in this calendar");
}

TEST(ClimateCalendar, ModelsHaveYearsOfTheirOwn) {
  EXPECT_EQ(text("days since 2000-01-01", "noleap", 59), "2000-03-01T00:00:00");
  EXPECT_EQ(text("Days since 2000-01-01", "NOLEAP", 59), "2000-03-01T00:00:00");
  EXPECT_EQ(text("days since 2000-01-01", "365_day", 365 * 7 - 1), "2006-12-31T00:00:00");
  EXPECT_EQ(text("days since 2000-01-01", "noleap", -1), "1999-12-31T00:00:00");
  EXPECT_EQ(text("days since 2000-01-01", "360_day", 59), "2000-02-30T00:00:00");
  EXPECT_EQ(text("days since 2000-02-30", "360_day", 1), "2000-03-01T00:00:00");
  EXPECT_HOLDS(error_of([] { text("days since 2000-02-29", "noleap", 0); }), "no such day");
}

TEST(ClimateCalendar, CountsWhatItSays) {
  for (const char* calendar : {"standard", "proleptic_gregorian", "noleap", "360_day"}) {
    const TimeUnits units("hours since 1582-01-01T06:00", calendar, "a.nc: time");
    for (double hours = -16000000; hours < 4000000; hours += 7001.5) {
      const std::string text = units.text(hours);
      ASSERT_EQ(units.count(text), hours) << calendar << " " << text;
    }
  }
  EXPECT_FALSE(TimeUnits("days since 1500-01-01", "standard", "a.nc: time").count("1582-10-10T00:00:00"));
  EXPECT_FALSE(TimeUnits("days since 1500-01-01", "noleap", "a.nc: time").count("2000-02-29T00:00:00"));
}

TEST(ClimateCalendar, UnitsMayBeShorterThanDays) {
  EXPECT_EQ(text("hours since 1900-01-01 00:00:00.0", "gregorian", 1075008), "2022-08-21T00:00:00");
  EXPECT_EQ(text("hours since 2020-02-28T22:30", "standard", 26.5), "2020-03-01T01:00:00");
  EXPECT_EQ(text("minutes since 2020-01-01 00:00:00 UTC", "standard", -0.5), "2019-12-31T23:59:30");
  EXPECT_EQ(text("seconds since 1970-01-01T00:00:00Z", "standard", 951782400), "2000-02-29T00:00:00");
}

TEST(ClimateCalendar, UnknownOnesAreRefused) {
  EXPECT_HOLDS(error_of([] { text("days since 2000-01-01", "lunar", 0); }),
               "a.nc: time has the calendar \"lunar\"; standard, gregorian");
  for (const char* time : {"25:00", "12:61", "12:00:60"}) {
    EXPECT_HOLDS(error_of([&] { text(fmt::format("days since 2000-01-01 {}", time), "standard", 0); }),
                 "no such time of day");
  }
  for (const char* units : {"months since 2000-01-01", "days", "days since yesterday", "days since 2000-13-01", ""}) {
    EXPECT_HOLDS(error_of([&] { text(units, "standard", 0); }), fmt::format("a.nc: time has the units \"{}\"", units));
  }
}

}  // namespace
}  // namespace petaflow::climate
