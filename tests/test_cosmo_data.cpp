// Cubes of counts in HDF5 and NumPy's files, and their symmetries: small files whose counts say where they are.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "base/random.hpp"
#include "cosmo_files.hpp"
#include "data/cosmo.hpp"
#include "data/loader.hpp"
#include "io/gzip.hpp"
#include "io/tf_example.hpp"
#include "io/tfrecord.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using namespace test;

/// Each sample of a cube of places that is cut into eight, with the first two channels and two of the labels.
void expect_places(const CosmoDataOptions& options, const std::string& file) {
  const CosmoData data = open_cosmo(options, {file});
  ASSERT_EQ(data.size(), 8);
  for (std::int64_t i = 0; i < 8; ++i) {
    const Cube cube = read_cube(data, i);
    EXPECT_EQ(cube.targets, (std::vector<float>{0.3F, 0.1F}));
    std::size_t at = 0;
    for (int d = 0; d < 4; ++d)
      for (int h = 0; h < 4; ++h)
        for (int w = 0; w < 4; ++w)
          for (int c = 0; c < 2; ++c) {
            ASSERT_EQ(cube.counts[at++], count_at(i / 4 * 4 + d, i / 2 % 2 * 4 + h, i % 2 * 4 + w, c)) << file << i;
          }
  }
}

class CosmoFiles : public testing::Test {
 protected:
  CosmoDataOptions quarter() const {
    CosmoDataOptions options;
    options.edge = 4;
    options.channels = 2;
    options.parameters = {2, 0};
    return options;
  }
  ScratchFolder folder;
};

TEST_F(CosmoFiles, EveryLayoutIsCutAlike) {
  const auto counts = cube_of_places();
  const std::vector<std::pair<std::string, Hdf5Storage>> stored = {
      {"plain.h5", {Hdf5Type::kI16}},
      {"chunks.h5", {Hdf5Type::kI16, {3, 5, 2, 3}}},
      {"gzip.h5", {Hdf5Type::kI16, {3, 5, 8, 1}, 4}},
      {"shuffled.hdf5", {Hdf5Type::kI16, {8, 3, 2, 4}, 6, true}}};
  for (const auto& [name, storage] : stored) {
    write_cosmo_hdf5(folder / name, storage, counts);
    expect_places(quarter(), folder / name);
    write_cosmo_hdf5(folder / ("universe_" + name), storage, counts, "full", "unitPar");
    expect_places(quarter(), folder / ("universe_" + name));
  }
  write_npy(folder / "cube_data.npy", "<i2", "(8, 8, 8, 4)", bytes_of(counts));
  write_npy(folder / "cube_label.npy", "<f4", "(4,)", bytes_of(kLabels));
  expect_places(quarter(), folder / "cube*.npy");
}

TEST_F(CosmoFiles, UniversesAreToldByTheirNames) {
  for (const char* name : {"s_a1_000.h5", "s_a1_001.h5", "s_a2_000.h5"}) {
    write_cosmo_hdf5(folder / name, {Hdf5Type::kI16}, cube_of_places());
  }
  CosmoDataOptions options = quarter();
  options.edge = 8;
  EXPECT_EQ(open_cosmo(options, {folder / "*.h5"}).universes(), (std::vector<std::int64_t>{0, 0, 1}));
  const auto universes = [&](std::vector<std::string> files) {
    return CosmoData(options, {"tfrecord", 8, 4, std::move(files)}).universes();
  };
  EXPECT_EQ(universes({"a1_000.tfrecord.gz", "a1_001.tfrecord.gz", "a2_000.tfrecord.gz"}),
            (std::vector<std::int64_t>{0, 0, 1}));
  EXPECT_EQ(universes({"sim_0001.tfrecord", "sim_0002.tfrecord"}), (std::vector<std::int64_t>{0, 1}));
}

