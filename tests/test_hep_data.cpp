// HEP data sets: the three layouts in several types and storages, many files, the real trigger towers.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "data/files.hpp"
#include "data/hep.hpp"
#include "hep_files.hpp"
#include "read_sample.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using namespace test;

void expect_values(const HepData& data, std::int64_t channels, std::int64_t first_event = 0) {
  ASSERT_EQ(data.sample_dims(), (std::array<std::int64_t, 4>{channels, 1, kHeight, kWidth}));
  std::vector<float> pixels(static_cast<std::size_t>(data.sample_elements()));
  for (std::int64_t i = 0; i < kEvents; ++i) {
    const auto sample = test::read_f32(data, first_event + i, pixels);
    EXPECT_EQ(sample.label, static_cast<int>(kLabel(i)));
    for (std::int64_t row = 0, p = 0; row < kHeight; ++row) {
      for (std::int64_t column = 0; column < kWidth; ++column) {
        for (std::int64_t c = 0; c < channels; ++c, ++p) {
          ASSERT_EQ(pixels[static_cast<std::size_t>(p)], value(i, c, row, column)) << "event " << i << " channel " << c;
        }
      }
    }
  }
}

struct StorageCase {
  const char* name;
  Hdf5Storage storage;
};

class HepLayouts : public testing::TestWithParam<StorageCase> {};

TEST_P(HepLayouts, AllEventsInEveryStorage) {
  const ScratchFolder folder;
  write_all_events(folder / "a.h5", GetParam().storage);
  for (const std::int64_t cache_bytes : {std::int64_t{0}, std::int64_t{1} << 30}) {
    HepDataOptions options;
    options.cache_bytes = cache_bytes;
    const HepData data = open_hep(options, {folder / "a.h5"});
    EXPECT_EQ(data.in_memory(), cache_bytes > 0);
    EXPECT_EQ(data.format(), "all_events");
    EXPECT_EQ(data.class_counts(), (std::array<std::int64_t, 2>{6, 4}));
    EXPECT_EQ(data.phi_axis(), ImageAxis::kW);
    expect_values(data, 3);
    options.file.channels = 1;
    expect_values(open_hep(options, {folder / "a.h5"}), 1);
  }
}

INSTANTIATE_TEST_SUITE_P(All, HepLayouts,
                         testing::Values(StorageCase{"f16", {Hdf5Type::kF16}}, StorageCase{"f32", {Hdf5Type::kF32}},
                                         StorageCase{"f64", {Hdf5Type::kF64}}, StorageCase{"i32", {Hdf5Type::kI32}},
                                         StorageCase{"chunked", {Hdf5Type::kF32, {3, 2, 5}}},
                                         StorageCase{"gzip", {Hdf5Type::kF64, {4, 4, 6}, 5}}),
                         [](const auto& test) { return test.param.name; });

TEST(HepData, EventsCarryWeightsAndSelection) {
  const ScratchFolder folder;
  write_all_events(folder / "a.h5");
  HepDataOptions options;
  options.loss_weight = "weight";
  const HepData data = open_hep(options, {folder / "a.h5"});
  EXPECT_TRUE(data.has_weights() && data.has_selection());
  EXPECT_EQ(data.events()[3].weight, 4.0);
  EXPECT_TRUE(data.events()[2].pass_sr && data.events()[2].pass_sr4j && data.events()[2].pass_sr5j);
  EXPECT_TRUE(data.events()[4].pass_sr && !data.events()[4].pass_sr4j && !data.events()[3].pass_sr);
  std::vector<float> pixels(static_cast<std::size_t>(data.sample_elements()));
  std::array<double, 2> sum = {0, 0};
  for (std::int64_t i = 0; i < kEvents; ++i) {
    const auto sample = test::read_f32(data, i, pixels);
    sum[static_cast<std::size_t>(sample.label)] += sample.weight;
  }
  EXPECT_NEAR(sum[0], 6, 1e-5);  // mean 1 per class
  EXPECT_NEAR(sum[1], 4, 1e-5);
  EXPECT_NEAR(test::read_f32(data, 3, pixels).weight, 4.0 / (1 + 4 + 7 + 10) * 4, 1e-6);
}

TEST(HepData, StackedImagesOfBothOrders) {
  const ScratchFolder folder;
  for (const char* order : {"nchw", "nhwc"}) {
    write_images(folder / "i.h5", order);
    HepDataOptions options;
    options.file.suffix = "_val";
    for (options.cache_bytes = 0; options.cache_bytes < 2000000; options.cache_bytes += 1000000) {
      expect_values(open_hep(options, {folder / "i.h5"}), 3);
    }
  }
}

