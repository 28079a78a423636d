// Frames as samples: channels, scaling, targets, what is kept in memory, and what is refused.
#include <cmath>

#include <gtest/gtest.h>

#include "climate/climate_data.hpp"
#include "climate_frames.hpp"
#include "data/bytes.hpp"
#include "io/hdf5.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace {

using test::error_of;
using test::made_frame;

constexpr std::int64_t kHeight = 5, kWidth = 8, kPixels = kHeight * kWidth;

class ClimateSet : public ::testing::Test {
 protected:
  ClimateSet() {
    for (std::uint64_t i = 0; i < 3; ++i) {
      frames_.push_back(made_frame(kHeight, kWidth, i));
      files_.push_back(folder_ / fmt::format("data-1996-06-0{}-02-1.h5", i + 1));
      write_frame(files_.back(), frames_.back());
    }
    options_.height = kHeight;
    options_.width = kWidth;
    options_.cache_bytes = 0;
  }
  ClimateData open() const {
    ClimateIndex index = scan_climate(options_, files_);
    return {options_, from_bytes<ClimateIndex>(to_bytes(index))};  // as it reaches other ranks
  }
  std::string refusal() const {
    return error_of([&] {
      const ClimateData data = open();
      check_samples(data, {0, data.size()});
    });
  }
  float number(std::size_t frame, int field, std::size_t pixel) const {
    return frames_[frame].fields[static_cast<std::size_t>(field * kPixels) + pixel];
  }

  const test::ScratchFolder folder_;
  std::vector<Frame> frames_;
  std::vector<std::string> files_;
  ClimateDataOptions options_;
};

TEST_F(ClimateSet, ChannelsAreThoseNamedInTheirOrderAndScaled) {
  options_.channels = {"PSL", "TMQ", "PRECT"};
  const std::array<int, 3> fields = {kPsl, kTmq, kPrect};
  for (const Normalise normalise : {Normalise::kNone, Normalise::kMinMax, Normalise::kZScore}) {
    options_.normalise = normalise;
    options_.clip = 1.5;
    const ClimateData data = open();
    EXPECT_EQ(data.size(), 3);
    EXPECT_EQ(data.sample_dims(), (std::array<std::int64_t, 4>{3, 1, kHeight, kWidth}));
    EXPECT_EQ(data.format(), "deepcam");
    EXPECT_EQ(data.files(), files_);
    Communicator alone;
    const Statistics statistics = compute_statistics(alone, files_);
    const SampleStorage sample(data);
    std::int64_t clipped = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(data.read(i, sample.bytes()), 1);
      for (std::size_t at = 0; at < 3 * kPixels; ++at) {
        const int field = fields[at % 3];
        const double x = number(static_cast<std::size_t>(i), field, at / 3);
        const FieldStatistics& one = statistics[field];
        double expected = x;
        if (normalise == Normalise::kMinMax) expected = (x - one.min) / (one.max - one.min);
        if (normalise == Normalise::kZScore) expected = (x - one.mean) / one.deviation();
        clipped += std::abs(expected) > 1.5 ? 1 : 0;
        if (normalise != Normalise::kNone) expected = std::clamp(expected, -1.5, 1.5);
        ASSERT_NEAR(sample.input<float>()[at], expected, 1e-4 * std::max(1.0, std::abs(expected)));
      }
      const auto map = sample.bytes().target<std::uint8_t>(0);
      EXPECT_EQ(std::vector(map.begin(), map.end()), frames_[static_cast<std::size_t>(i)].labels);
    }
    EXPECT_GT(clipped, normalise == Normalise::kMinMax ? -1 : 0);
  }
}

TEST_F(ClimateSet, ScalingComesFromAFileOrFromAnotherSet) {
  Statistics statistics;
  statistics.frames = 1;
  statistics.fields.fill({1, 10, 104, 0, 20});
  statistics.fields[kPsl].mean_square = 99;
  options_.stats = folder_ / "stats.h5";
  write_statistics(options_.stats, statistics);
  ClimateData data = open();
  EXPECT_EQ(data.scaling().offsets, std::vector<double>(16, 10));
  EXPECT_EQ(data.scaling().factors[kTmq], 0.5);
  EXPECT_EQ(data.scaling().factors[kPsl], 0.1);
  ASSERT_EQ(data.notes().size(), 1U);
  EXPECT_HOLDS(data.notes().front(), "stats.h5: PSL has no standard deviation");
  options_.stats.clear();
  options_.offsets.assign(16, 2);
  options_.factors.assign(16, 3);
  EXPECT_EQ(open().scaling().factors, std::vector<double>(16, 3));
  options_.channels = {"TMQ"};
  EXPECT_HOLDS(refusal(), "16 numbers for 1 channels");
}

