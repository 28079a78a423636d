// HEP data sets: what is wrong with a file or an option is said in one sentence, wherever a file is cut.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/hep.hpp"
#include "hep_files.hpp"
#include "read_sample.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using namespace test;

TEST(HepData, WhatIsWrongWithAFileIsSaid) {
  const ScratchFolder folder;
  const auto open = [&](const std::string& path) { return error_of([&] { open_hep({}, {path}); }); };
  const auto damage = [&](const std::string& name, const std::function<void(Hdf5File&)>& add) {
    auto file = Hdf5File::create(folder / name);
    add(file);
    file.close();
    return open(folder / name);
  };
  const std::vector<float> images(kEvents * 24), labels = column_of(kLabel);
  EXPECT_HOLDS(damage("a.h5", [&](Hdf5File& f) { f.write<float>("all_events/hist", {10, 4, 6}, images); }),
               "has no labels: data set all_events/y or all_events/labels (1 signal, 0 background, one number per "
               "event); it holds /all_events/hist");
  EXPECT_HOLDS(damage("b.h5", [&](Hdf5File& f) { f.write<float>("all_events/y", {10}, labels); }),
               "has neither all_events/images nor all_events/hist; it holds /all_events/y");
  EXPECT_HOLDS(damage("c.h5", [&](Hdf5File& f) { f.write<float>("all_events/hist", {10, 24}, images); }),
               "data set all_events/hist is float32 (10, 24); numbers (N, H, W) were expected");
  EXPECT_HOLDS(damage("d.h5",
                      [&](Hdf5File& f) {
                        f.write<float>("all_events/hist", {10, 4, 6}, images);
                        f.write<float>("all_events/y", {9}, {labels.data(), 9});
                      }),
               "data set all_events/y is float32 (9); 10 numbers, one per event, were expected");
  EXPECT_HOLDS(damage("e.h5",
                      [&](Hdf5File& f) {
                        f.write<float>("data", {10, 1, 4, 6}, images);
                        f.write<float>("label", {10}, column_of([](auto i) { return i == 6 ? 2.0F : 0.0F; }));
                      }),
               "label of event 6 is 2; 0 or 1 was expected");
  EXPECT_HOLDS(damage("f.h5",
                      [&](Hdf5File& f) {
                        f.write<float>("data", {10, 1, 4, 6}, images);
                        f.write<float>("label", {10}, labels);
                        f.write<float>("weight", {10}, column_of([](auto i) { return i == 3 ? NAN : 1.0F; }));
                      }),
               "weight of event 3 is nan");
  EXPECT_HOLDS(damage("g.h5", [&](Hdf5File& f) { f.create_dataset("all_events/hist", {0, 4, 6}); }),
               "(0, 4, 6) is empty");
  EXPECT_HOLDS(damage("h.h5",
                      [&](Hdf5File& f) {
                        f.write<float>("all_events/hist", {10, 4, 6}, images);
                        f.write<float>("all_events/histEM", {10, 6, 4}, images);
                      }),
               "channels must have one size");
  write_sc17(folder / "small1.h5");
  write_sc17(folder / "small2.h5", 3);
  EXPECT_HOLDS(open(folder / "small?.h5"), "has images 3 x 3 x 6,");
  write_all_events(folder / "all.h5");
  EXPECT_HOLDS(error_of([&] { open_hep({}, {folder / "small1.h5", folder / "all.h5"}); }),
               "all.h5 has the layout all_events, " + folder / "small1.h5" + " sc17: all files of a set must agree");
  EXPECT_HOLDS(damage("images.h5", [&](Hdf5File& f) { f.write<float>("all_events/images", {10, 1, 4, 6}, images); }),
               "images.h5 has no labels: data set all_events/y or all_events/labels (1 signal, 0 background, one "
               "number per event); "
               "it holds /all_events/images");
  EXPECT_HOLDS(damage("zeros.h5",
                      [&](Hdf5File& f) {
                        f.write<float>("all_events/images", {10, 1, 4, 6}, images);
                        f.write<float>("all_events/labels", {10}, labels);
                      }),
               "zeros.h5: the images are zero everywhere (10 of 10 looked at)");
  HepDataOptions role;
  role.labels = HepLabels::kAny;
  EXPECT_HOLDS(error_of([&] { open_hep(role, {folder / "zeros.h5"}); }), "the images are zero everywhere");
  role.labels = HepLabels::kOptional;
  EXPECT_NO_THROW(open_hep(role, {folder / "zeros.h5"}));
  EXPECT_HOLDS(open(folder / "none*.h5"), "no file matches");
  EXPECT_HOLDS(error_of([&] { open_hep({}, {}); }), "data.train names no file");
  EXPECT_HOLDS(error_of([&] { open_hep({}, {folder / "all.h5", folder / "al*.h5"}); }), "twice");
}

