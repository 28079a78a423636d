// Files of frames: what is written is what is read, in every layout, and what does not fit is refused.
#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "climate/frame_check.hpp"
#include "climate/frame_file.hpp"
#include "climate/frame_time.hpp"
#include "climate_frames.hpp"
#include "io/hdf5.hpp"
#include "npy_file.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace {

using test::error_of;
using test::made_frame;

class ClimateFiles : public ::testing::Test {
 protected:
  static constexpr std::int64_t kHeight = 6, kWidth = 10, kPixels = kHeight * kWidth;

  std::string path(const std::string& name = "data-1996-06-05-02-1.h5") const { return folder_ / name; }
  void write(const std::function<void(Hdf5File&)>& fill) const { write_hdf5_atomically(path(), fill); }

  const test::ScratchFolder folder_;
  const Frame frame_ = made_frame(kHeight, kWidth, 1);
};

TEST_F(ClimateFiles, DeepCamIsReadAsItWasWritten) {
  write_frame(path(), frame_);
  const auto file = open_frames(path());
  EXPECT_EQ(file->format(), "deepcam");
  const Frame read = read_frame(*file);
  EXPECT_EQ(read.grid, frame_.grid);
  EXPECT_EQ(read.fields, frame_.fields);
  EXPECT_EQ(read.labels, frame_.labels);
  EXPECT_EQ(read.time, frame_.time);
  EXPECT_EQ(folder_.files(), 1U);
}

/// The layout itself, data set by data set.
TEST_F(ClimateFiles, DeepCamIsThatOfThePublishedFiles) {
  write_frame(path(), frame_);
  const Hdf5File file = Hdf5File::open(path());
  EXPECT_EQ(file.contents(), "/climate/data, /climate/data_stats, /climate/labels_0, /climate/labels_0_stats");
  EXPECT_EQ(file.dataset("climate/data").info().text(), "float32 (6, 10, 16)");
  EXPECT_EQ(file.dataset("climate/labels_0").info().text(), "float32 (6, 10)");
  const auto data = file.read<float>("climate/data"), numbers = file.read<float>("climate/data_stats"),
             labels = file.read<float>("climate/labels_0"), shares = file.read<float>("climate/labels_0_stats");
  ASSERT_EQ(numbers.size(), 64U);
  for (std::size_t c = 0; c < 16; ++c) {
    double sum = 0, squares = 0;
    float high = -1e30F, low = 1e30F;
    for (std::size_t p = 0; p < kPixels; ++p) {
      const float x = data[16 * p + c];
      ASSERT_EQ(x, frame_.fields[c * kPixels + p]);
      sum += x / double{kPixels};
      high = std::max(high, x);
      low = std::min(low, x);
    }
    for (std::size_t p = 0; p < kPixels; ++p) squares += std::pow(data[16 * p + c] - sum, 2) / kPixels;
    EXPECT_NEAR(numbers[c], sum, 1e-6 * std::abs(sum));
    EXPECT_EQ(numbers[16 + c], high);
    EXPECT_EQ(numbers[32 + c], low);
    EXPECT_NEAR(numbers[48 + c], std::sqrt(squares), 1e-6 * std::sqrt(squares));
  }
  ASSERT_EQ(shares.size(), 7U);
  EXPECT_NEAR(shares[4] + shares[5] + shares[6], 1, 1e-6);
  EXPECT_NEAR(shares[5], std::count(labels.begin(), labels.end(), 1.0F) / double{kPixels}, 1e-6);
  EXPECT_NEAR(shares[0], std::accumulate(labels.begin(), labels.end(), 0.0) / kPixels, 1e-6);
}

TEST_F(ClimateFiles, Sc18HasItsChannelsFirstAndSeveralSetsOfLabels) {
  std::vector<float> labels(2 * kPixels, 0);
  std::ranges::copy(frame_.labels, labels.begin() + kPixels);
  write([&](Hdf5File& file) {
    file.write<float>("climate/data", {16, kHeight, kWidth}, frame_.fields);
    file.write<float>("climate/labels", {2, kHeight, kWidth}, labels);
  });
  EXPECT_EQ(open_frames(path())->format(), "sc18");
  EXPECT_EQ(read_frame(*open_frames(path(), {.label_set = 1})).labels, frame_.labels);
  const Frame read = read_frame(*open_frames(path()));
  EXPECT_EQ(read.fields, frame_.fields);
  EXPECT_EQ(read.labels, std::vector<std::uint8_t>(kPixels, 0));
  EXPECT_EQ(read.time, "1996-06-05T06:00:00");  // from the name
  EXPECT_HOLDS(error_of([&] { open_frames(path(), {.label_set = 2}); }), "there are no labels 2");
}