/// Bytes that HDF5 has stored of a data set, fewer than the numbers' where they are packed.
std::int64_t stored_bytes(const std::string& path, const char* name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), set = H5Dopen2(file, name, H5P_DEFAULT);
  const auto bytes = static_cast<std::int64_t>(H5Dget_storage_size(set));
  H5Dclose(set);
  H5Fclose(file);
  return bytes;
}

TEST_F(CosmoFiles, LoadersCountTheBytesOfFiles) {
  constexpr int kFiles = 6;
  constexpr std::int64_t kCounts = std::int64_t{32} * 32 * 32 * 4;
  RandomSequence random(random_stream(3, RandomPurpose::kGenerate), 0);
  const std::vector<float> y = {0.1F, -0.2F, 0.3F, -0.4F};
  std::map<std::string, std::int64_t> expected;  // of each layout
  for (int i = 0; i < kFiles; ++i) {
    std::vector<std::int16_t> counts;
    for (std::int64_t j = 0; j < kCounts; ++j) counts.push_back(static_cast<std::int16_t>(random.below(200)));
    const std::string_view bytes(reinterpret_cast<const char*>(counts.data()), 2 * counts.size());
    const std::string record = tfrecord(tf_example({{"x", {{bytes}, {}, {}}}, {"y", {{}, y, {}}}}));
    const auto write = [&](const std::string& name, const std::string& text) {
      test::write_bytes(folder / (name + std::to_string(i) + ".tfrecord"), text);
      expected[name + "*.tfrecord"] += std::ssize(text);
    };
    write("plain", record);
    write("packed", gzipped(record));
    write_npy(folder / (std::to_string(i) + "_data.npy"), "<i2", "(32, 32, 32, 4)", bytes_of(counts));
    write_npy(folder / (std::to_string(i) + "_label.npy"), "<f4", "(4,)", bytes_of(y));
    expected["*_data.npy"] += std::ssize(bytes);
    const std::pair<std::string, Hdf5Storage> layouts[] = {{"rows", {Hdf5Type::kI16}},
                                                           {"chunks", {Hdf5Type::kI16, {16, 16, 16, 4}, 4}}};
    for (const auto& [name, storage] : layouts) {
      const std::string path = folder / (name + std::to_string(i) + ".h5");
      Hdf5File file = Hdf5File::create(path);
      file.write<std::int32_t>("x", {32, 32, 32, 4}, std::vector<std::int32_t>(counts.begin(), counts.end()), storage);
      file.write<float>("y", {4}, y);
      file.close();
      expected[name + "*.h5"] += stored_bytes(path, "x");
    }
  }
  EXPECT_LT(expected["packed*.tfrecord"], expected["plain*.tfrecord"]);
  EXPECT_LT(expected["chunks*.h5"], expected["rows*.h5"]);
  for (const auto& [files, bytes] : expected) {
    const CosmoData data = open_cosmo(whole_cubes(32), {folder / files});
    Loader loader(data, {.global_batch = 2, .end = 2, .threads = 2});
    EXPECT_EQ(loader.bytes_read(), 0) << files;
    loader.start_epoch(0);
    for (int step = 0; step < kFiles / 2; ++step) loader.next();
    // Records are read as a whole; around the other cubes lie headers and labels.
    const std::int64_t around = files.ends_with(".tfrecord") ? 0 : kFiles * std::int64_t{8192};
    EXPECT_GE(loader.bytes_read(), bytes) << files;
    EXPECT_LE(loader.bytes_read(), bytes + around) << files;
  }
}

