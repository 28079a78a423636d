// Checkpoints: what is saved is loaded, damage is found, an old file survives a failed save.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <numeric>

#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "scratch_folder.hpp"

/// HDF5 itself loses memory when it meets damaged metadata: not ours to mend.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace petaflow {
namespace {

using test::error_of;
using test::ScratchFolder;

NamedArray array_of(const std::string& name, const std::vector<std::int64_t>& dims, float first) {
  const auto n = std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
  NamedArray array{name, dims, std::vector<float>(static_cast<std::size_t>(n))};
  std::iota(array.values.begin(), array.values.end(), first);
  return array;
}

Checkpoint small_checkpoint() {
  return {"5 convolutions",
          "[model]\nfilters = 128\n",
          R"({"commit": "abc"})",
          {array_of("conv1/weight", {4, 3, 3, 3}, 0.25F), array_of("conv1/bias", {4}, -7),
           array_of("fc/weight", {2, 64}, 99)}};
}

TEST(Checkpoint, WhatIsSavedIsLoaded) {
  const ScratchFolder folder;
  Checkpoint saved = small_checkpoint();
  saved.config += std::string(100000, '#');
  saved.training = R"({"step": 7})";
  saved.training_arrays = {array_of("optimizer/exp_avg/fc/weight", {2, 64}, 5)};
  save_checkpoint(folder / "c.h5", saved);
  save_checkpoint(folder / "c.h5", saved);  // replaces
  EXPECT_EQ(folder.files(), 1U);
  const Checkpoint loaded = load_checkpoint(folder / "c.h5");
  EXPECT_EQ(loaded.model, saved.model);
  EXPECT_EQ(loaded.config, saved.config);
  EXPECT_EQ(loaded.provenance, saved.provenance);
  EXPECT_EQ(loaded.training, saved.training);
  EXPECT_TRUE(loaded.checked);
  ASSERT_EQ(loaded.training_arrays.size(), 1U);
  EXPECT_EQ(loaded.training_arrays[0].name, "optimizer/exp_avg/fc/weight");
  EXPECT_EQ(loaded.training_arrays[0].values, saved.training_arrays[0].values);
  ASSERT_EQ(loaded.weights.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(loaded.weights[i].name, saved.weights[i].name);
    EXPECT_EQ(loaded.weights[i].dims, saved.weights[i].dims);
    EXPECT_EQ(loaded.weights[i].values, saved.weights[i].values);
  }
}

TEST(Checkpoint, ChecksumIsThatOfZlibOverTheBytes) {
  const ScratchFolder folder;
  Checkpoint one;
  one.weights = {{"a/b", {2}, {1.0F, -2.5F}}};
  save_checkpoint(folder / "c.h5", one);
  // python: hex(zlib.crc32(struct.pack("<2f", 1, -2.5)))
  EXPECT_EQ(Hdf5File::open(folder / "c.h5").integer_attribute("weights/a/b", "crc32"), 0x560302f4);
}

TEST(Checkpoint, ADamagedDataSetIsNamed) {
  const ScratchFolder folder;
  const Checkpoint saved = small_checkpoint();
  save_checkpoint(folder / "c.h5", saved);
  std::string bytes = test::read_bytes(folder / "c.h5");
  const auto& bias = saved.weights[1].values;
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(bias.data()), bias.size() * 4));
  ASSERT_NE(at, std::string::npos);
  bytes[at + 5] = static_cast<char>(bytes[at + 5] ^ 1);
  test::write_bytes(folder / "c.h5", bytes);
  EXPECT_HOLDS(error_of([&] { load_checkpoint(folder / "c.h5"); }),
               "is corrupt: data set /weights/conv1/bias has checksum");
}

