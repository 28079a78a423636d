// Cubes in TFRecords: the published ones, every legal way to write one, and what is refused.
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

#include <gtest/gtest.h>
#include <zlib.h>

#include "cosmo_files.hpp"
#include "io/gzip.hpp"
#include "io/tfrecord.hpp"
#include "protobuf.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using namespace test;
namespace fs = std::filesystem;

const std::string kTwin = "21688988_univ_ics_2019-03_a10018182_006", kOther = "21688988_univ_ics_2019-03_a10021730_018";

// ---- Messages ----

/// One field of each wire type, under numbers that no message of an Example has.
const std::string kUnknown = varint(15 << 3) + varint(300) + varint(1000 << 3 | 1) + "12345678" + varint(17 << 3 | 5) +
                             "1234" + field(16, "text");

std::string floats(const std::vector<float>& values) { return field(2, field(1, bytes_of(values))); }
std::string bytes_list(const std::string& value) { return field(1, field(1, value)); }

std::string x_entry() { return entry("x", bytes_list(bytes_of(cube_of_places()))); }
std::string y_entry() { return entry("y", floats(kLabels)); }

/// Record of an Example with these entries.
std::string record(const std::string& entries) { return tfrecord(field(1, entries)); }

// ---- gzip by zlib ----

struct GzipOptions {
  int level = 6, strategy = Z_DEFAULT_STRATEGY;
  gz_header* header = nullptr;
};