TEST_F(CosmoFiles, Refusals) {
  auto counts = cube_of_places();
  write_cosmo_hdf5(folder / "good.h5", {Hdf5Type::kI16}, counts);
  write_cosmo_hdf5(folder / "bare.h5", {Hdf5Type::kI16}, counts, "x", "");
  write_cosmo_hdf5(folder / "wide.h5", {Hdf5Type::kI32}, counts);
  counts[((5 * 8 + 2) * 8 + 7) * 4 + 1] = -5;
  write_cosmo_hdf5(folder / "negative.h5", {Hdf5Type::kI16}, counts);
  {
    Hdf5File file = Hdf5File::create(folder / "flat.h5");
    file.write<float>("x", {2, 3}, std::vector<float>(6));
    file.write<float>("y", {1}, std::vector<float>(1));
    file.close();
  }
  {
    Hdf5File file = Hdf5File::create(folder / "labels.h5");
    file.create_dataset("x", {8, 8, 8, 4}, {Hdf5Type::kI16});
    file.create_dataset("y", {1 << 20, 1 << 20}, {Hdf5Type::kF32, {16, 16}});
    file.close();
  }
  const auto error = [&](const CosmoDataOptions& options, const std::vector<std::string>& files, std::int64_t sample) {
    return error_of([&] {
      std::vector<std::string> paths;
      for (const std::string& file : files) paths.push_back(folder / file);
      read_cube(open_cosmo(options, paths), sample);
    });
  };
  CosmoDataOptions options = quarter();
  EXPECT_HOLDS(error(options, {"negative.h5"}, 5), "negative.h5: the count at (5, 2, 7, 1) is -5");
  EXPECT_HOLDS(error(options, {"wide.h5"}, 0),
               "data set x is integer32 (8, 8, 8, 4); integers of 16 bits were expected");
  EXPECT_HOLDS(error(options, {"bare.h5"}, 0), "bare.h5 has no data set y; it holds /x");
  EXPECT_HOLDS(error(options, {"flat.h5"}, 0), "flat.h5: the counts are (2, 3); a cube");
  EXPECT_HOLDS(error(options, {"good.h5", "flat.h5"}, 8), "flat.h5: the counts are (2, 3); they are (8, 8, 8, 4) in ");
  EXPECT_HOLDS(error(options, {"labels.h5"}, 0),
               "data set y is float32 (1048576, 1048576); the labels of one cube were expected");
  EXPECT_HOLDS(error(options, {"none.h5"}, 0), "none.h5 does not exist");
  for (const std::int64_t edge : {3, 16, 4096}) {
    options.edge = edge;
    EXPECT_HOLDS(error(options, {"good.h5"}, 0), "cubes of edge 8 cannot be cut into cubes of edge " +
                                                     std::to_string(edge) +
                                                     " (data.edge); data.edge = 8 takes them whole");
  }
  options = quarter();
  options.channels = 5;
  EXPECT_HOLDS(error(options, {"good.h5"}, 0), "the cubes have 4 channels; data.channels is 5");
  options.as_it_is = true, options.edge = 3;
  EXPECT_EQ(open_cosmo(options, {folder / "good.h5"}).sample_dims(), (std::array<std::int64_t, 4>{4, 8, 8, 8}));
  options = quarter();
  options.parameters = {7};
  EXPECT_HOLDS(error(options, {"good.h5"}, 0), "4 labels; label 8 is asked for");
  options = quarter();
  options.labels_optional = true;
  const Cube unknown = read_cube(open_cosmo(options, {folder / "bare.h5"}), 3);
  EXPECT_EQ(unknown.weight, 0);
  EXPECT_TRUE(std::isnan(unknown.targets[0]));

  // NumPy's files.
  options = quarter();
  const std::vector<float> logs(8 * 8 * 8 * 4);
  write_npy(folder / "log_data.npy", "<f4", "(8, 8, 8, 4)", bytes_of(logs));
  EXPECT_HOLDS(error(options, {"log_data.npy"}, 0),
               "the numbers are <f4; counts of particles are signed integers of 16 bits");
  write_npy(folder / "short_data.npy", "<i2", "(8, 8, 8, 4)", std::string(100, '\0'));
  EXPECT_HOLDS(error(options, {"short_data.npy"}, 0), "short_data.npy is truncated");
  std::ofstream(folder / "long_data.npy")
      << std::string("\x93NUMPY\x02\0\0\0\1\0{'descr': '", 23) << std::string(65536, 'a');
  EXPECT_HOLDS(error(options, {"long_data.npy"}, 0), "long_data.npy is damaged: its header claims 65536 bytes");
  std::ofstream(folder / "text_data.npy") << "not an array";
  EXPECT_HOLDS(error(options, {"text_data.npy"}, 0), "text_data.npy is not a file of NumPy");
  const auto shaped = [&](const std::string& type, const std::string& shape) {
    write_npy(folder / "shape_data.npy", type, shape, bytes_of(counts));
    return error(options, {"shape_data.npy"}, 0);
  };
  EXPECT_HOLDS(shaped("<i2", "(8, 8, 8, 5)"), "is truncated: it has 2048 of its (8, 8, 8, 5) elements of 2 bytes");
  EXPECT_HOLDS(shaped("<i2", "(4294967296, 4294967296, 4294967296, 4)"), "shape_data.npy is truncated");
  EXPECT_HOLDS(shaped("<i2", "(8, 8, 288230376151711744, 4)"), "shape_data.npy is truncated");  // 2^64 and more
  EXPECT_HOLDS(shaped("<i2", "(8, 8, 99999999999999999999999999)"), "shape_data.npy is truncated");
  EXPECT_HOLDS(shaped("<i2", "(0, 0, 0, 4)"), "an array of (0, 0, 0, 4) has no elements");
  EXPECT_HOLDS(shaped("<i2", "(8, 256)"), "the counts are (8, 256); a cube with channels last was expected");
  EXPECT_HOLDS(shaped("<u2", "(8, 8, 8, 4)"),
               "the numbers are <u2; integers of 8 bits, signed ones of 16, 32 or 64 bits, f32 and f64 are read; in "
               "Python: numpy.save(name, array.astype('<i2'))");
}