// A byte that is wrong anywhere is an error or harmless; it never changes a weight, crashes or hangs.
TEST(Checkpoint, AWrongByteNeverChangesAWeight) {
  const ScratchFolder folder;
  const Checkpoint saved = small_checkpoint();
  save_checkpoint(folder / "c.h5", saved);
  const std::string bytes = test::read_bytes(folder / "c.h5");
  int refused = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    std::string wrong = bytes;
    wrong[at] = static_cast<char>(wrong[at] ^ 0x55);
    test::write_bytes(folder / "wrong.h5", wrong);
    try {
      const Checkpoint loaded = load_checkpoint(folder / "wrong.h5");
      EXPECT_TRUE(loaded.checked);
      ASSERT_EQ(loaded.weights.size(), 3U) << "byte " << at;
      for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(loaded.weights[i].values, saved.weights[i].values) << "byte " << at;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Checkpoint, TruncatedAnywhereIsAnError) {
  const ScratchFolder folder;
  save_checkpoint(folder / "c.h5", small_checkpoint());
  const std::string bytes = test::read_bytes(folder / "c.h5");
  for (std::size_t size = 0; size < bytes.size(); size += 31) {
    test::write_bytes(folder / "cut.h5", bytes.substr(0, size));
    EXPECT_THROW(load_checkpoint(folder / "cut.h5"), Error) << "cut to " << size;
  }
}

TEST(Checkpoint, MissingNewerAndForeignFiles) {
  const ScratchFolder folder;
  const auto load = [&](const std::string& name) { return error_of([&] { load_checkpoint(folder / name); }); };
  EXPECT_HOLDS(load("none.h5"), "does not exist");
  {
    auto file = Hdf5File::create(folder / "newer.h5");
    file.set_attribute("/", "petaflow_schema", std::int64_t{3});
    auto data = Hdf5File::create(folder / "data.h5");
    data.write<float>("images", {1}, std::vector<float>{1});
    auto lacking = Hdf5File::create(folder / "lacking.h5");
    lacking.write<float>("weights/a/weight", {1}, std::vector<float>{1});
    lacking.set_attribute("/", "weight_names", std::string("a/weight\na/bias\n"));
    auto foreign = Hdf5File::create(folder / "foreign.h5");
    foreign.write<double>("weights/fc/weight", {1, 2}, std::vector<double>{0.5, 1.5}, {Hdf5Type::kF64});
    foreign.write<float>("weights/conv/bias", {1}, std::vector<float>{2});
  }
  EXPECT_HOLDS(load("newer.h5"), "written by a newer petaflow: its schema is 3, this program knows up to 2");
  EXPECT_HOLDS(load("data.h5"), "is not a checkpoint");
  EXPECT_HOLDS(load("lacking.h5"), "has no data set /weights/a/bias; it holds /weights/a/weight");
  const Checkpoint foreign = load_checkpoint(folder / "foreign.h5");
  EXPECT_FALSE(foreign.checked);
  ASSERT_EQ(foreign.weights.size(), 2U);
  EXPECT_EQ(foreign.weights[0].name, "conv/bias");
  EXPECT_EQ(foreign.weights[1].values, (std::vector<float>{0.5F, 1.5F}));
}

TEST(Checkpoint, AFailedSaveLeavesTheOldFile) {
  const ScratchFolder folder;
  EXPECT_HOLDS(error_of([&] { save_checkpoint(folder / "no/c.h5", small_checkpoint()); }), "No such file");
  save_checkpoint(folder / "c.h5", small_checkpoint());
  Checkpoint large = small_checkpoint();
  large.weights.push_back(array_of("large/weight", {300000}, 0));
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{200000, old.rlim_max};  // stands for a full disk
  setrlimit(RLIMIT_FSIZE, &limit);
  const std::string message = error_of([&] { save_checkpoint(folder / "c.h5", large); });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_HOLDS(message, "cannot be written: is the disk full?");
  EXPECT_EQ(folder.files(), 1U);
  EXPECT_EQ(load_checkpoint(folder / "c.h5").weights.size(), 3U);
  save_checkpoint(folder / "c.h5", large);  // works again when there is room
  EXPECT_EQ(load_checkpoint(folder / "c.h5").weights.size(), 4U);
}

TEST(Checkpoint, AnotherModelIsDescribed) {
  const Checkpoint checkpoint = small_checkpoint();
  std::vector<NamedDims> model = {{"fc/weight", {2, 64}}, {"conv1/bias", {4}}, {"conv1/weight", {4, 3, 3, 3}}};
  const auto matched = match_arrays(checkpoint.weights, model, "c.h5");
  EXPECT_EQ(matched, (std::vector{&checkpoint.weights[2], &checkpoint.weights[1], &checkpoint.weights[0]}));
  model[0].dims = {2, 128};
  EXPECT_EQ(error_of([&] { match_arrays(checkpoint.weights, model, "c.h5"); }),
            "c.h5 is a checkpoint of another model: fc/weight is (2, 64), the model has (2, 128)");
  model[1].name = "conv2/bias";
  model.push_back({"fc/bias", {2}});
  EXPECT_EQ(error_of([&] { match_arrays(checkpoint.weights, model, "c.h5"); }),
            "c.h5 is a checkpoint of another model: fc/weight is (2, 64), the model has (2, 128); conv2/bias is "
            "missing; fc/bias "
            "is missing; and 1 more differences");
}

}  // namespace
}  // namespace petaflow
