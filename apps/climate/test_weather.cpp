// Synthetic weather: statistics against those of the DeepCAM set, balance, labels, motion, and independence of the
// grid.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "climate/boxes.hpp"
#include "climate/physics.hpp"
#include "climate/plane.hpp"
#include "climate/weather.hpp"

namespace petaflow::climate {
namespace {

constexpr std::uint64_t kSeed = 42;

/// Of stats.h5 of the DeepCAM set (MLPerf HPC): the extremes, the mean, and the deviation from mean and mean square,
/// where single precision leaves one (of pressures and heights: that of ClimateNet or of nature).
struct Published {
  double low, high, mean, deviation;
};
constexpr std::array<Published, 16> kPublished = {{
    {0.026, 109, 18.66, 15.9},
    {-88.3, 85.9, 1.57, 8.3},
    {-84.6, 89.4, 0.21, 6.2},
    {-78.6, 76.8, 0.12, 6.6},
    {-77.7, 80.5, 0.21, 5.7},
    {7e-12, 0.146, 0.00757, 0.0063},
    {48331, 107250, 96593, 9000},
    {87595, 112039, 100782, 1461},
    {183.6, 248.3, 213.0, 13.5},
    {208.4, 286.0, 252.3, 18.5},
    {-8e-19, 3.73e-5, 3.0e-8, 1.57e-7},
    {109.6, 352.6, 278.5, 19.0},
    {94.2, 331.8, 278.1, 19.3},
    {-0.38, 5726, 475, 830},
    {9952, 12905, 11699, 868},
    {20.4, 71.7, 61.1, 5.2},
}};

const std::vector<Frame>& frames() {
  static const std::vector<Frame> all = [] {
    std::vector<Frame> made;
    for (std::int64_t i = 0; i < 40; ++i) made.push_back(weather_frame({}, cam5_grid(96, 144), kSeed, 2 * i));
    return made;
  }();
  return all;
}

TEST(Weather, HasTheStatisticsOfTheDeepCamSet) {
  for (int c = 0; c < 16; ++c) {
    double sum = 0, square = 0, low = INFINITY, high = -INFINITY, n = 0;
    for (const Frame& frame : frames()) {
      for (const float value : plane(frame, static_cast<FieldIndex>(c))) {
        const auto x = static_cast<double>(value);
        ASSERT_TRUE(std::isfinite(x));
        sum += x, square += x * x, n += 1;
        low = std::min(low, x), high = std::max(high, x);
      }
    }
    const Published& published = kPublished[static_cast<std::size_t>(c)];
    const double mean = sum / n, deviation = std::sqrt(square / n - mean * mean);
    const std::string_view name = kFields[static_cast<std::size_t>(c)].name;
    fmt::print("{:7} {:11.4g} to {:11.4g} mean {:11.5g} deviation {:11.4g}; published {:g} to {:g}, {:g}, {:g}\n", name,
               low, high, mean, deviation, published.low, published.high, published.mean, published.deviation);
    EXPECT_GE(low, published.low - 0.02 * (published.high - published.low)) << name;
    EXPECT_LE(high, published.high) << name;
    EXPECT_NEAR(mean, published.mean, 0.4 * published.deviation) << name;
    EXPECT_GT(deviation, 0.5 * published.deviation) << name;
    EXPECT_LT(deviation, 1.6 * published.deviation) << name;
  }
}

TEST(Weather, ClassesAreAsRareAsInTheDataSet) {
  std::int64_t counts[3] = {}, without[3] = {};
  for (const Frame& frame : frames()) {
    std::int64_t of_frame[3] = {};
    for (const std::uint8_t label : frame.labels) ++of_frame[label];
    for (int c = 0; c < 3; ++c) counts[c] += of_frame[c], without[c] += of_frame[c] == 0;
  }
  const double n = static_cast<double>(counts[0] + counts[1] + counts[2]);
  fmt::print("cyclones {:.3f} %, rivers {:.3f} %\n", 100 * static_cast<double>(counts[1]) / n,
             100 * static_cast<double>(counts[2]) / n);
  EXPECT_GT(static_cast<double>(counts[1]) / n, 0.001);
  EXPECT_LT(static_cast<double>(counts[1]) / n, 0.005);
  EXPECT_GT(static_cast<double>(counts[2]) / n, 0.012);
  EXPECT_LT(static_cast<double>(counts[2]) / n, 0.022);
  EXPECT_LE(without[1], 1);
  EXPECT_LE(without[2], 1);
}

TEST(Weather, CyclonesAreLowsWithGalesAndWarmCores) {
  const Frame frame = weather_frame({}, cam5_grid(192, 288), kSeed, 3);
  const auto pressure = plane(frame, kPsl), t500 = plane(frame, kT500);
  int cyclones = 0;
  for (const Box& box : frame.boxes) {
    if (box.kind != kCycloneBox) continue;
    ++cyclones;
    std::int64_t lowest = -1;
    double wind = 0, within = 0, around = 0, n_within = 0, n_around = 0;
    const auto margin = 6;
    for (auto y = static_cast<std::int64_t>(box.ymin) - margin; y < static_cast<std::int64_t>(box.ymax) + margin; ++y) {
      for (auto x = static_cast<std::int64_t>(box.xmin) - margin; x < static_cast<std::int64_t>(box.xmax) + margin;
           ++x) {
        const auto at = static_cast<std::size_t>(y * 288 + (x % 288 + 288) % 288);
        if (lowest < 0 || pressure[at] < pressure[static_cast<std::size_t>(lowest)])
          lowest = static_cast<std::int64_t>(at);
        wind = std::max(wind, std::hypot(static_cast<double>(plane(frame, kUbot)[at]),
                                         static_cast<double>(plane(frame, kVbot)[at])));
        const bool is_core = frame.labels[at] == 1;
        (is_core ? within : around) += static_cast<double>(t500[at]);
        (is_core ? n_within : n_around) += 1;
      }
    }
    EXPECT_NEAR(static_cast<double>(lowest / 288), (box.ymin + box.ymax - 1) / 2, 1.6);
    const double off = static_cast<double>(lowest % 288) - (box.xmin + box.xmax - 1) / 2;
    EXPECT_LT(std::abs(std::remainder(off, 288.0)), 1.6);
    EXPECT_GT(wind, 17);
    EXPECT_GT(within / n_within, around / n_around + 0.4);
  }
  EXPECT_GE(cyclones, 2);
}

TEST(Weather, WindIsGeostrophicAwayFromTheEquator) {
  const Frame frame = weather_frame({}, cam5_grid(288, 432), kSeed, 5);
  const auto psl = plane(frame, kPsl), t500 = plane(frame, kT500);
  for (const bool is_zonal : {true, false}) {
    const auto wind = plane(frame, is_zonal ? kU850 : kV850);
    double xx = 0, yy = 0, xy = 0, x1 = 0, y1 = 0, n = 0;
    for (std::size_t y = 1; y < 287; ++y) {
      const double latitude = frame.grid.latitude[y];
      if (std::abs(latitude) < 32 || std::abs(latitude) > 62) continue;
      for (std::size_t x = 1; x < 431; ++x) {
        const std::size_t at = y * 432 + x;
        const double dx = 2 * kMetresPerDegree * 360 / 432 * std::cos(latitude * kRadians);
        const double dy = 2 * kMetresPerDegree * 180 / 287;
        const auto slope = [&](std::span<const float> f) {
          return is_zonal ? -static_cast<double>(f[at + 432] - f[at - 432]) / dy
                          : static_cast<double>(f[at + 1] - f[at - 1]) / dx;
        };
        const double expected = (slope(psl) / 1.15 + 287 * std::log(1 / 0.85) * slope(t500)) / coriolis(latitude);
        const auto found = static_cast<double>(wind[at]);
        xx += expected * expected, yy += found * found, xy += expected * found, x1 += expected, y1 += found, n += 1;
      }
    }
    const double covariance = xy / n - x1 * y1 / n / n, a = xx / n - x1 * x1 / n / n, b = yy / n - y1 * y1 / n / n;
    fmt::print("{}: correlation with the geostrophic wind {:.3f}, slope {:.2f}\n", is_zonal ? "U850" : "V850",
               covariance / std::sqrt(a * b), covariance / a);
    EXPECT_GT(covariance / std::sqrt(a * b), 0.85);
    // Around lows the gradient wind is weaker, and at the ends of plumes the wind has no balance.
    EXPECT_NEAR(covariance / a, is_zonal ? 0.89 : 0.74, 0.05);
  }
}

TEST(Weather, ThicknessIsHydrostatic) {
  const Frame& frame = frames()[0];
  for (std::size_t at = 0; at < static_cast<std::size_t>(frame.pixels()); at += 7) {
    const double sea = 29.27 * static_cast<double>(plane(frame, kTrefht)[at]) *
                       std::log(static_cast<double>(plane(frame, kPsl)[at]) / 100000);
    const auto z1000 = static_cast<double>(plane(frame, kZ1000)[at]);
    const auto t = static_cast<double>(plane(frame, kTrefht)[at]), t5 = static_cast<double>(plane(frame, kT500)[at]),
               t2 = static_cast<double>(plane(frame, kT200)[at]);
    if (plane(frame, kPs)[at] < plane(frame, kPsl)[at]) {  // land
      EXPECT_GT(z1000, 60);
      continue;
    }
    EXPECT_NEAR(z1000, std::max(sea, 0.0), 0.5);
    const double thickness = 287.05 / 9.80665 * (std::log(2) * (t + t5) / 2 + std::log(2.5) * (t5 + t2) / 2);
    EXPECT_NEAR(static_cast<double>(plane(frame, kZ200)[at]) - sea, thickness, 10);
  }
}

TEST(Weather, IsTheSameOnEveryThread) {
  const Grid grid = cam5_grid(48, 72);
  const Frame first = weather_frame({}, grid, kSeed, 9);
  std::array<Frame, 4> others;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back(
        [&, i] { others[i] = weather_frame({}, grid, kSeed + i / 2, 9 + static_cast<std::int64_t>(i % 2)); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(others[0].fields, first.fields);
  EXPECT_EQ(others[0].labels, first.labels);
  EXPECT_EQ(others[0].boxes, first.boxes);
  EXPECT_EQ(others[0].time, first.time);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NE(others[i].fields, first.fields);
}

TEST(Weather, StormsMoveAndChangeWithinASeries) {
  const Grid grid = cam5_grid(360, 540);
  const WeatherOptions options{.series_steps = 8};
  const auto centres = [&](std::int64_t index) {
    std::vector<std::pair<float, float>> middles;
    for (const Box& box : weather_frame(options, grid, kSeed, index).boxes) {
      if (box.kind == kCycloneBox) middles.emplace_back((box.ymin + box.ymax) / 2, (box.xmin + box.xmax) / 2);
    }
    return middles;
  };
  const auto begin = centres(8), next = centres(9), end = centres(15), other = centres(16);
  ASSERT_EQ(begin.size(), end.size());
  ASSERT_EQ(begin.size(), next.size());
  for (std::size_t i = 0; i < begin.size(); ++i) {
    const auto moved = [&](const auto& later) {
      return std::hypot(later[i].first - begin[i].first, std::remainder(later[i].second - begin[i].second, 540.0F));
    };
    EXPECT_LE(moved(next), 3);  // pixels of 0.5 x 0.67 degrees; 3 h at 6 m/s are 0.6 degrees
    EXPECT_GT(moved(end), 0.5);
    EXPECT_LT(moved(end), 12);
  }
  EXPECT_NE(begin, other);
  EXPECT_EQ(weather_time(options, 9), "1979-01-06T06:00:00");
  EXPECT_EQ(weather_time({.series_steps = 80}, 80), "1979-01-11T03:00:00");  // ten days and three hours
}

TEST(Weather, AFinerGridShowsTheSameWeather) {
  const Frame coarse = weather_frame({}, cam5_grid(49, 72), kSeed, 4),
              fine = weather_frame({}, cam5_grid(97, 144), kSeed, 4);
  std::int64_t equal = 0;
  for (std::size_t y = 0; y < 49; ++y) {
    for (std::size_t x = 0; x < 72; ++x) {
      const std::size_t a = y * 72 + x, b = 2 * y * 144 + 2 * x;
      for (const FieldIndex field : {kTmq, kPsl, kT200, kT500, kTrefht, kQrefht, kZ200}) {
        const float value = plane(fine, field)[b];
        EXPECT_NEAR(plane(coarse, field)[a], value, 1e-4F * std::abs(value) + 1e-3F) << kFields[field].name;
      }
      equal += coarse.labels[a] == fine.labels[b];
    }
  }
  EXPECT_GE(equal, 49 * 72 - 3);  // pixels on an edge may round to either side
}

TEST(Weather, TimesFollowEachOtherAndPolesAreEven) {
  std::set<std::string> times;
  for (const Frame& frame : frames()) {
    times.insert(frame.time);
    for (const FieldIndex field : {kPsl, kT500, kTmq}) {
      const auto row = plane(frame, field).first(144);
      const auto [low, high] = std::ranges::minmax(row);
      EXPECT_LT(high - low, 0.02F * std::abs(high) + 0.1F);
    }
  }
  EXPECT_EQ(times.size(), frames().size());
  EXPECT_EQ(frames()[0].time, "1979-01-01T00:00:00");
  EXPECT_EQ(frames()[1].time, "1979-01-11T06:00:00");
  EXPECT_THROW(weather_frame({.series_steps = 0}, cam5_grid(9, 16), 1, 0), Error);
}

}  // namespace
}  // namespace petaflow::climate