/// Channels 10 and 7 alone, in that order, first and last.
TEST_F(ClimateFiles, ChannelsThatWereDroppedAreKnownByTheirList) {
  for (const bool last : {false, true}) {
    std::vector<float> data;
    for (std::int64_t i = 0; i < 2 * kPixels; ++i) {
      const std::int64_t c = last ? i % 2 : i / kPixels, p = last ? i / 2 : i % kPixels;
      data.push_back(frame_.fields[static_cast<std::size_t>((c == 0 ? 10 : 7) * kPixels + p)]);
    }
    write([&](Hdf5File& file) {
      file.write<float>(
          "climate/data",
          last ? std::vector<std::int64_t>{kHeight, kWidth, 2} : std::vector<std::int64_t>{2, kHeight, kWidth}, data);
      file.write<std::int32_t>("climate/channels", {2}, std::vector<std::int32_t>{10, 7}, {Hdf5Type::kI32});
    });
    const auto file = open_frames(path());
    EXPECT_FALSE(file->has_labels());
    RawFields raw;
    file->read_fields(0, std::array<int, 2>{kPsl, kPrect}, raw);
    for (std::int64_t p = 0; p < kPixels; ++p) {
      const auto at = static_cast<std::size_t>(p), step = static_cast<std::size_t>(raw.step);
      ASSERT_EQ(raw.values[static_cast<std::size_t>(raw.first[0]) + at * step], frame_.fields[7 * kPixels + at]);
      ASSERT_EQ(raw.values[static_cast<std::size_t>(raw.first[1]) + at * step], frame_.fields[10 * kPixels + at]);
    }
    EXPECT_HOLDS(error_of([&] { file->read_fields(0, std::array<int, 1>{kTmq}, raw); }),
                 "has no variable TMQ; it has PSL, PRECT");
  }
}

TEST_F(ClimateFiles, NpyHasChannelsFirstOrLastAndLabelsOfAnyType) {
  const std::string name = path("data-1996-06-05-02-1.npy"), label_name = path("label-1996-06-05-02-1.npy");
  std::vector<float> last;
  for (std::size_t p = 0; p < kPixels; ++p) {
    for (std::size_t c = 0; c < 16; ++c) last.push_back(frame_.fields[c * kPixels + p]);
  }
  const std::vector<double> first(frame_.fields.begin(), frame_.fields.end());
  const auto expect_frame = [&](bool labels) {
    const auto file = open_frames(name);
    EXPECT_EQ(file->format(), "npy");
    const Frame read = read_frame(*file);
    EXPECT_EQ(read.fields, frame_.fields);
    EXPECT_EQ(read.labels, labels ? frame_.labels : std::vector<std::uint8_t>());
    EXPECT_EQ(read.time, "1996-06-05T06:00:00");
  };
  test::write_npy(name, "<f8", "(16, 6, 10)", test::bytes_of(first));
  expect_frame(false);
  test::write_npy(name, "<f4", "(6, 10, 16)", test::bytes_of(last));
  const auto write_labels = [&]<class T>(const char* type, std::vector<T> labels) {
    test::write_npy(label_name, type, "(6, 10)", test::bytes_of(labels));
  };
  write_labels("|u1", frame_.labels);
  expect_frame(true);
  write_labels("|i1", std::vector<std::int8_t>(frame_.labels.begin(), frame_.labels.end()));
  expect_frame(true);
  write_labels("<i4", std::vector<std::int32_t>(frame_.labels.begin(), frame_.labels.end()));
  expect_frame(true);
  std::vector<std::int64_t> wide(frame_.labels.begin(), frame_.labels.end());
  write_labels("<i8", wide);
  expect_frame(true);
  wide[11] = 3;
  write_labels("<i8", wide);
  EXPECT_HOLDS(error_of([&] { read_frame(*open_frames(name)); }), label_name + " is 3 at row 1, column 1");
  test::write_npy(label_name, "|u1", "(10, 6)", test::bytes_of(frame_.labels));
  EXPECT_HOLDS(error_of([&] { read_frame(*open_frames(name)); }), "the array is (10, 6), but");
  test::write_npy(name, "<f4", "(60, 16)", test::bytes_of(last));
  EXPECT_HOLDS(error_of([&] { open_frames(name); }), "the array is (60, 16); (H, W, 16) or (16, H, W) was expected");
}

