// Files of ExtremeWeather: frames in alphabetical order of their variables, boxes in any order of columns.
#include <algorithm>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "climate/boxes.hpp"
#include "climate/climate_data.hpp"
#include "climate/extreme_weather_file.hpp"
#include "climate_frames.hpp"
#include "data/bytes.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate {
namespace {

using test::error_of;
using test::made_frame;

constexpr std::int64_t kHeight = 5, kWidth = 8, kPixels = kHeight * kWidth;

class ExtremeWeather : public ::testing::Test {
 protected:
  ExtremeWeather() : frames_{made_frame(kHeight, kWidth, 1), made_frame(kHeight, kWidth, 2)} {
    frames_[0].boxes = {{0, 1, 5, 8, 1}, {2, 3, 4, 5, 3}};
    options_.height = kHeight;
    options_.width = kWidth;
    options_.map = false;
    options_.boxes = true;
  }
  ClimateData open() const { return {options_, scan_climate(options_, {path()})}; }
  std::string path(const std::string& name = "frames.h5") const { return folder_ / name; }
  void write_boxes(const std::vector<float>& boxes, const Hdf5Type type = Hdf5Type::kI32) const {
    write_hdf5_atomically(path(), [&](Hdf5File& file) {
      file.write<float>("images", {1, 16, kHeight, kWidth}, frames_[0].fields);
      file.write<float>("boxes", {1, std::ssize(boxes) / 5, 5}, boxes, {type});
    });
  }