TEST_F(CosmoFiles, ArraysOfNumpyInOtherTypesAndOrders) {
  const auto read = [&] { return read_cube(open_cosmo(whole_cubes(8), {folder / "n_data.npy"}), 0); };
  const auto big_endian = [](std::string bytes, std::size_t size) {
    for (std::size_t at = 0; at < bytes.size(); at += size) std::reverse(&bytes[at], &bytes[at] + size);
    return bytes;
  };
  const std::string counts = bytes_of(cube_of_places());
  const std::vector<double> wide(kLabels.begin(), kLabels.end());
  write_npy(folder / "n_data.npy", ">i2", "(8, 8, 8, 4)", big_endian(counts, 2));
  write_npy(folder / "n_label.npy", ">f4", "(4,)", big_endian(bytes_of(kLabels), 4));
  EXPECT_EQ(read().counts, cube_of_places());
  EXPECT_EQ(read().targets, kLabels);
  for (const char* type : {"<f8", ">f8"}) {
    write_npy(folder / "n_label.npy", type, "(4,)", *type == '<' ? bytes_of(wide) : big_endian(bytes_of(wide), 8),
              true);  // a line has one order
    EXPECT_EQ(read().targets, kLabels);
  }
  write_npy(folder / "n_label.npy", "<i4", "(4,)", std::string(16, '\0'));
  EXPECT_HOLDS(error_of(read), "n_label.npy: the numbers are <i4; ");
  write_npy(folder / "n_label.npy", "<i2", "(4,)", std::string(8, '\0'));
  EXPECT_HOLDS(error_of(read),
               "n_label.npy: the numbers are <i2; labels are f32 or f64; in Python: numpy.save(name, "
               "array.astype('<f4'))");
  write_npy(folder / "n_label.npy", "<f4", "(4,)", std::string(20, '\0'));
  EXPECT_HOLDS(error_of(read), " bytes; its array of (4,) ends at byte ");
  std::filesystem::remove(folder / "n_label.npy");
  EXPECT_HOLDS(error_of(read), "n_data.npy has no labels: they were expected in ");
  write_npy(folder / "n_data.npy", "<i2", "(8, 8, 8, 4)", counts, true);
  EXPECT_HOLDS(error_of(read),
               "n_data.npy: the array lies in Fortran's order; in Python: numpy.save(name, "
               "numpy.ascontiguousarray(array))");
}

