// Cubes of counts in every layout: the published records, and small files made here whose counts say where they are.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "data/bytes.hpp"
#include "data/cosmo.hpp"
#include "data/files.hpp"
#include "io/gzip.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::error_of;
namespace fs = std::filesystem;

const std::string kTwin = "21688988_univ_ics_2019-03_a10018182_006", kOther = "21688988_univ_ics_2019-03_a10021730_018";

struct Cube {
  std::vector<std::int16_t> counts;
  std::vector<float> targets;
  Sample sample;
};

Cube read(const CosmoData& data, std::int64_t index) {
  Cube cube{std::vector<std::int16_t>(static_cast<std::size_t>(data.sample_elements())),
            std::vector<float>(static_cast<std::size_t>(data.targets())),
            {}};
  cube.sample = data.read(index, std::as_writable_bytes(std::span(cube.counts)), cube.targets);
  return cube;
}

CosmoData open(const CosmoDataOptions& options, const std::vector<std::string>& files) {
  CosmoIndex index = scan_cosmo(options, expand_files(files, "data.train"));
  return {options, from_bytes<CosmoIndex>(to_bytes(index))};
}

/// Whole cubes with their four labels.
CosmoDataOptions published() {
  CosmoDataOptions options;
  options.parameters = {0, 1, 2, 3};
  return options;
}

/// The count at a place: different everywhere within 8^3 x 4.
std::int16_t count_at(std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t c) {
  return static_cast<std::int16_t>(((d * 8 + h) * 8 + w) * 4 + c);
}

std::vector<std::int16_t> cube_of_places() {
  std::vector<std::int16_t> counts;
  for (int d = 0; d < 8; ++d)
    for (int h = 0; h < 8; ++h)
      for (int w = 0; w < 8; ++w)
        for (int c = 0; c < 4; ++c) counts.push_back(count_at(d, h, w, c));
  return counts;
}

void write_hdf5(const std::string& path, const Hdf5Storage& storage, const std::vector<std::int16_t>& counts,
                const std::string& cube = "x", const std::string& labels = "y") {
  Hdf5File file = Hdf5File::create(path);
  const std::vector<std::int32_t> wide(counts.begin(), counts.end());
  const std::vector<float> y = {0.1F, -0.2F, 0.3F, -0.4F};
  file.write<std::int32_t>(cube, {8, 8, 8, 4}, wide, storage);
  if (!labels.empty()) file.write<float>(labels, {4}, y);
  file.close();
}