  const test::ScratchFolder folder_;
  std::vector<Frame> frames_;
  ClimateDataOptions options_;
};

TEST_F(ExtremeWeather, FramesAreReadAsTheyWereWritten) {
  write_extreme_weather(path(), frames_);
  const auto file = open_frames(path());
  EXPECT_EQ(file->format(), "extreme_weather");
  ASSERT_EQ(file->frames(), 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const Frame read = read_frame(*file, static_cast<std::int64_t>(i));
    EXPECT_EQ(read.fields, frames_[i].fields);
    EXPECT_EQ(read.boxes, frames_[i].boxes);
    EXPECT_TRUE(read.labels.empty());
  }
}

/// PRECT comes first, ZBOT last, and images may be packed in chunks.
TEST_F(ExtremeWeather, TheLayoutIsThatOfThePublishedFiles) {
  write_extreme_weather(path(), frames_);
  const Hdf5File file = Hdf5File::open(path());
  EXPECT_EQ(file.dataset("images").info().text(), "float32 (2, 16, 5, 8)");
  EXPECT_EQ(file.dataset("boxes").info().text(), "integer32 (2, 15, 5)");
  const std::array<int, 16> order = {kPrect, kPs,   kPsl,  kQrefht, kT200, kT500,  kTmq,  kTrefht,
                                     kTs,    kU850, kUbot, kV850,   kVbot, kZ1000, kZ200, kZbot};
  const auto images = file.read<float>("images");
  for (std::size_t c = 0; c < 16; ++c) {
    EXPECT_EQ(images[(16 + c) * kPixels + 3], frames_[1].fields[static_cast<std::size_t>(order[c]) * kPixels + 3]);
  }
  const auto boxes = file.read<std::int32_t>("boxes");
  EXPECT_EQ(std::vector(boxes.begin(), boxes.begin() + 11),
            (std::vector<std::int32_t>{0, 1, 5, 8, 1, 2, 3, 4, 5, 3, -1}));
  EXPECT_EQ(boxes[75], -1);

  const std::string packed = path("packed.h5");
  write_hdf5_atomically(packed, [&](Hdf5File& made) {
    made.write<float>("images", {2, 16, kHeight, kWidth}, images, {Hdf5Type::kF32, {1, 4, 3, 5}, 4, true});
    made.write<std::int32_t>("boxes", {2, 15, 5}, boxes, {Hdf5Type::kI32, {1, 15, 5}, 4});
  });
  const Frame read = read_frame(*open_frames(packed), 1);
  EXPECT_EQ(read.fields, frames_[1].fields);
}

TEST_F(ExtremeWeather, ColumnsOfBoxesAreASetting) {
  write_boxes({1, 8, 0, 5, 2});
  FrameFileOptions options;
  options.box_columns = {"xmin", "xmax", "ymin", "ymax", "class"};
  const auto boxes = open_frames(path(), options)->read_boxes(0);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_EQ(boxes[0], (Box{0, 1, 5, 8, 2}));
  EXPECT_HOLDS(error_of([&] { open_frames(path())->read_boxes(0); }),
               "box 0 of frame 0 has rows 1 to 0, columns 8 to 5 and class 2; frames are of 5 x 8 pixels");
  for (const auto& names : {std::vector<std::string>{"xmin", "xmin", "ymin", "ymax", "class"},
                            {"xmin", "xmax", "ymin", "ymax", "class", "class"}}) {
    options.box_columns = names;
    EXPECT_HOLDS(error_of([&] { open_frames(path(), options); }), "each of ymin, xmin, ymax, xmax, class");
  }
}

TEST_F(ExtremeWeather, BoxesOutsideOfTheFrameAreRefused) {
  const std::vector<float> unused(5, -1);
  for (const std::vector<float>& row : {std::vector<float>{0, 0, 6, 8, 1},
                                        {0, 0, 5, 9, 1},
                                        {-1, 0, 5, 8, 1},
                                        {0, -2, 5, 8, 1},
                                        {3, 0, 3, 8, 1},
                                        {0, 0, 5, 8, 4},
                                        {0, 0, 5, 8, -1}}) {
    std::vector<float> rows = unused;
    rows.insert(rows.end(), row.begin(), row.end());
    write_boxes(rows);
    EXPECT_HOLDS(error_of([&] { open_frames(path())->read_boxes(0); }), "frames.h5: box 1 of frame 0 has rows");
  }
  for (const float kind : {1.5F, std::nanf(""), 1e20F}) {
    write_boxes({0, 0, 5, 8, kind}, Hdf5Type::kF32);
    EXPECT_HOLDS(error_of([&] { open_frames(path())->read_boxes(0); }), fmt::format("and class {}", kind));
  }
  write_boxes(unused);
  EXPECT_TRUE(open_frames(path())->read_boxes(0).empty());
}

/// One over the edge becomes two, and a frame has room for so many.
TEST_F(ExtremeWeather, BoxesGoOnAtColumnZero) {
  frames_[0].boxes = {{1, 6.5F, 3, 10, 0}};
  write_extreme_weather(path(), frames_, 2);
  EXPECT_EQ(open_frames(path())->read_boxes(0), (std::vector<Box>{{1, 6, 3, 8, 0}, {1, 0, 3, 2, 0}}));
  EXPECT_HOLDS(error_of([&] { write_extreme_weather(path(), frames_, 1); }), "frame 0 has 2 boxes, the file takes 1");
}

TEST_F(ExtremeWeather, BoxesAreATarget) {
  write_extreme_weather(path(), frames_);
  ClimateDataOptions& options = options_;
  options.most_boxes = 3;
  ClimateIndex index = scan_climate(options, {path()});
  const ClimateData data(options, from_bytes<ClimateIndex>(to_bytes(index)));
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.targets(), std::vector{TargetSpec::boxes("boxes", 3, 5)});
  const SampleStorage sample(data);
  EXPECT_EQ(data.read(0, sample.bytes()), 1);
  const BoxTarget boxes(sample.bytes().targets[0], 5);
  ASSERT_EQ(boxes.size(), 2U);
  EXPECT_EQ(std::vector(boxes[1].begin(), boxes[1].end()), (std::vector<float>{2, 3, 4, 5, 3}));
  EXPECT_EQ(data.read(1, sample.bytes()), 1);
  EXPECT_EQ(BoxTarget(sample.bytes().targets[0], 5).size(), 0U);
  options.most_boxes = 1;
  const ClimateData small(options, index);
  EXPECT_HOLDS(error_of([&] { small.read(0, SampleStorage(small).bytes()); }),
               "frame 0 has 2 boxes; data.most_boxes = 1");
  options.map = true;
  EXPECT_HOLDS(error_of([&] { scan_climate(options, {path()}); }), "frames.h5 (extreme_weather) has no labels");
}