TEST(HepData, Sc17FilesInNaturalOrder) {
  const ScratchFolder folder;
  for (const char* name : {"chunk10.h5", "chunk9.h5"}) write_sc17(folder / name);
  HepDataOptions options;
  options.loss_weight = "normweight";
  const HepData data = open_hep(options, {folder / "chunk*.h5"});
  EXPECT_EQ(data.size(), 2 * kEvents);
  EXPECT_EQ(data.format(), "sc17");
  EXPECT_EQ(data.phi_axis(), ImageAxis::kH);
  expect_values(data, 3, 0);
  expect_values(data, 3, kEvents);
  EXPECT_TRUE(data.events()[17].pass_sr);
  EXPECT_EQ(data.events()[17].file, 1);
  EXPECT_EQ(data.events()[17].index, 7);
  EXPECT_EQ(data.events()[17].weight, 8.0);
  std::vector<float> pixels(static_cast<std::size_t>(data.sample_elements()));
  EXPECT_NEAR(test::read_f32(data, 0, pixels).weight, 0.25 / (1.5 / 4), 1e-6);
}

TEST(HepData, TransformsAreStackedCroppedAndScaled) {
  const ScratchFolder folder;
  write_all_events(folder / "a.h5");
  HepDataOptions options;
  options.file.channels = 2;
  options.crop = {3, 5};
  options.transforms = {"signed_log", "linear"};
  options.units = {10.0, 4.0};
  const HepData plain = open_hep(options, {folder / "a.h5"});
  EXPECT_EQ(plain.sample_dims(), (std::array<std::int64_t, 4>{4, 1, 3, 5}));
  EXPECT_FALSE(plain.phi_is_whole());
  std::vector<float> pixels(60);
  test::read_f32(plain, 0, pixels);
  const float x = value(0, 0, 2, 1), y = value(0, 1, 2, 1);  // -7, 33
  const std::size_t at = (2 * 5 + 1) * 4;
  EXPECT_FLOAT_EQ(pixels[at], -std::log1p(-x / 10));
  EXPECT_FLOAT_EQ(pixels[at + 1], std::log1p(y / 4));
  EXPECT_FLOAT_EQ(pixels[at + 2], x / 10);
  EXPECT_FLOAT_EQ(pixels[at + 3], y / 4);

  const auto maxima = channel_maxima(plain, all_of(plain));
  EXPECT_FLOAT_EQ(maxima[2], value(9, 0, 2, 4) / 10);
  options.scale = "max";
  const HepData scaled = open_hep(options, {folder / "a.h5"});
  EXPECT_EQ(scaled.maxima(), maxima);
  EXPECT_EQ(channel_maxima(scaled, all_of(scaled)), (std::vector<float>{1, 1, 1, 1}));
  options.maxima = {1, 1, 2, 1};
  const HepData given = open_hep(options, {folder / "a.h5"});
  EXPECT_FLOAT_EQ(channel_maxima(given, all_of(given))[2], maxima[2] / 2);
}

TEST(HepData, PedestalsAreMediansOverPhi) {
  const ScratchFolder folder;
  // Rings of five and of two towers, phi along columns in one layout and along rows in the other.
  const std::vector<float> pixels = {3, -1, 100, 7, 2, -4, 0, 0, 50, 1};
  const std::vector<float> over_columns = {0, -4, 97, 4, -1, -4, 0, 0, 50, 1};  // less 3, less 0
  // Less -0.5, -0.5, 50, 28.5, 1.5.
  const std::vector<float> over_rows = {3.5F, -0.5F, 50, -21.5F, 0.5F, -3.5F, 0.5F, -50, 21.5F, -0.5F};
  {
    auto columns = Hdf5File::create(folder / "columns.h5");
    columns.write<float>("all_events/hist", {1, 2, 5}, pixels);
    auto rows = Hdf5File::create(folder / "rows.h5");
    rows.write<float>("data", {1, 1, 2, 5}, pixels);
    rows.write<float>("label", {1}, std::vector<float>{1});
  }
  HepDataOptions options;
  options.labels = HepLabels::kOptional;
  options.pedestal = "phi_median";
  std::vector<float> read(10);
  for (const auto& [file, expected] : {std::pair("columns.h5", over_columns), std::pair("rows.h5", over_rows)}) {
    for (const std::int64_t cache_bytes : {0, 1000}) {
      options.cache_bytes = cache_bytes;
      test::read_f32(open_hep(options, {folder / file}), 0, read);
      EXPECT_EQ(read, expected) << file;
    }
  }
  // Before the image is cropped, transformed and clipped: the ring stays whole.
  options.crop = {1, 3};
  options.transforms = {"linear"};
  options.units = {2.0};
  options.clip = {-1.5, 40};
  read.resize(3);
  test::read_f32(open_hep(options, {folder / "columns.h5"}), 0, read);
  EXPECT_EQ(read, (std::vector<float>{0, -1.5F, 40}));
  options.pedestal = "none";
  test::read_f32(open_hep(options, {folder / "columns.h5"}), 0, read);
  EXPECT_EQ(read, (std::vector<float>{1.5F, -0.5F, 40}));

  const auto refused = [&] { return error_of([&] { open_hep(options, {folder / "columns.h5"}); }); };
  options.clip = {40, -1.5};
  EXPECT_HOLDS(refused(), "data.clip takes a lowest and a highest value, found 2 values: 40, -1.5");
  options.clip = {40};
  EXPECT_HOLDS(refused(), "data.clip takes a lowest and a highest value, found 1 value: 40");
  options.pedestal = "eta_median";
  EXPECT_HOLDS(refused(), "data.pedestal is \"eta_median\"; none or phi_median was expected");
}