// The content of files goes before their names; all of a data set must be alike.
TEST_F(CosmoFiles, OtherFormatsAreNamed) {
  const auto counts = cube_of_places();
  write_cosmo_hdf5(folder / "a.h5", {Hdf5Type::kI16}, counts);
  write_cosmo_hdf5(folder / "universe", {Hdf5Type::kI16}, counts, "full", "unitPar");
  write_npy(folder / "a_data.npy", "<i2", "(8, 8, 8, 4)", bytes_of(counts));
  write_npy(folder / "a_label.npy", "<f4", "(4,)", bytes_of(kLabels));
  const std::string cube = bytes_of(counts);
  const std::string record = tfrecord(tf_example({{"x", {{cube}, {}, {}}}, {"y", {{}, kLabels, {}}}}));
  write_bytes(folder / "a.dat", record);
  write_bytes(folder / "packed.hdf5", gzipped(record));
  for (const char* name : {"a.h5", "universe", "a_data.npy", "a.dat", "packed.hdf5"}) {
    expect_places(quarter(), folder / name);
  }
  const auto refused = [&](const std::string& format, const std::vector<std::string>& names, std::int64_t sample,
                           const std::string& sentence) {
    CosmoDataOptions options = quarter();
    options.format = format;
    std::vector<std::string> files;
    for (const std::string& name : names) files.push_back(folder / name);
    EXPECT_HOLDS(error_of([&] { read_cube(open_cosmo(options, files), sample); }), folder / names.back() + sentence);
  };
  refused("tfrecord", {"a.h5"}, 0,
          " is an HDF5 file, to be read with data.format = \"hdf5\"; data.format is \"tfrecord\"");
  refused("universe", {"a.h5"}, 0, " is an HDF5 file, to be read with data.format = \"hdf5\"");
  refused("hdf5", {"universe"}, 0, " is an HDF5 file, to be read with data.format = \"universe\"");
  refused("hdf5", {"packed.hdf5"}, 0, " is a file of records, to be read with data.format = \"tfrecord\"");
  refused("npy", {"a.dat"}, 0, " is a file of records, to be read with data.format = \"tfrecord\"");
  refused("tfrecord", {"a_data.npy"}, 0, " is a file of NumPy, to be read with data.format = \"npy\"");
  refused("auto", {"a.h5", "a.dat"}, 8,
          " is a file of records, to be read with data.format = \"tfrecord\"; " + folder / "a.h5" +
              " is of \"hdf5\", and the files of a data set must be of one format");
  refused("auto", {"a.dat", "a.h5"}, 8, " is an HDF5 file, to be read with data.format = \"hdf5\"; ");
  refused("auto", {"a_data.npy", "a.h5"}, 8, " is an HDF5 file, to be read with data.format = \"hdf5\"; ");
  refused("auto", {"a.h5", "a_data.npy"}, 8, " is a file of NumPy, to be read with data.format = \"npy\"; ");
}

/// A cube of 8^3 x 4 of 16-bit integers of any kind; without counts it is never written.
void write_wide(const std::string& path, hid_t type, const std::vector<hsize_t>& chunk, std::int32_t fill,
                const std::vector<std::int32_t>& counts) {
  const hsize_t dims[4] = {8, 8, 8, 4};
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(4, dims, nullptr), made = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_fill_value(made, H5T_NATIVE_INT32, &fill);
  if (!chunk.empty()) {
    H5Pset_chunk(made, 4, chunk.data());
    H5Pset_deflate(made, 1);
  }
  const hid_t set = H5Dcreate2(file, "x", type, space, H5P_DEFAULT, made, H5P_DEFAULT);
  if (!counts.empty()) H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, counts.data());
  const hsize_t four = 4;
  const hid_t line = H5Screate_simple(1, &four, nullptr);
  const hid_t labels = H5Dcreate2(file, "y", H5T_IEEE_F32LE, line, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  H5Dwrite(labels, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, kLabels.data());
  H5Dclose(labels), H5Sclose(line), H5Dclose(set), H5Pclose(made), H5Sclose(space), H5Fclose(file);
}