/// A set that is kept gives the same when its files are gone.
TEST_F(ClimateSet, WhatFitsIsReadOnce) {
  const auto samples = [&](const ClimateData& data) {
    std::vector<std::vector<std::byte>> bytes;
    const SampleStorage sample(data);
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(data.read(i, sample.bytes()), 1);
      bytes.emplace_back(sample.bytes().input.begin(), sample.bytes().input.end());
      bytes.emplace_back(sample.bytes().targets[0].begin(), sample.bytes().targets[0].end());
    }
    return bytes;
  };
  const ClimateData read_again = open();
  options_.cache_bytes = 3 * kPixels * (16 * 4 + 1);
  const ClimateData kept = open();
  options_.cache_bytes -= 1;
  const ClimateData too_large = open();
  const auto expected = samples(read_again);
  EXPECT_EQ(samples(kept), expected);
  EXPECT_EQ(samples(too_large), expected);
  for (const std::string& file : files_) std::filesystem::remove(file);
  EXPECT_EQ(samples(kept), expected);
  EXPECT_HOLDS(error_of([&] { samples(too_large); }), "does not exist");
}

TEST_F(ClimateSet, DaysChooseFrames) {
  options_.from = "1996-06-02";
  EXPECT_EQ(open().size(), 2);
}

TEST_F(ClimateSet, TargetsMayBeMissingWhereTheyAreNotNeeded) {
  frames_[1].labels.clear();
  write_frame(files_[1], frames_[1]);
  EXPECT_HOLDS(refusal(), "06-02-02-1.h5 (deepcam) has no labels");
  options_.targets_optional = true;
  const ClimateData data = open();
  const SampleStorage sample(data);
  EXPECT_EQ(data.read(0, sample.bytes()), 1);
  EXPECT_EQ(data.read(1, sample.bytes()), 0);
  for (const std::uint8_t tag : sample.bytes().target<std::uint8_t>(0)) EXPECT_EQ(tag, 0);
}

TEST_F(ClimateSet, WhatDoesNotFitIsRefused) {
  options_.channels = {"TMQ", "TMQ"};
  EXPECT_HOLDS(refusal(), "data.channels names TMQ twice");
  options_.channels = {"TMQS"};
  EXPECT_HOLDS(refusal(), "did you mean TMQ?");
  options_.channels = {"TS", "PSL"};
  options_.height = 6;
  EXPECT_HOLDS(
      refusal(),
      "06-01-02-1.h5: frames are of 5 x 8 pixels, but data.height = 6 and data.width = 8; set these to 5 and 8");
  options_.height = kHeight;
  options_.normalise = Normalise::kNone;  // so that the files are read as samples alone
  write_frame(files_[2], made_frame(kHeight, kWidth + 1, 5));
  EXPECT_HOLDS(refusal(), "06-03-02-1.h5: frames are of 5 x 9 pixels");
  Frame gaps = frames_[2];
  gaps.fields[kTs * kPixels + 3] = std::nanf("");
  write_frame(files_[2], gaps);
  EXPECT_HOLDS(refusal(),
               "06-03-02-1.h5: 1 of 40 numbers of TS are no values (NaN, infinite or a fill value): the "
               "first is nan at row 0, column 3; fill the gaps, or leave TS out of data.channels");
  write_hdf5_atomically(files_[2], [&](Hdf5File& file) {
    file.write<float>("climate/data", {1, kHeight, kWidth}, std::vector<float>(kPixels, 1));
    file.write<std::int32_t>("climate/channels", {1}, std::vector<std::int32_t>{kTs}, {Hdf5Type::kI32});
    file.write<float>("climate/labels_0", {kHeight, kWidth}, std::vector<float>(kPixels, 7));
  });
  EXPECT_HOLDS(refusal(), "06-03-02-1.h5 has the layout sc18, but " + files_[0] + " has deepcam");
  files_.erase(files_.begin(), files_.begin() + 2);
  EXPECT_HOLDS(refusal(), "06-03-02-1.h5 has no variable PSL; it has TS (data.channels names");
  options_.channels = {"TS"};
  EXPECT_HOLDS(refusal(), "climate/labels_0 is 7 at row 0, column 0");
}

}  // namespace
}  // namespace petaflow::climate