TEST(HepData, ClassFilesAreLabelledByTheirNames) {
  const ScratchFolder folder;
  const auto all = pixels_in("nhw", 1);
  write_class_file(folder / "x.sig.h5", {all.begin(), all.begin() + 2 * 24});
  write_class_file(folder / "x.bkg.h5", {all.begin() + 2 * 24, all.end()});
  HepDataOptions options;
  options.file.dataset = "towers";
  options.file.signal = "*sig*";
  options.file.background = "*bkg*";
  const HepData data = open_hep(options, {folder / "x.sig.h5", folder / "x.bkg.h5"});
  EXPECT_EQ(data.format(), "class_files");
  EXPECT_EQ(data.class_counts(), (std::array<std::int64_t, 2>{8, 2}));
  EXPECT_FALSE(data.has_weights());
  std::vector<float> pixels(24);
  EXPECT_EQ(test::read_f32(data, 1, pixels).label, 1);
  EXPECT_EQ(test::read_f32(data, 5, pixels).label, 0);
  EXPECT_EQ(pixels[7], value(5, 0, 1, 1));

  const auto open = [&](const std::vector<std::string>& files) { return error_of([&] { open_hep(options, files); }); };
  EXPECT_HOLDS(open({folder / "x.sig.h5"}), ", all signal: no background to learn from");
  options.labels = HepLabels::kAny;
  EXPECT_EQ(open_hep(options, {folder / "x.sig.h5"}).size(), 2);
  write_class_file(folder / "other.h5", all);
  EXPECT_HOLDS(open({folder / "other.h5"}), "matches neither signal \"*sig*\" nor background \"*bkg*\"");
  write_class_file(folder / "sig.bkg.h5", all);
  EXPECT_HOLDS(open({folder / "sig.bkg.h5"}), "matches both");
  options.labels = HepLabels::kOptional;
  EXPECT_EQ(open_hep(options, {folder / "other.h5"}).events()[0].label, -1);
  options.file.dataset = "towerz";
  EXPECT_HOLDS(open({folder / "x.sig.h5"}), "has no data set towerz; it holds /towers");
  options.file.dataset = "";
  EXPECT_HOLDS(open({folder / "x.sig.h5"}), "is in none of the known layouts");
  options.file.format = "class_files";
  EXPECT_HOLDS(open({folder / "x.sig.h5"}), "needs the name of the data set");
}

TEST(HepData, RealTriggerTowers) {
  const auto folder = test::samples_folder() / "hep";
  if (!std::filesystem::exists(folder))
    GTEST_SKIP() << "NO REAL DATA: " << folder << " does not exist (PETAFLOW_SAMPLES)";
  HepDataOptions options;
  options.file.dataset = "gTowerEt";
  options.file.signal = "*ZvvHbb*";
  options.file.background = "*JZ0W*";
  options.crop = {26, 32};
  const HepData data = open_hep(options, {(folder / "*.hdf5").string()});
  EXPECT_EQ(data.size(), 1500);
  EXPECT_EQ(data.class_counts(), (std::array<std::int64_t, 2>{750, 750}));
  EXPECT_EQ(data.sample_dims(), (std::array<std::int64_t, 4>{1, 1, 26, 32}));
  EXPECT_TRUE(data.phi_is_whole());
  float low = 0, high = 0;
  std::vector<float> pixels(26 * 32), largest[2];
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const auto sample = test::read_f32(data, i, pixels);
    low = std::min(low, std::ranges::min(pixels));
    high = std::max(high, std::ranges::max(pixels));
    largest[sample.label].push_back(std::ranges::max(pixels));
  }
  EXPECT_FLOAT_EQ(std::round(low), -10870);
  EXPECT_FLOAT_EQ(std::round(high), 334259);
  double wins = 0;  // AUC of the largest tower; numpy says 0.90826
  for (const float signal : largest[1]) {
    for (const float background : largest[0]) wins += signal > background ? 1 : signal == background ? 0.5 : 0;
  }
  EXPECT_NEAR(wins / (750.0 * 750.0), 0.90826, 1e-5);
}