const std::vector<std::vector<hsize_t>> kChunks = {{}, {3, 5, 8, 1}, {8, 8, 8, 4}};

TEST_F(CosmoFiles, UnsignedCountsAreReadAsFarAsTheyFit) {
  const auto places = cube_of_places();
  const std::vector<hid_t> types = {H5T_STD_U16LE, H5T_STD_U16BE, H5T_STD_I16BE};
  for (const hid_t type : types) {
    for (const auto& chunk : kChunks) {
      std::vector<std::int32_t> counts(places.begin(), places.end());
      write_wide(folder / "wide.h5", type, chunk, 0, counts);
      expect_places(quarter(), folder / "wide.h5");
      const std::size_t at = ((5 * 8 + 2) * 8 + 7) * 4 + 1;
      counts[at] = 32767;
      write_wide(folder / "wide.h5", type, chunk, 0, counts);
      EXPECT_EQ(std::ranges::max(read_cube(open_cosmo(quarter(), {folder / "wide.h5"}), 5).counts), 32767);
      if (H5Tget_sign(type) != H5T_SGN_NONE) continue;
      for (const std::int32_t large : {32768, 40000, 65535}) {
        counts[at] = large;
        write_wide(folder / "wide.h5", type, chunk, 0, counts);
        const CosmoData data = open_cosmo(quarter(), {folder / "wide.h5"});
        EXPECT_NO_THROW(read_cube(data, 4));
        EXPECT_HOLDS(error_of([&] { read_cube(data, 5); }),
                     "wide.h5: data set x: the number at (5, 2, 7, 1) is " + std::to_string(large) + "; at most 32767");
      }
    }
  }
}

TEST_F(CosmoFiles, WhatWasNeverWrittenIsTheFillValue) {
  const std::vector<hid_t> types = {H5T_STD_I16LE, H5T_STD_U16LE, H5T_STD_I16BE};
  for (const auto& chunk : kChunks) {
    for (const hid_t type : types) {
      for (const std::int32_t fill : {0, 3, 300}) {
        write_wide(folder / "empty.h5", type, chunk, fill, {});
        const CosmoData data = open_cosmo(quarter(), {folder / "empty.h5"});
        std::vector<std::int16_t> counts(4 * 4 * 4 * 2, 7);
        std::vector<float> targets(2);
        data.read(5, {std::as_writable_bytes(std::span(counts)), {std::as_writable_bytes(std::span(targets))}});
        EXPECT_EQ(counts, std::vector<std::int16_t>(counts.size(), static_cast<std::int16_t>(fill)));
      }
    }
    const auto error = [&](hid_t type, std::int32_t fill) {
      write_wide(folder / "empty.h5", type, chunk, fill, {});
      return error_of([&] { read_cube(open_cosmo(quarter(), {folder / "empty.h5"}), 7); });
    };
    EXPECT_HOLDS(error(H5T_STD_U16LE, 50000), "the number at (4, 4, 4, 0) is 50000");
    EXPECT_HOLDS(error(H5T_STD_I16LE, -1), "the count at (4, 4, 4, 0) is -1");
  }
}

TEST_F(CosmoFiles, TruncatedHdf5IsRefusedWhereverTheCutIs) {
  write_cosmo_hdf5(folder / "whole.h5", {Hdf5Type::kI16, {3, 5, 8, 1}, 4, true}, cube_of_places());
  const std::string bytes = read_bytes(folder / "whole.h5");
  for (std::size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 40) {
    write_bytes(folder / "cut.h5", bytes.substr(0, size));
    EXPECT_HOLDS(error_of([&] { read_cube(open_cosmo(quarter(), {folder / "cut.h5"}), 0); }), folder / "cut.h5");
  }
}