TEST_F(ClimateFiles, WhatDoesNotFitIsRefused) {
  const auto refused = [&](const std::function<void(Hdf5File&)>& fill) {
    write(fill);
    const std::string error = error_of([&] { read_frame(*open_frames(path())); });
    EXPECT_HOLDS(error, path());
    return error;
  };
  const auto data = [&](Hdf5File& file) { file.write<float>("climate/data", {16, kHeight, kWidth}, frame_.fields); };
  EXPECT_HOLDS(error_of([&] { open_frames(path()); }), "does not exist");
  EXPECT_HOLDS(refused([&](Hdf5File& file) { file.write<float>("climate/date", {kPixels * 16}, frame_.fields); }),
               "has no data set climate/data; it holds /climate/date");
  EXPECT_HOLDS(
      refused([&](Hdf5File& file) { file.write<float>("climate/data", {8, kHeight, kWidth, 2}, frame_.fields); }),
      "float32 (8, 6, 10, 2); (H, W, 16) or (16, H, W) was expected");
  EXPECT_HOLDS(refused([&](Hdf5File& file) {
                 data(file);
                 file.write<float>("climate/labels_0", {kWidth, kHeight}, std::vector<float>(kPixels));
               }),
               "float32 (10, 6), but climate/data is of 6 x 10");
  EXPECT_HOLDS(refused([&](Hdf5File& file) {
                 data(file);
                 file.write<std::int32_t>("climate/channels", {16}, std::vector<std::int32_t>(16, 3), {Hdf5Type::kI32});
               }),
               "different numbers from 0 to 15");
  for (const float bad : {3.0F, 0.5F, -1.0F, std::nanf("")}) {
    std::vector<float> labels(kPixels, 1);
    labels[3 * kWidth + 7] = bad;
    EXPECT_HOLDS(refused([&](Hdf5File& file) {
                   data(file);
                   file.write<float>("climate/labels_0", {kHeight, kWidth}, labels);
                 }),
                 fmt::format("climate/labels_0 is {} at row 3, column 7", bad));
  }
}

TEST_F(ClimateFiles, NumbersThatAreNoValuesAreRefused) {
  RawFields raw;
  const std::array<int, 2> fields = {kPsl, kTs};
  for (const float bad : {std::nanf(""), -INFINITY, 1e20F, 9.96921e36F, -9999.0F}) {
    Frame frame = frame_;
    frame.fields[kTs * kPixels + 2 * kWidth + 4] = frame.fields[kTs * kPixels + 5 * kWidth] = bad;
    frame.fields[kU850 * kPixels] = bad;  // which is not used
    write_frame(path(), frame);
    const auto file = open_frames(path());
    file->read_fields(0, fields, raw);
    EXPECT_HOLDS(error_of([&] { check_values(*file, 0, fields, raw); }),
                 fmt::format("{}: 2 of 60 numbers of TS are no values (NaN, infinite or a fill value): the first is {} "
                             "at row 2, column 4",
                             path(), bad));
  }
  write_frame(path(), frame_);
  const auto file = open_frames(path());
  file->read_fields(0, fields, raw);
  EXPECT_NO_THROW(check_values(*file, 0, fields, raw));
}

TEST(ClimateTimes, NamesOfFilesSayThem) {
  EXPECT_EQ(time_of_file("/a/data-1996-06-05-02-1.h5"), "1996-06-05T06:00:00");
  EXPECT_EQ(time_of_file("data-2010-12-31-07-2-ANOMALY.h5"), "2010-12-31T21:00:00");
  EXPECT_EQ(time_of_file("data-2013-01-01-00-1.nc"), "2013-01-01T00:00:00");
  EXPECT_EQ(time_of_file("data-1996-13-05-02-1.h5"), "");
  EXPECT_EQ(time_of_file("data-1996-06-05-08-1.h5"), "");
  EXPECT_EQ(time_of_file("train.h5"), "");
}

TEST(ClimateTimes, DaysChooseFiles) {
  const std::vector<std::string> files = {"data-1996-06-05-02-1.h5", "data-1996-06-06-00-1.h5",
                                          "data-1997-01-01-07-1.h5"};
  const auto from_to = [&](const char* from, const char* to) { return files_between(files, from, to); };
  EXPECT_EQ(from_to("", ""), files);
  EXPECT_EQ(from_to("1996-06-06", ""), std::vector(files.begin() + 1, files.end()));
  EXPECT_EQ(from_to("", "1996-06-06"), std::vector(files.begin(), files.begin() + 2));
  EXPECT_EQ(from_to("1996-06-06", "1996-06-06"), std::vector{files[1]});
  EXPECT_HOLDS(
      error_of([&] { from_to("1998-01-01", ""); }),
      "none of 3 files is from 1998-01-01 to any day (data.from, data.to); they are from 1996-06-05 to 1997-01-01");
  EXPECT_HOLDS(error_of([&] { from_to("1996-6-6", ""); }), "data.from is \"1996-6-6\"");
  EXPECT_HOLDS(error_of([&] { from_to("", "1997-02-29"); }), "data.to is \"1997-02-29\"");
  EXPECT_HOLDS(error_of([] { files_between({"train.h5"}, "1996-01-01", ""); }), "train.h5");
}

}  // namespace
}  // namespace petaflow::climate