/// The number of open files of the process.
std::ptrdiff_t descriptors() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

TEST(HepData, MoreFilesThanDescriptors) {
  const ScratchFolder folder;
  constexpr std::int64_t kFiles = 150;
  write_sc17(folder / "chunk0.h5");
  for (std::int64_t i = 1; i < kFiles; ++i) {
    std::filesystem::copy(folder / "chunk0.h5", folder / fmt::format("chunk{}.h5", i));
  }
  HepDataOptions options;
  options.cache_bytes = 0;
  const std::ptrdiff_t before = descriptors();
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit low = {static_cast<rlim_t>(before) + kFiles, usual.rlim_max};  // a file open for reading takes two
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    const HepData data = open_hep(options, {folder / "chunk*.h5"});
    EXPECT_EQ(descriptors(), before);
    const auto read_all = [&](std::int64_t step) {
      for (std::int64_t i = step > 0 ? 0 : kFiles - 1; i >= 0 && i < kFiles; i += step) {
        expect_values(data, 3, i * kEvents);
      }
    };
    std::thread backwards([&] { read_all(-1); });
    read_all(1);
    backwards.join();
    EXPECT_GT(descriptors(), before);  // the last ones are kept
  }
  EXPECT_EQ(descriptors(), before);
  options.cache_bytes = std::int64_t{1} << 30;
  const HepData held = open_hep(options, {folder / "chunk*.h5"});
  EXPECT_EQ(descriptors(), before);
  expect_values(held, 3, (kFiles - 1) * kEvents);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
}

TEST(HepData, AFileThatIsAnotherOneNowIsRefused) {
  const ScratchFolder folder;
  write_sc17(folder / "a.h5");
  HepDataOptions options;
  options.cache_bytes = 0;
  const HepData data = open_hep(options, {folder / "a.h5"});
  write_sc17(folder / "a.h5", 3);
  std::vector<float> pixels(static_cast<std::size_t>(data.sample_elements()));
  EXPECT_HOLDS(error_of([&] { test::read_f32(data, 0, pixels); }),
               "a.h5 has changed: its data set data is float32 (10, 3, 3, 6)");
}

TEST(RecentlyUsed, KeepsTheLast) {
  RecentlyUsed<int> kept(2);
  int made = 0;
  const auto get = [&](std::int64_t key) { return *kept.get(key, [&] { return ++made; }); };
  EXPECT_EQ(get(7), 1);
  EXPECT_EQ(get(8), 2);
  EXPECT_EQ(get(7), 1);
  EXPECT_EQ(get(9), 3);  // in the place of 8
  EXPECT_EQ(get(7), 1);
  EXPECT_EQ(get(8), 4);  // in the place of 9
  EXPECT_THROW(kept.get(5, []() -> int { user_error("no"); }), Error);
  EXPECT_EQ(get(8), 4);
}

TEST(Files, WhatIsNotThereIsSaid) {
  const ScratchFolder folder;
  const auto error = [&](const std::string& name) {
    return error_of([&] { expand_files({folder / name}, "data.train"); });
  };
  EXPECT_HOLDS(error("a.h5"),
               "data.train: " + folder / "a.h5" + " does not exist; set data.train to where your files are");
  EXPECT_HOLDS(error("*.h5"), "data.train: no file matches " + folder / "*.h5" + "; set data.train to where");
  EXPECT_HOLDS(error("none/deep/*.h5"), "no file matches " + folder / "none/deep/*.h5" + ": there is no folder " +
                                            folder / "none" + "; set data.train");
  std::filesystem::create_symlink("loop.h5", folder / "loop.h5");
  std::filesystem::create_symlink("loop[1].h5", folder / "loop[1].h5");
  EXPECT_HOLDS(error("loop.h5"), "loop.h5 cannot be opened: Too many levels of symbolic links");
  EXPECT_HOLDS(error("loop[1].h5"), "no file matches");
  std::filesystem::create_symlink("gone.h5", folder / "link.h5");
  EXPECT_HOLDS(error("link.h5"), "link.h5 is a link to gone.h5, which does not exist");
}

TEST(Files, NaturalOrder) {
  EXPECT_TRUE(natural_less("chunk9", "chunk10"));
  EXPECT_FALSE(natural_less("chunk10", "chunk9"));
  EXPECT_TRUE(natural_less("a2b10", "a2b11"));
  EXPECT_TRUE(natural_less("a", "a1"));
  EXPECT_TRUE(natural_less("b01", "b1") != natural_less("b1", "b01"));
  EXPECT_FALSE(natural_less("b1", "b1"));
}

}  // namespace
}  // namespace petaflow