TEST(HepData, WrongOptionsAreRefused) {
  const ScratchFolder folder;
  write_all_events(folder / "a.h5");
  const auto refused = [&](const std::function<void(HepDataOptions&)>& change) {
    HepDataOptions options;
    change(options);
    return error_of([&] { open_hep(options, {folder / "a.h5"}); });
  };
  EXPECT_HOLDS(refused([](auto& o) { o.file.format = std::string("csv"); }), "data.format is \"csv\"");
  EXPECT_HOLDS(refused([](auto& o) { o.file.channels = 4; }), "has 3 channels; data.channels is 4");
  EXPECT_HOLDS(refused([](auto& o) { o.crop = {5, 0}; }), "crop keeps 5 rows of 4");
  EXPECT_HOLDS(refused([](auto& o) { o.transforms = {"log"}; }), "data.transforms names \"log\"");
  EXPECT_HOLDS(refused([](auto& o) { o.transforms = {}; }), "data.transforms is empty");
  EXPECT_HOLDS(refused([](auto& o) { o.units = {1, 2}; }), "data.units has 2 numbers for 3 channels");
  EXPECT_HOLDS(refused([](auto& o) { o.units = {0}; }), "data.units has 0");
  EXPECT_HOLDS(refused([](auto& o) { o.scale = std::string("mean"); }), "data.normalise is \"mean\"");
  EXPECT_HOLDS(refused([](auto& o) { o.loss_weight = std::string("w"); }), "loss_weight is \"w\"");
  EXPECT_HOLDS(refused([](auto& o) { o.loss_weight = std::string("normweight"); }), "has no normweight for the loss");
  EXPECT_HOLDS(refused([](auto& o) {
                 o.scale = std::string("max");
                 o.maxima = {1};
               }),
               "data.maxima has 1 number for 3 channels");
  EXPECT_HOLDS(refused([](auto& o) {
                 o.scale = std::string("max");
                 o.maxima = {1, 0, 1};
               }),
               "data.maxima has 0; a number above 0");
}

TEST(HepData, PixelsThatAreNoNumbersAreNamed) {
  const ScratchFolder folder;
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    auto pixels = pixels_in("nhw", 1);
    pixels[7 * 24 + 2 * 6 + 5] = bad;
    write_class_file(folder / "bkg.h5", pixels);
    write_class_file(folder / "sig.h5", pixels_in("nhw", 1));
    HepDataOptions options;
    options.file.dataset = "towers";
    options.file.signal = "sig*";
    options.file.background = "bkg*";
    const std::string sentence = fmt::format("bkg.h5: event 7 has the value {} at channel 0, row 2, column 5", bad);
    const std::vector<std::string> files = {folder / "sig.h5", folder / "bkg.h5"};
    EXPECT_HOLDS(error_of([&] { open_hep(options, files); }), sentence);
    options.cache_bytes = 0;
    const HepData data = open_hep(options, files);
    std::vector<float> image(24);
    test::read_f32(data, kEvents + 6, image);
    EXPECT_HOLDS(error_of([&] { test::read_f32(data, kEvents + 7, image); }), sentence);
    EXPECT_HOLDS(error_of([&] { check_samples(data, all_of(data)); }), sentence);
    options.crop = {2, 0};  // what is cut away does not matter
    const HepData cut = open_hep(options, files);
    check_samples(cut, all_of(cut));
  }
}

// A real file in the oldest HDF5 format, cut: an error when it is opened, wherever the cut is.
TEST(HepData, TruncatedRealFile) {
  const auto file = test::samples_folder() / "hep" / "user._000118.ZvvHbb.hdf5";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "NO REAL DATA: " << file << " does not exist (PETAFLOW_SAMPLES)";
  const ScratchFolder folder;
  const std::string bytes = test::read_bytes(file);
  HepDataOptions options;
  options.file.dataset = "gTowerEt";
  options.file.signal = "*";
  options.labels = HepLabels::kAny;
  for (std::size_t size = 0; size < bytes.size(); size = size < 3000 ? size + 37 : size * 5 / 4) {
    test::write_bytes(folder / "cut.h5", bytes.substr(0, size));
    EXPECT_THROW(open_hep(options, {folder / "cut.h5"}), Error) << "cut to " << size;
  }
  test::write_bytes(folder / "whole.h5", bytes);
  EXPECT_EQ(open_hep(options, {folder / "whole.h5"}).size(), 250);
}

}  // namespace
}  // namespace petaflow
