// Statistics of frames against plain sums in two passes, their file, and the scaling that follows from them.
#include <cmath>

#include <gtest/gtest.h>

#include "climate/frame_file.hpp"
#include "climate/scaling.hpp"
#include "climate_frames.hpp"
#include "io/hdf5.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace {

using test::error_of;
using test::made_frame;

constexpr std::int64_t kHeight = 5, kWidth = 8, kPixels = kHeight * kWidth;
constexpr std::array<int, 3> kSome = {kPsl, kTmq, kPrect};

/// In two passes and in long double.
void expect_statistics(const Statistics& found, const std::vector<Frame>& frames) {
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    SCOPED_TRACE(kFields[f].name);
    std::vector<float> all;
    for (const Frame& frame : frames) {
      const auto first = frame.fields.begin() + static_cast<std::int64_t>(f) * kPixels;
      all.insert(all.end(), first, first + kPixels);
    }
    long double sum = 0, squares = 0;
    for (const float x : all) sum += x;
    const long double mean = sum / static_cast<long double>(all.size());
    for (const float x : all) squares += (x - mean) * (x - mean);
    const auto deviation = static_cast<double>(std::sqrt(squares / static_cast<long double>(all.size())));
    const FieldStatistics& one = found.fields[f];
    EXPECT_EQ(one.count, static_cast<double>(all.size()));
    EXPECT_EQ(one.min, std::ranges::min(all));
    EXPECT_EQ(one.max, std::ranges::max(all));
    EXPECT_NEAR(one.mean, static_cast<double>(mean), 1e-12 * std::abs(static_cast<double>(mean)) + 1e-15 * deviation);
    EXPECT_NEAR(one.deviation() / deviation, 1, 1e-10);
  }
}

TEST(ClimateStatistics, AreThoseOfAllFrames) {
  const test::ScratchFolder folder;
  std::vector<Frame> frames;
  std::vector<std::string> files;
  for (std::uint64_t i = 0; i < 7; ++i) {
    frames.push_back(made_frame(kHeight, kWidth, i));
    files.push_back(folder / fmt::format("{}.h5", i));
    write_frame(files.back(), frames.back());
  }
  Communicator alone;
  std::vector<std::string> seen(7);
  const Statistics all =
      compute_statistics(alone, files, {}, {}, [&](std::size_t f, const FrameFile& file) { seen.at(f) = file.path(); });
  EXPECT_EQ(all.frames, 7);
  EXPECT_EQ(seen, files);
  expect_statistics(all, frames);
  const Statistics some = compute_statistics(alone, files, {}, {kSome.begin(), kSome.end()});
  EXPECT_EQ(some[kPsl].mean, all[kPsl].mean);
  EXPECT_EQ(some[kTs].count, 0);

  frames[3].fields[kTs * kPixels] = 1e20F;
  write_frame(files[3], frames[3]);
  EXPECT_HOLDS(error_of([&] { compute_statistics(alone, files); }), "3.h5: 1 of 40 numbers of TS");
}

TEST(ClimateStatistics, TheirFileIsDeepCams) {
  const test::ScratchFolder folder;
  const std::string path = folder / "stats.h5";
  Statistics statistics;
  statistics.frames = 12;
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    const auto x = static_cast<double>(f) + 0.1;
    statistics.fields[f] = {1000, x, x * x + 1, -2 * x, 3 * x};
  }
  write_statistics(path, statistics);
  const Statistics read = read_statistics(path);
  EXPECT_EQ(read.frames, 12);
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    EXPECT_EQ(read.fields[f].mean, statistics.fields[f].mean);
    EXPECT_EQ(read.fields[f].mean_square, statistics.fields[f].mean_square);
    EXPECT_EQ(read.fields[f].min, statistics.fields[f].min);
    EXPECT_EQ(read.fields[f].max, statistics.fields[f].max);
    EXPECT_NEAR(read.fields[f].deviation(), 1, 1e-12);
  }
  const Hdf5File file = Hdf5File::open(path);
  EXPECT_EQ(file.read<std::int64_t>("climate/count"), std::vector<std::int64_t>{12});
  EXPECT_TRUE(file.dataset("climate/count").info().dims.empty());
  EXPECT_EQ(file.read<double>("climate/maxval")[2], 3 * 2.1);

  statistics.fields[kTs].max = -1000;
  write_statistics(path, statistics);
  EXPECT_HOLDS(error_of([&] { read_statistics(path); }), "TS has the minimum");
  statistics.fields[kTs].count = 0;
  EXPECT_HOLDS(error_of([&] { write_statistics(path, statistics); }), "there are no statistics of TS");
  write_hdf5_atomically(path, [](Hdf5File& made) {
    made.write<float>("climate/count", {}, std::vector<float>{5});
    made.write<float>("climate/mean", {4}, std::vector<float>(4));
  });
  EXPECT_HOLDS(error_of([&] { read_statistics(path); }), "climate/mean is (4)");
}