TEST(CubeSymmetry, AllFortyEightOccur) {
  std::vector<std::int16_t> cube;
  for (std::int16_t i = 0; i < 27; ++i) cube.insert(cube.end(), {i, static_cast<std::int16_t>(100 + i)});
  const CubeSymmetry symmetry({2, 3, 3, 3});
  std::map<std::vector<std::int16_t>, int> seen;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    std::vector<std::int16_t> image = cube;
    RandomSequence random(random_stream(1, RandomPurpose::kAugment), i);
    symmetry({std::as_writable_bytes(std::span(image))}, random);
    ++seen[image];
    EXPECT_EQ(image[2 * 13], 13);  // the centre stays
    for (std::size_t p = 0; p < 27; ++p) ASSERT_EQ(image[2 * p + 1], 100 + image[2 * p]);
    // Neighbours stay neighbours: distances along the axes are kept.
    for (const std::size_t step : {1U, 3U, 9U}) {
      const int distance = std::abs(image[2 * (13 + step)] - image[2 * 13]);
      ASSERT_TRUE(distance == 1 || distance == 3 || distance == 9);
    }
  }
  EXPECT_EQ(seen.size(), 48U);
  EXPECT_THROW(CubeSymmetry({1, 3, 3, 4}), Error);
}

TEST(CosmoData, ASetThatTeachesNothing) {
  const ScratchFolder folder;
  CosmoDataOptions options;
  options.edge = 8, options.parameters = {0, 1};
  const auto write = [&](const char* name, std::int16_t count, float label) {
    write_npy(folder / (std::string(name) + "_data.npy"), "<i2", "(8, 8, 8, 4)",
              bytes_of(std::vector<std::int16_t>(2048, count)));
    write_npy(folder / (std::string(name) + "_label.npy"), "<f4", "(4,)", bytes_of(std::vector<float>(4, label)));
  };
  const auto look_at = [&](bool to_learn_from) {
    const CosmoIndex index = scan_cosmo(options, {folder / "a_data.npy", folder / "b_data.npy"});
    refuse_failed_conversion(options, index, to_learn_from);
  };
  const auto look = [&] { look_at(true); };
  write("a", 0, 0.25F), write("b", 0, 0.5F);
  EXPECT_HOLDS(error_of(look), "a_data.npy: the counts are zero everywhere (2 of 2 looked at)");
  EXPECT_HOLDS(error_of([&] { look_at(false); }), "the counts are zero everywhere");
  write("b", 3, 0.25F);
  EXPECT_NO_THROW(look_at(false));
  EXPECT_HOLDS(error_of(look), "all samples have the same labels (2 of 2 looked at)");
  write("b", 3, 0.5F);
  EXPECT_NO_THROW(look());
}

TEST(CosmoData, SaysHowFilesAreCutAndWhatLabelsMean) {
  CosmoDataOptions options;
  options.edge = 4;
  options.parameters = {1};
  options.ranges = {{"Omega_m", "data.omega_m", 0.27, 0.33}, {"sigma_8", "data.sigma_8", 0.72, 0.88}};
  EXPECT_EQ(CosmoData(options, {"hdf5", 8, 4, {"a.h5"}}).notes(),
            (std::vector<std::string>{"the cubes of edge 8 in the files are cut into 8 of edge 4 each (data.edge)",
                                      "labels from -1 to 1 stand for sigma_8 in [0.72, 0.88] (data.sigma_8)"}));
  options.ranges.clear();
  EXPECT_EQ(CosmoData(options, {"hdf5", 4, 4, {"a.h5"}}).notes(), std::vector<std::string>());
}

TEST(CosmoData, SamplesKnowTheirFiles) {
  CosmoDataOptions options;
  options.edge = 4;
  const CosmoData data(options, {"hdf5", 8, 4, {"a.h5", "b.h5"}});  // opens none
  EXPECT_EQ(data.files(), (std::vector<std::string>{"a.h5", "b.h5"}));
  EXPECT_EQ(data.origin(7).file, 0);
  EXPECT_EQ(data.origin(7).index, 7);
  EXPECT_EQ(data.origin(13).file, 1);
  EXPECT_EQ(data.origin(13).index, 5);
}

}  // namespace
}  // namespace petaflow