std::string gzip(const std::string& bytes, const GzipOptions& options = {}) {
  z_stream zlib{};
  EXPECT_EQ(deflateInit2(&zlib, options.level, Z_DEFLATED, 16 + MAX_WBITS, 9, options.strategy), Z_OK);
  if (options.header != nullptr) deflateSetHeader(&zlib, options.header);
  std::string packed(bytes.size() + bytes.size() / 100 + 1000, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

class CosmoRecords : public testing::Test {
 protected:
  /// Reads a file of these bytes.
  Cube read(const std::string& bytes, const CosmoDataOptions& options = whole_cubes(8)) const {
    write_bytes(path(), bytes);
    return read_cube(open_cosmo(options, {path()}), 0);
  }
  std::string error(const std::string& bytes, const CosmoDataOptions& options = whole_cubes(8)) const {
    return error_of([&] { read(bytes, options); });
  }
  std::string path() const { return folder_ / "cube.tfrecord"; }
  std::string named() const { return path() + ": record 0: "; }

  ScratchFolder folder_;
};

class PublishedRecords : public CosmoRecords {
 protected:
  void SetUp() override {
    if (!fs::exists(samples())) GTEST_SKIP() << "SKIPPED: no samples in " << samples();
  }
  static fs::path samples() { return samples_folder() / "cosmoflow"; }
  static std::string sample(const std::string& name) { return (samples() / name).string(); }
};

TEST_F(PublishedRecords, AreTheirHdf5Twin) {
  const CosmoDataOptions options = whole_cubes();
  const Cube record = read_cube(open_cosmo(options, {sample(kTwin + ".tfrecord")}), 0);
  const Cube twin = read_cube(open_cosmo(options, {sample(kTwin + ".hdf5")}), 0);
  EXPECT_EQ(record.counts, twin.counts);
  EXPECT_EQ(record.targets, twin.targets);

  const CosmoData both = open_cosmo(options, {sample("*.tfrecord")});
  EXPECT_EQ(both.size(), 2);
  EXPECT_EQ(both.universes(), (std::vector<std::int64_t>{0, 1}));
  const Cube other = read_cube(both, 1);
  for (const float target : other.targets) EXPECT_LE(std::abs(target), 1.001F);

  CosmoDataOptions eighth = options;
  eighth.edge = 64;
  const Cube last = read_cube(open_cosmo(eighth, {sample(kTwin + ".tfrecord")}), 7);
  EXPECT_EQ(last.counts.back(), record.counts.back());
}

TEST_F(PublishedRecords, DamagedOnesAreRefused) {
  const auto flipped = [](std::string bytes, std::size_t at) {
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    return bytes;
  };
  for (const std::string& name : {kTwin, kOther}) {
    const std::string packed = read_bytes(sample(name + ".tfrecord")),
                      plain = read_inflated(sample(name + ".tfrecord"), name);
    for (const std::size_t at : {packed.size() / 3, packed.size() / 2, packed.size() - 3}) {
      EXPECT_HOLDS(error(flipped(packed, at), whole_cubes()), path() + ": record 0 is packed by gzip, but ");
      EXPECT_HOLDS(error(flipped(packed, at), whole_cubes()), "checksum");
    }
    EXPECT_HOLDS(error(flipped(packed, packed.size() - 6), whole_cubes()), "CRC-32) does not fit");
    EXPECT_HOLDS(error(flipped(plain, 3), whole_cubes()), named() + "the masked CRC-32C of its length is ");
    EXPECT_HOLDS(error(flipped(plain, plain.size() / 2), whole_cubes()),
                 named() + "the masked CRC-32C of its data is ");
    EXPECT_HOLDS(error(plain.substr(0, plain.size() - 9), whole_cubes()), named() + "it has ");
    EXPECT_HOLDS(error(plain + plain, whole_cubes()), "holds 2 records");
  }
}

// Protocol buffers leave a writer much freedom: order, packing, repetition, fields of later versions.
TEST_F(CosmoRecords, EveryLegalMessageIsRead) {
  const std::string raw = bytes_of(cube_of_places()), labels = bytes_of(kLabels);
  std::string loose;
  for (std::size_t i = 0; i < 4; ++i) loose += "\x0d" + labels.substr(4 * i, 4);
  const std::string loose_half = loose.substr(10);
  const std::string first_half = field(1, labels.substr(0, 8)), second_half = field(1, labels.substr(8));
  const std::string extra = entry("z", bytes_list("text")) + entry("a", floats({7})) +
                            entry("n", field(3, field(1, varint(5)))) + entry("none", "") +
                            entry("empty", field(2, "")) + entry("", bytes_list("")) + entry("physPar", floats({70}));
  const std::map<std::string, std::string> messages = {
      {"x first", field(1, x_entry() + y_entry())},
      {"y first", field(1, y_entry() + x_entry())},
      {"labels one by one", field(1, x_entry() + entry("y", field(2, loose)))},
      {"labels packed in two", field(1, x_entry() + entry("y", field(2, first_half + second_half)))},
      {"half of the labels packed", field(1, x_entry() + entry("y", field(2, first_half + loose_half)))},
      {"lists in two parts", field(1, x_entry() + entry("y", field(2, first_half) + field(2, second_half)))},
      {"other features before", field(1, extra + x_entry() + y_entry())},
      {"other features behind", field(1, x_entry() + y_entry() + extra)},
      {"value before key", field(1, field(1, field(2, floats(kLabels)) + field(1, "y")) + x_entry())},
      {"features in two parts", field(1, x_entry()) + field(1, y_entry())},
      {"a feature twice: the last one", field(1, entry("y", floats({1, 1, 1, 1})) + x_entry() + y_entry())},
      {"unknown fields",
       kUnknown +
           field(1, kUnknown +
                        field(1, kUnknown + field(1, "x") + kUnknown +
                                     field(2, kUnknown + field(1, kUnknown + field(1, raw)) + kUnknown)) +
                        y_entry()) +
           kUnknown},
      {"long varints",
       field(1, field(1, field(1, "x", 3) + field(2, field(1, field(1, raw, 7), 2), 1), 4) + y_entry(), 3)},
      {"five labels", field(1, x_entry() + entry("y", floats({0.1F, -0.2F, 0.3F, -0.4F, 9})))}};
  for (const auto& [what, message] : messages) {
    SCOPED_TRACE(what);
    ASSERT_NO_THROW({
      const Cube cube = read(tfrecord(message));
      EXPECT_EQ(cube.counts, cube_of_places());
      EXPECT_EQ(cube.targets, kLabels);
    });
  }
}

TEST_F(CosmoRecords, EveryLegalGzipFileIsRead) {
  const std::string plain = record(x_entry() + y_entry());
  std::string extra = "AB\x02\x01xy", name = "cube.tfrecord", comment = "128^3, four redshifts";
  const auto header = [&](int parts) {
    gz_header all{};
    all.text = 1;
    all.time = 1700000000;
    all.os = 3;
    if ((parts & 1) != 0) all.extra = reinterpret_cast<Bytef*>(extra.data()), all.extra_len = 6;
    if ((parts & 2) != 0) all.name = reinterpret_cast<Bytef*>(name.data());
    if ((parts & 4) != 0) all.comment = reinterpret_cast<Bytef*>(comment.data());
    all.hcrc = (parts & 8) != 0 ? 1 : 0;
    return all;
  };
  std::map<std::string, std::string> files = {{"plain", plain},
                                              {"stored", gzip(plain, {0})},
                                              {"fast", gzip(plain, {1})},
                                              {"best", gzip(plain, {9})},
                                              {"fixed codes", gzip(plain, {6, Z_FIXED})},
                                              {"codes without matches", gzip(plain, {6, Z_HUFFMAN_ONLY})},
                                              {"runs", gzip(plain, {6, Z_RLE})},
                                              {"ours", gzipped(plain)},
                                              {"two members", gzip(plain.substr(0, 777)) + gzip(plain.substr(777))},
                                              {"empty members", gzip("") + gzip(plain) + gzip("")},
                                              {"members of one byte", ""}};
  for (const char byte : plain.substr(0, 30)) files["members of one byte"] += gzip(std::string(1, byte));
  files["members of one byte"] += gzip(plain.substr(30), {1});
  for (int parts = 0; parts < 16; ++parts) {
    gz_header all = header(parts);
    files["header " + std::to_string(parts)] = gzip(plain, {6, Z_DEFAULT_STRATEGY, &all});
  }
  for (const auto& [what, bytes] : files) {
    SCOPED_TRACE(what);
    ASSERT_NO_THROW({
      const Cube cube = read(bytes);
      EXPECT_EQ(cube.counts, cube_of_places());
      EXPECT_EQ(cube.targets, kLabels);
    });
  }
}

// Counts of the published size that compress to nothing, and not at all.
TEST_F(CosmoRecords, SizeIsFree) {
  std::vector<std::int16_t> counts(std::size_t{4} * 128 * 128 * 128);
  for (const bool noise : {false, true}) {
    std::uint32_t state = 1;
    for (std::int16_t& count : counts) {
      state = state * 1664525U + 1013904223U;
      count = noise ? static_cast<std::int16_t>(state >> 17) : std::int16_t{0};
    }
    const std::string bytes = gzip(record(entry("x", bytes_list(bytes_of(counts))) + y_entry()), {1});
    EXPECT_EQ(bytes.size() > 10'000'000, noise);
    EXPECT_TRUE(read(bytes, whole_cubes()).counts == counts);
  }
}

// Every bit of a small file.
TEST_F(CosmoRecords, NoFlippedBitGoesUnseen) {
  const std::string x = entry("x", bytes_list(bytes_of(std::vector<std::int16_t>(32, 3)))) + y_entry();
  const auto flip_all = [&](const std::string& bytes, const std::function<void(std::size_t)>& check) {
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      write_bytes(path(), flipped);
      check(bit / 8);
    }
  };
  const auto read_again = [&] { return read_cube(open_cosmo(whole_cubes(2), {path()}), 0); };
  const std::string plain = record(x);
  flip_all(plain, [&](std::size_t byte) {
    const std::string what = byte < 12 ? "length" : "data";
    EXPECT_HOLDS(error_of(read_again), named() + "the masked CRC-32C of its " + what + " is ");
  });

  const std::string packed = gzip(plain);
  const Cube whole = read(packed, whole_cubes(2));
  std::size_t harmless = 0;
  flip_all(packed, [&](std::size_t byte) {
    try {
      const Cube cube = read_again();
      EXPECT_EQ(cube.counts, whole.counts);
      EXPECT_EQ(cube.targets, whole.targets);
      // Flags, time and system in the header, and what fills the last byte before the two sums at the end.
      EXPECT_TRUE((byte >= 3 && byte < 10) || byte == packed.size() - 9) << byte << " of " << packed.size();
      ++harmless;
    } catch (const Error& error) {
      EXPECT_HOLDS(error.what(), path() + ": record 0");
      EXPECT_HOLDS(error.what(), "CRC-32");
    }
  });
  EXPECT_GE(harmless, 6U * 8U);
}

TEST_F(CosmoRecords, NoCutGoesUnseen) {
  const std::string plain = record(entry("x", bytes_list(bytes_of(std::vector<std::int16_t>(32, 3)))) + y_entry());
  for (const std::string& whole : {plain, gzip(plain), gzip(plain.substr(0, 50)) + gzip(plain.substr(50))}) {
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_HOLDS(error(whole.substr(0, size), whole_cubes(2)), path()) << size << " of " << whole.size();
    }
    EXPECT_HOLDS(error(whole + "more", whole_cubes(2)), path());
  }
  for (const std::size_t missing : {1U, 3U}) {
    EXPECT_HOLDS(error(plain.substr(0, plain.size() - missing), whole_cubes(2)),
                 named() + "the file ends inside of the checksum of its data");
  }
  EXPECT_HOLDS(error(plain.substr(0, plain.size() - 5), whole_cubes(2)), " of them");
  EXPECT_HOLDS(error(gzip(plain) + "more", whole_cubes(2)),
               path() + ": record 0 is packed by gzip, but 4 bytes that are not follow its end");
  EXPECT_HOLDS(error(gzip(plain) + "\x1f", whole_cubes(2)), "the file ends in the middle, before its checksum");
}