/// Two of a kind that meet at column 0 are one, whatever their order; its centre lies in the frame.
TEST_F(ExtremeWeather, BoxesOnBothSidesOfColumnZeroAreOneTarget) {
  EXPECT_EQ(joined_across_seam({{1, 6, 3, 8, 0}, {0, 0, 5, 2, 0}, {1, 0, 3, 2, 1}, {1, 0, 3, 3, 0}}, 8),
            (std::vector<Box>{{1, 6, 3, 11, 0}, {0, 0, 5, 2, 0}, {1, 0, 3, 2, 1}}));
  EXPECT_EQ(joined_across_seam({{1, 0, 3, 2, 2}, {1, 1, 2, 2, 2}, {1, 5, 3, 8, 2}}, 8),
            (std::vector<Box>{{1, 1, 2, 2, 2}, {1, 5, 3, 10, 2}}));
  EXPECT_EQ(joined_across_seam({{1, 0, 3, 2, 2}, {1, 5, 3, 8, 2}, {0, 7, 1, 8, 0}, {0, 0, 1, 1, 0}}, 8),
            (std::vector<Box>{{1, 5, 3, 10, 2}, {0, 7, 1, 9, 0}}));
  const std::vector<Box> apart = {{0, 0, 5, 8, 1}, {1, 6, 3, 7, 0}, {1, 0, 3, 7, 0}};
  EXPECT_EQ(joined_across_seam(apart, 8), apart);
  EXPECT_EQ(centred({1, 6, 3, 11, 0}, 8), (Box{1, -2, 3, 3, 0}));
  EXPECT_EQ(centred({1, -3, 3, 2, 0}, 8), (Box{1, 5, 3, 10, 0}));
  EXPECT_EQ(centred({0, 0, 5, 8, 1}, 8), (Box{0, 0, 5, 8, 1}));

  frames_[0].boxes = {{1, 6, 3, 9, 0}};
  write_extreme_weather(path(), frames_);
  const ClimateData data = open();
  const SampleStorage sample(data);
  data.read(0, sample.bytes());
  BoxTarget boxes(sample.bytes().targets[0], 5);
  ASSERT_EQ(boxes.size(), 1U);
  EXPECT_EQ(std::vector(boxes[0].begin(), boxes[0].end()), (std::vector<float>{1, 6, 3, 9, 0}));
}

TEST_F(ExtremeWeather, SeveralFramesBehindAFileOfOneAreRefused) {
  write_extreme_weather(path(), frames_);
  write_extreme_weather(path("one.h5"), {frames_.data(), 1});
  const ClimateData whole(options_, scan_climate(options_, {path(), path("one.h5")}));
  EXPECT_EQ(whole.size(), 3);
  check_samples(whole, {0, 3});
  EXPECT_HOLDS(error_of([&] { scan_climate(options_, {path("one.h5"), path()}); }), "frames.h5 has 2 frames, but");
}

TEST_F(ExtremeWeather, AShareOfTheFramesIsLabelled) {
  for (const double fraction : {0.1, 0.25, 1.0}) {
    const std::vector<bool> one = labelled_frames(40, fraction, 1), same = labelled_frames(40, fraction, 1),
                            other = labelled_frames(40, fraction, 2);
    EXPECT_EQ(std::ranges::count(one, true), std::lround(40 * fraction));
    EXPECT_EQ(std::ranges::count(other, true), std::lround(40 * fraction));
    EXPECT_EQ(one, same);
    EXPECT_EQ(one == other, fraction == 1);
  }
  std::vector<int> often(10);
  for (std::int64_t seed = 0; seed < 1000; ++seed) {
    const std::vector<bool> chosen = labelled_frames(10, 0.3, seed);
    for (std::size_t i = 0; i < 10; ++i) often[i] += chosen[i] ? 1 : 0;
  }
  for (const int times : often) EXPECT_NEAR(times, 300, 60);  // four deviations
}

TEST_F(ExtremeWeather, FramesWithoutKnownBoxesHaveAWeightWhereThatIsAllowed) {
  frames_[1].boxes = frames_[0].boxes;
  write_extreme_weather(path(), frames_);
  options_.labelled_fraction = 0.5;
  const auto weights = [&] {
    const ClimateData data = open();
    const SampleStorage sample(data);
    float sum = 0;
    int known = 0;
    for (std::int64_t i = 0; i < 2; ++i) {
      sum += data.read(i, sample.bytes());
      const BoxTarget boxes(sample.bytes().targets[0], 5);
      known += boxes.known() ? 1 : 0;
      EXPECT_EQ(boxes.known(), labelled_frames(2, 0.5, options_.labelled_seed)[static_cast<std::size_t>(i)]);
      EXPECT_EQ(boxes.size(), boxes.known() ? 2U : 0U);
    }
    return std::pair(sum, known);
  };
  EXPECT_EQ(weights(), std::pair(1.0F, 1));
  options_.boxes_optional = true;
  EXPECT_EQ(weights(), std::pair(2.0F, 1));
  options_.cache = path() + ".cache";  // copies have the boxes of every frame, whichever are looked at
  options_.cache_bytes = 0;
  for (options_.labelled_seed = 1; options_.labelled_seed <= 8; ++options_.labelled_seed) {
    EXPECT_EQ(weights(), std::pair(2.0F, 1));
  }
  options_.cache.clear();

  check_any_box(options_, scan_climate(options_, {path()}), "data.train");
  frames_[0].boxes.clear();
  frames_[1].boxes.clear();
  write_extreme_weather(path(), frames_);
  EXPECT_HOLDS(error_of([&] { check_any_box(options_, scan_climate(options_, {path()}), "data.train"); }),
               "data.train: none of the 1 of 2 frames whose boxes are looked at has one");
}

}  // namespace
}  // namespace petaflow::climate
