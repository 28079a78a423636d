// Frames as samples: channels, scaling, targets, augmentation, what is kept in memory, and what is refused.
#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "climate/augmentation.hpp"
#include "climate/climate_data.hpp"
#include "climate/extreme_weather_file.hpp"
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

/// Samples as numbers and labels, with what the set counted.
struct Samples {
  std::vector<std::vector<float>> numbers;
  std::vector<std::vector<std::uint8_t>> labels;
  std::int64_t hits = 0, made = 0, damaged = 0;
};

Samples read_all(const ClimateData& data) {
  Samples all;
  const SampleStorage sample(data);
  for (std::int64_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(data.read(i, sample.bytes()), 1);
    const auto map = sample.bytes().target<std::uint8_t>(0);
    all.numbers.emplace_back(sample.input<float>().begin(), sample.input<float>().end());
    all.labels.emplace_back(map.begin(), map.end());
  }
  for (const auto& [name, count] : data.read_counts()) {
    (name == "cache_hits" ? all.hits : name == "cache_made" ? all.made : all.damaged) = count;
  }
  return all;
}

/// The numbers that the network sees are those of the copies from the first time on.
TEST_F(ClimateSet, CopiesAreWithinTheStepOfTheirType) {
  options_.clip = 2;
  const Samples exact = read_all(open());
  EXPECT_EQ(exact.hits + exact.made, 0);
  options_.cache = folder_ / "cache";
  for (const CacheType type : {CacheType::kF32, CacheType::kF16, CacheType::kI16}) {
    SCOPED_TRACE(static_cast<int>(type));
    options_.cache_type = type;
    const Samples first = read_all(open()), second = read_all(open());
    EXPECT_EQ(first.made, 3);
    EXPECT_EQ(second.hits, 3);
    EXPECT_EQ(first.hits + second.made + first.damaged + second.damaged, 0);
    EXPECT_EQ(first.numbers, second.numbers);
    EXPECT_EQ(first.labels, exact.labels);
    EXPECT_EQ(second.labels, exact.labels);
    float largest = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t at = 0; at < exact.numbers[i].size(); ++at) {
        const float x = exact.numbers[i][at], error = std::abs(first.numbers[i][at] - x);
        const float step = type == CacheType::kF16 ? std::abs(x) / 2048 + 0x1p-25F : 4 / 131070.0F * 1.05F;
        ASSERT_LE(error, type == CacheType::kF32 ? 0 : step) << x;
        largest = std::max(largest, error);
      }
    }
    EXPECT_EQ(largest > 0, type != CacheType::kF32);
  }
}

TEST_F(ClimateSet, CopiesOfOtherSourcesOrOptionsAreNotTaken) {
  options_.cache = folder_ / "cache";
  options_.cache_bytes = 0;
  const Samples first = read_all(open());
  const auto expect_made = [&](std::int64_t made) {
    const std::string cache = options_.cache;
    const Samples with = read_all(open());
    options_.cache.clear();
    EXPECT_EQ(with.numbers, read_all(open()).numbers);
    options_.cache = cache;
    EXPECT_EQ(with.made, made);
    EXPECT_EQ(with.hits, 3 - made);
  };
  expect_made(0);
  options_.clip = 1;
  expect_made(3);
  options_.normalise = Normalise::kMinMax;
  expect_made(3);
  options_.channels = {"TS", "PSL"};
  expect_made(3);
  options_.channels = {"PSL", "TS"};
  expect_made(3);
  options_.normalise = Normalise::kNone;
  expect_made(3);
  frames_[1].fields[kTs * kPixels] = 250;
  write_frame(files_[1], frames_[1]);  // its statistics are not used
  expect_made(1);
  expect_made(0);
  options_.cache_type = CacheType::kF16;
  EXPECT_HOLDS(error_of([&] { read_all(open()); }), "data.cache_type = \"f16\" holds numbers up to 65504, but");
}

TEST_F(ClimateSet, DamagedCopiesAreMadeAgain) {
  namespace fs = std::filesystem;
  const Samples exact = read_all(open());
  options_.cache = folder_ / "cache";
  const ClimateData data = open();
  read_all(data);
  std::vector<fs::path> copies(fs::directory_iterator(options_.cache), {});
  ASSERT_EQ(copies.size(), 3U);
  fs::resize_file(copies[0], fs::file_size(copies[0]) - 1);
  std::string bytes = test::read_bytes(copies[1].string());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  test::write_bytes(copies[1].string(), bytes);
  test::write_bytes(copies[2].string(), "");
  Samples again = read_all(open());
  EXPECT_EQ(again.damaged, 3);
  EXPECT_EQ(again.made, 3);
  EXPECT_EQ(again.numbers, exact.numbers);

  // What a killed run left half written goes when it is old; another one's work stays.
  const std::string left = options_.cache + "/0.sample.tmp.1.1", fresh = options_.cache + "/0.sample.tmp.2.2";
  test::write_bytes(left, "half");
  test::write_bytes(fresh, "half");
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(2));
  again = read_all(open());
  EXPECT_EQ(again.hits, 3);
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(fresh));

  const ClimateData without_folder = open();
  fs::remove_all(options_.cache);
  again = read_all(without_folder);
  EXPECT_EQ(again.numbers, exact.numbers);
  EXPECT_EQ(again.made, 0);
  test::write_bytes(options_.cache, "a file");
  EXPECT_HOLDS(error_of([&] { open(); }), "data.cache: ");
  EXPECT_HOLDS(error_of([&] { open(); }), "is not a folder");
}