TEST_F(CosmoRecords, WhatIsWrongIsSaid) {
  const auto labels = [&](const std::vector<float>& values) {
    return error(record(x_entry() + entry("y", floats(values))));
  };
  const auto cube = [&](const std::string& feature) { return error(record(entry("x", feature) + y_entry())); };
  EXPECT_HOLDS(error(""), path() + " holds 0 records; one cube per file was expected");
  EXPECT_HOLDS(error(tfrecord("no message")), path() + ": record 0 holds no tf.train.Example");
  EXPECT_HOLDS(error(tfrecord("")), "record 0 has no feature x; it holds none");
  EXPECT_HOLDS(error(record(entry("3Dmap", bytes_list("a")) + y_entry())),
               path() + ": record 0 has no feature x; it holds 3Dmap, y");
  EXPECT_HOLDS(error(record(x_entry())), path() + ": record 0 has no feature y; it holds x");
  EXPECT_HOLDS(cube(floats({1, 2, 3, 4})), "record 0: feature x has 0 strings of bytes; one, of 16-bit integers,");
  EXPECT_HOLDS(cube(field(1, field(1, "ab") + field(1, "cd"))), "record 0: feature x has 2 strings of bytes");
  EXPECT_HOLDS(cube(bytes_list("")), "record 0: feature x has 0 bytes, which is no cube");
  EXPECT_HOLDS(cube(bytes_list(std::string(4094, 'a'))),
               "record 0: feature x has 4094 bytes, which is no cube of 16-bit integers with 4 channels");
  EXPECT_HOLDS(error(record(x_entry() + entry("y", bytes_list(bytes_of(kLabels))))),
               "record 0: feature y has no numbers of 32 bits");
  EXPECT_HOLDS(labels({0.1F, 0.2F}), "cube.tfrecord: 2 labels; label 3 is asked for");
  EXPECT_HOLDS(labels({0, 0, NAN, 0}), "cube.tfrecord: label 3 is nan");
  EXPECT_HOLDS(labels({0, std::numeric_limits<float>::infinity(), 0, 0}), "cube.tfrecord: label 2 is inf");
  EXPECT_HOLDS(labels({0.3F, 0.8F, 0.96F, 70}), "label 4 is 70; parameters scaled to [-1, 1] were expected");

  std::vector<std::int16_t> counts = cube_of_places();
  counts[100] = -1;
  EXPECT_HOLDS(cube(bytes_list(bytes_of(counts))), "cube.tfrecord: the count at (0, 3, 1, 0) is -1");
  write_bytes(folder_ / "a.tfrecord", record(x_entry() + y_entry()));
  write_bytes(folder_ / "b.tfrecord", record(entry("x", bytes_list(std::string(64, '\0'))) + y_entry()));
  EXPECT_HOLDS(error_of([&] { read_cube(open_cosmo(whole_cubes(8), {folder_ / "[ab].tfrecord"}), 1); }),
               "b.tfrecord: the counts are (2, 2, 2, 4); they are (8, 8, 8, 4) in ");
  EXPECT_HOLDS(error_of([&] { open_cosmo(whole_cubes(8), {folder_ / "none.tfrecord"}); }),
               "none.tfrecord does not exist");
  EXPECT_HOLDS(error_of([&] { open_cosmo(whole_cubes(8), {folder_.path()}); }),
               folder_.path() + " is a folder; name the files in it, such as " + folder_ / "*");
}

}  // namespace
}  // namespace petaflow