void write_npy(const std::string& path, const std::string& type, const std::string& shape, const void* data,
               std::size_t bytes) {
  std::string header = "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }";
  header.resize(118, ' ');
  std::ofstream file(path, std::ios::binary);
  file << "\x93NUMPY" << '\x01' << '\0' << static_cast<char>(header.size()) << '\0' << header;
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

/// Each sample of a cube of places that is cut into eight, with the first two channels and two of the labels.
void expect_places(const CosmoDataOptions& options, const std::string& file) {
  const CosmoData data = open(options, {file});
  ASSERT_EQ(data.size(), 8);
  for (std::int64_t i = 0; i < 8; ++i) {
    const Cube cube = read(data, i);
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
  test::ScratchFolder folder;
};

TEST_F(CosmoFiles, EveryLayoutIsCutAlike) {
  const auto counts = cube_of_places();
  const std::vector<std::pair<std::string, Hdf5Storage>> stored = {
      {"plain.h5", {Hdf5Type::kI16}},
      {"chunks.h5", {Hdf5Type::kI16, {3, 5, 2, 3}}},
      {"gzip.h5", {Hdf5Type::kI16, {3, 5, 8, 1}, 4}},
      {"shuffled.hdf5", {Hdf5Type::kI16, {8, 3, 2, 4}, 6, true}}};
  for (const auto& [name, storage] : stored) {
    write_hdf5(folder / name, storage, counts);
    expect_places(quarter(), folder / name);
    write_hdf5(folder / ("universe_" + name), storage, counts, "full", "unitPar");
    expect_places(quarter(), folder / ("universe_" + name));
  }
  const std::vector<float> y = {0.1F, -0.2F, 0.3F, -0.4F};
  write_npy(folder / "cube_data.npy", "<i2", "(8, 8, 8, 4)", counts.data(), 2 * counts.size());
  write_npy(folder / "cube_label.npy", "<f4", "(4,)", y.data(), 16);
  expect_places(quarter(), folder / "cube*.npy");
}

TEST_F(CosmoFiles, UniversesAreToldByTheirNames) {
  for (const char* name : {"s_a1_000.h5", "s_a1_001.h5", "s_a2_000.h5"}) {
    write_hdf5(folder / name, {Hdf5Type::kI16}, cube_of_places());
  }
  CosmoDataOptions options = quarter();
  options.edge = 8;
  EXPECT_EQ(open(options, {folder / "*.h5"}).universes(), (std::vector<std::int64_t>{0, 0, 1}));
}

TEST_F(CosmoFiles, Refusals) {
  auto counts = cube_of_places();
  write_hdf5(folder / "good.h5", {Hdf5Type::kI16}, counts);
  write_hdf5(folder / "bare.h5", {Hdf5Type::kI16}, counts, "x", "");
  write_hdf5(folder / "wide.h5", {Hdf5Type::kI32}, counts);
  counts[77] = -5;
  write_hdf5(folder / "negative.h5", {Hdf5Type::kI16}, counts);
  {
    Hdf5File file = Hdf5File::create(folder / "flat.h5");
    file.write<float>("x", {2, 3}, std::vector<float>(6));
    file.write<float>("y", {1}, std::vector<float>(1));
    file.close();
  }
  const auto error = [&](const CosmoDataOptions& options, const std::vector<std::string>& files, std::int64_t sample) {
    return error_of([&] {
      std::vector<std::string> paths;
      for (const std::string& file : files) paths.push_back(folder / file);
      read(open(options, paths), sample);
    });
  };
  CosmoDataOptions options = quarter();
  EXPECT_HOLDS(error(options, {"negative.h5"}, 0), "negative.h5: a count is -5");
  EXPECT_HOLDS(error(options, {"wide.h5"}, 0),
               "data set x is integer32 (8, 8, 8, 4); integers of 16 bits were expected");
  EXPECT_HOLDS(error(options, {"bare.h5"}, 0), "bare.h5 has no data set y; it holds /x");
  EXPECT_HOLDS(error(options, {"flat.h5"}, 0), "flat.h5: the counts are (2, 3); a cube");
  EXPECT_HOLDS(error(options, {"good.h5", "flat.h5"}, 8), "flat.h5: the counts are (2, 3); they are (8, 8, 8, 4) in ");
  EXPECT_HOLDS(error(options, {"none.h5"}, 0), "none.h5 does not exist");
  options.edge = 3;
  EXPECT_HOLDS(error(options, {"good.h5"}, 0), "cubes of edge 8 cannot be cut into cubes of edge 3 (data.edge)");
  options = quarter();
  options.channels = 5;
  EXPECT_HOLDS(error(options, {"good.h5"}, 0), "the cubes have 4 channels; data.channels is 5");
  options = quarter();
  options.parameters = {7};
  EXPECT_HOLDS(error(options, {"good.h5"}, 0), "4 labels; number 8 is asked for");
  options = quarter();
  options.labels_optional = true;
  const Cube unknown = read(open(options, {folder / "bare.h5"}), 3);
  EXPECT_EQ(unknown.sample.label, -1);
  EXPECT_TRUE(std::isnan(unknown.targets[0]));

  // NumPy's files.
  options = quarter();
  const std::vector<float> logs(8 * 8 * 8 * 4);
  write_npy(folder / "log_data.npy", "<f4", "(8, 8, 8, 4)", logs.data(), 4 * logs.size());
  EXPECT_HOLDS(error(options, {"log_data.npy"}, 0), "the numbers are <f4; integers of 16 bits");
  write_npy(folder / "short_data.npy", "<i2", "(8, 8, 8, 4)", logs.data(), 100);
  EXPECT_HOLDS(error(options, {"short_data.npy"}, 0), "short_data.npy is truncated");
  std::ofstream(folder / "text_data.npy") << "not an array";
  EXPECT_HOLDS(error(options, {"text_data.npy"}, 0), "text_data.npy is not a file of NumPy");
}

TEST(CosmoRecords, AreTheirHdf5Twin) {
  const fs::path samples = test::samples_folder() / "cosmoflow";
  if (!fs::exists(samples)) GTEST_SKIP() << "SKIPPED: no samples in " << samples;
  const CosmoDataOptions options = published();
  const Cube record = read(open(options, {(samples / (kTwin + ".tfrecord")).string()}), 0);
  const Cube twin = read(open(options, {(samples / (kTwin + ".hdf5")).string()}), 0);
  EXPECT_EQ(record.counts, twin.counts);
  EXPECT_EQ(record.targets, twin.targets);

  const CosmoData both = open(options, {(samples / "*.tfrecord").string()});
  EXPECT_EQ(both.size(), 2);
  EXPECT_EQ(both.universes(), (std::vector<std::int64_t>{0, 1}));
  const Cube other = read(both, 1);
  for (const float target : other.targets) EXPECT_LE(std::abs(target), 1.001F);

  CosmoDataOptions eighth = options;
  eighth.edge = 64;
  const Cube last = read(open(eighth, {(samples / (kTwin + ".tfrecord")).string()}), 7);
  EXPECT_EQ(last.counts.back(), record.counts.back());
}

TEST(CosmoRecords, DamagedOnesAreRefused) {
  const fs::path samples = test::samples_folder() / "cosmoflow";
  if (!fs::exists(samples)) GTEST_SKIP() << "SKIPPED: no samples in " << samples;
  const test::ScratchFolder folder;
  const std::string path = folder / "damaged.tfrecord";
  const std::string whole = read_inflated((samples / (kOther + ".tfrecord")).string());
  const auto error = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return error_of([&] { read(open(published(), {path}), 0); });
  };
  std::string flipped = whole;
  flipped[whole.size() / 2] = static_cast<char>(flipped[whole.size() / 2] ^ 4);
  EXPECT_HOLDS(error(flipped), "damaged.tfrecord: record 0: the masked CRC-32C");
  EXPECT_HOLDS(error(whole.substr(0, whole.size() - 9)), "damaged.tfrecord");
  EXPECT_HOLDS(error(whole + whole), "holds 2 records");
}

TEST(CubeSymmetry, AllFortyEightOccur) {
  std::vector<std::int16_t> cube;
  for (std::int16_t i = 0; i < 27; ++i) cube.insert(cube.end(), {i, static_cast<std::int16_t>(100 + i)});
  const CubeSymmetry symmetry({2, 3, 3, 3});
  std::map<std::vector<std::int16_t>, int> seen;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    std::vector<std::int16_t> image = cube;
    RandomSequence random(random_stream(1, RandomPurpose::kAugment), i);
    symmetry(std::as_writable_bytes(std::span(image)), random);
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