TEST(ClimateStatistics, ScalingFollowsFromThem) {
  Statistics statistics;
  statistics.fields[kPsl] = {10, 100, 10025, 80, 130};
  statistics.fields[kTmq] = {10, 3, 9, 3, 3};            // the same everywhere
  statistics.fields[kPrect] = {10, 100, 9999, 90, 120};  // its mean square is below its squared mean
  const auto scaled = [&](Normalise normalise) { return make_scaling(normalise, statistics, kSome, "stats.h5"); };
  EXPECT_EQ(scaled(Normalise::kNone).offsets, (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(scaled(Normalise::kNone).factors, (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(scaled(Normalise::kMinMax).offsets, (std::vector<double>{80, 3, 90}));
  EXPECT_EQ(scaled(Normalise::kMinMax).factors, (std::vector<double>{0.02, 0, 1 / 30.0}));
  EXPECT_EQ(scaled(Normalise::kZScore).offsets, (std::vector<double>{100, 3, 105}));
  EXPECT_EQ(scaled(Normalise::kZScore).factors, (std::vector<double>{0.2, 0, 2 / 30.0}));
  const auto warnings = deviation_warnings(statistics, kSome, "stats.h5");
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_HOLDS(warnings[1],
               "stats.h5: PRECT has no standard deviation: its mean square 9999 is not above its squared "
               "mean 10000; its minimum 90 and maximum 120 are used instead");
  EXPECT_HOLDS(error_of([&] { make_scaling(Normalise::kZScore, statistics, std::array<int, 1>{kTs}, "stats.h5"); }),
               "stats.h5: there are no statistics of TS");
}

/// Of the published file: numbers as formats of DeepCAM list them.
TEST(ClimateStatistics, OfDeepCamHaveAPressureWithoutDeviation) {
  const auto path = test::samples_folder() / "climate/deepcam_stats.h5";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no sample " << path;
  const Statistics statistics = read_statistics(path.string());
  EXPECT_EQ(statistics.frames, 121266);
  EXPECT_NEAR(statistics[kTmq].mean, 18.6589, 1e-4);
  EXPECT_NEAR(statistics[kZbot].max, 71.6775, 1e-4);
  EXPECT_NEAR(statistics[kTmq].deviation(), std::sqrt(600.484 - 18.6589 * 18.6589), 1e-3);
  EXPECT_LT(statistics[kPsl].variance(), 0);
  std::vector<int> all;
  for (int f = 0; f < kFieldCount; ++f) all.push_back(f);
  const auto warnings = deviation_warnings(statistics, all, path.string());
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_HOLDS(warnings[0], "deepcam_stats.h5: PSL has no standard deviation");
  const ChannelScaling scaling = make_scaling(Normalise::kZScore, statistics, all, path.string());
  const auto scaled = [&](double x) { return (x - scaling.offsets[kPsl]) * scaling.factors[kPsl]; };
  EXPECT_NEAR(scaled(statistics[kPsl].min), -1, 1e-12);
  EXPECT_NEAR(scaled(statistics[kPsl].max), 1, 1e-12);
}

}  // namespace
}  // namespace petaflow::climate