/// Two sets, as two ranks of a host have them, on one folder at a time.
TEST_F(ClimateSet, ManyThreadsShareAFolder) {
  const Samples exact = read_all(open());
  options_.cache = folder_ / "cache";
  const ClimateData one = open(), two = open();
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] { wrong += read_all(t % 2 == 0 ? one : two).numbers == exact.numbers ? 0 : 1; });
    }
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(options_.cache), {}), 3);
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

/// A frame whose every number tells its variable and its pixel.
Frame numbered_frame() {
  Frame frame;
  frame.grid = cam5_grid(6, 8);
  for (int f = 0; f < kFieldCount; ++f) {
    for (int p = 0; p < 48; ++p) frame.fields.push_back(static_cast<float>(100 * f + p));
  }
  for (int p = 0; p < 48; ++p) frame.labels.push_back(static_cast<std::uint8_t>(p % 3));
  return frame;
}

TEST(FrameAugmentation, MovesMapAndVariablesTogetherAndTurnsNorthwardWinds) {
  const test::ScratchFolder folder;
  const std::string path = folder / "data-1979-01-01-00-0.h5";
  write_frame(path, numbered_frame());
  ClimateDataOptions options;
  options.height = 6, options.width = 8;
  options.channels = {"PS", "V850"};
  options.offsets = {10, 20};
  options.factors = {1, 0.5};
  options.clip = 0;
  const ClimateData data(options, scan_climate(options, {path}));
  const Augmentation augment = augmentation(AugmentOptions{}, data);
  const SampleStorage changed(data);
  std::set<std::pair<int, bool>> seen;  // turns, and whether it is mirrored
  for (std::uint64_t i = 0; i < 200; ++i) {
    data.read(0, changed.bytes());
    RandomSequence random(random_stream(5, RandomPurpose::kAugment), i);
    augment(changed.bytes(), random);
    const auto pixels = changed.input<float>();
    const auto map = changed.bytes().target<std::uint8_t>(0);
    const auto place = [&](std::size_t p) {  // where the pixel was
      return std::lround(static_cast<double>(pixels[2 * p]) + 10 - 100 * kPs);
    };
    const long first = place(0);
    const bool mirrored = first >= 40;
    seen.insert({static_cast<int>(first % 8), mirrored});
    for (std::size_t p = 0; p < 48; ++p) {
      const long from = place(p);
      ASSERT_EQ(from % 8, (first % 8 + static_cast<long>(p) % 8) % 8);
      ASSERT_EQ(from / 8, mirrored ? 5 - static_cast<long>(p) / 8 : static_cast<long>(p) / 8);
      ASSERT_EQ(map[p], from % 3);
      const double wind = static_cast<double>(pixels[2 * p + 1]) / 0.5 + 20;  // in the file's units
      ASSERT_NEAR(wind, (mirrored ? -1 : 1) * static_cast<double>(100 * kV850 + from), 1e-3);
    }
  }
  EXPECT_EQ(seen.size(), 16U);
  EXPECT_FALSE(augmentation(AugmentOptions{false, false}, data));
}

/// The pixels of a box stay in it, also of one that goes on at column 0.
TEST(FrameAugmentation, MovesBoxesWithTheirPixels) {
  const test::ScratchFolder folder;
  const std::string path = folder / "frames.h5";
  Frame frame = numbered_frame();
  frame.boxes = {{1, 6, 3, 9, 1}, {0, 2, 5, 4, 3}};
  write_extreme_weather(path, {&frame, 1});
  ClimateDataOptions options;
  options.height = 6, options.width = 8;
  options.channels = {"PS"};
  options.normalise = Normalise::kNone;
  options.map = false, options.boxes = true;
  const ClimateData data(options, scan_climate(options, {path}));
  const Augmentation augment = augmentation(AugmentOptions{}, data);
  const SampleStorage changed(data);
  for (std::uint64_t i = 0; i < 100; ++i) {
    data.read(0, changed.bytes());
    RandomSequence random(random_stream(5, RandomPurpose::kAugment), i);
    augment(changed.bytes(), random);
    const BoxTarget boxes(changed.bytes().targets[0], 5);
    ASSERT_EQ(boxes.size(), 2U);
    for (std::size_t b = 0; b < 2; ++b) {
      const std::span<const float> box = boxes[b];
      std::set<long> pixels, expected;  // of the frame as it was
      for (auto y = std::lround(box[0]); y < std::lround(box[2]); ++y) {
        for (auto x = std::lround(box[1]); x < std::lround(box[3]); ++x) {
          pixels.insert(std::lround(changed.input<float>()[static_cast<std::size_t>(8 * y + (x + 8) % 8)]) - 100 * kPs);
        }
      }
      const Box& was = frame.boxes[b];
      for (auto y = std::lround(was.ymin); y < std::lround(was.ymax); ++y) {
        for (auto x = std::lround(was.xmin); x < std::lround(was.xmax); ++x) expected.insert(8 * y + x % 8);
      }
      ASSERT_EQ(pixels, expected) << "draw " << i;
      ASSERT_TRUE(0 <= box[1] + box[3] && box[1] + box[3] < 2 * 8) << "draw " << i;
      ASSERT_EQ(box[4], was.kind);
    }
  }
}

}  // namespace
}  // namespace petaflow::climate
