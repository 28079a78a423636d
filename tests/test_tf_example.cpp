// TFRecord files as others wrote them: the CosmoFlow benchmark's, and messages made by hand.
#include <cstring>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>
#include <zlib.h>

#include "io/gzip.hpp"
#include "io/hdf5.hpp"
#include "io/tf_example.hpp"
#include "io/tfrecord.hpp"
#include "protobuf.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::entry, test::error_of, test::field;

const std::string kTwin = "21688988_univ_ics_2019-03_a10018182_006", kOther = "21688988_univ_ics_2019-03_a10021730_018";

TEST(TfExample, RealRecordIsItsHdf5Twin) {
  const std::string folder = (test::samples_folder() / "cosmoflow/").string();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIPPED: no samples in " << folder;
  const std::string bytes = read_inflated(folder + kTwin + ".tfrecord", kTwin);
  const auto records = tfrecords_in(bytes, kTwin);
  ASSERT_EQ(records.size(), 1U);
  const auto features = parse_tf_example(records[0], kTwin);
  const Hdf5File twin = Hdf5File::open(folder + kTwin + ".hdf5");
  const std::vector<float> x = twin.read<float>("x"), y = twin.read<float>("y");
  EXPECT_EQ(features.at("y").floats, y);
  const std::string_view raw = features.at("x").bytes.at(0);
  ASSERT_EQ(raw.size(), 2 * x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    std::int16_t value;
    std::memcpy(&value, raw.data() + 2 * i, 2);
    ASSERT_EQ(value, x[i]) << i;
  }
}

TEST(TfExample, RealRecordsDamaged) {
  const test::ScratchFolder scratch;
  const std::string folder = (test::samples_folder() / "cosmoflow/").string(), path = scratch / "damaged.tfrecord";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIPPED: no samples in " << folder;
  std::ifstream file(folder + kOther + ".tfrecord", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  const auto error = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return error_of([&] { tfrecords_in(read_inflated(path, path), path); });
  };
  EXPECT_HOLDS(error(whole.substr(0, whole.size() / 2)),
               "damaged.tfrecord is packed by gzip, but the file ends in the middle");
  std::string flipped = whole;
  flipped[whole.size() - 6] = static_cast<char>(flipped[whole.size() - 6] ^ 1);  // in the CRC-32
  EXPECT_HOLDS(error(flipped), "damaged.tfrecord is packed by gzip, but the checksum");
  std::string plain = read_inflated(folder + kOther + ".tfrecord", kOther);
  plain[plain.size() / 2] = static_cast<char>(plain[plain.size() / 2] ^ 1);
  EXPECT_HOLDS(error(plain), "damaged.tfrecord: record 0: the masked CRC-32C of its data is ");
}

TEST(TfRecords, OneAfterTheOther) {
  const std::string bytes = tfrecord("first") + tfrecord("") + tfrecord("third");
  EXPECT_EQ(tfrecords_in(bytes, "f"), (std::vector<std::string_view>{"first", "", "third"}));
  std::string wrong = bytes;
  wrong[12 + 5 + 4 + 1] = 1;  // length of the second
  EXPECT_HOLDS(error_of([&] { tfrecords_in(wrong, "f"); }), "f: record 1: the masked CRC-32C of its length is ");
  EXPECT_HOLDS(error_of([&] { tfrecords_in(bytes.substr(0, bytes.size() - 5), "f"); }),
               "f: record 2: it has 5 bytes, but the file ends after 4 of them");
  EXPECT_HOLDS(error_of([&] { tfrecords_in(bytes.substr(0, 7), "f"); }), "f: record 0: the file ends inside");
}

TEST(TfExample, ListsOfAllKinds) {
  const std::string one(std::string("\x00\x00\x80\x3f", 4)), two(std::string("\x00\x00\x00\x40", 4));
  const std::string packed = field(2, field(1, one + two)), loose = field(2, "\x0d" + one + "\x0d" + two);
  const std::string numbers = field(3, field(1, "\x05\xac\x02") + "\x08\x07");
  const std::string message = field(1, entry("packed", packed) + entry("loose", loose) + entry("numbers", numbers) +
                                           entry("text", field(1, field(1, "a") + field(1, "bc"))));
  const auto features = parse_tf_example(message, "here");
  EXPECT_EQ(features.at("packed").floats, (std::vector<float>{1, 2}));
  EXPECT_EQ(features.at("loose").floats, (std::vector<float>{1, 2}));
  EXPECT_EQ(features.at("numbers").integers, (std::vector<std::int64_t>{5, 300, 7}));
  EXPECT_EQ(features.at("text").bytes, (std::vector<std::string_view>{"a", "bc"}));
  EXPECT_HOLDS(error_of([&] { parse_tf_example(field(1, entry("x", packed)).substr(0, 9), "here"); }),
               "here holds no tf.train.Example");
}

TEST(TfExample, WrittenOnesReadBack) {
  std::string raw(300, '\0'), shorter(128, 'a');  // their lengths take two bytes
  raw[0] = '\xff', raw[299] = 'z';
  const std::map<std::string, TfFeature, std::less<>> features = {{"x", {{raw}, {}, {}}},
                                                                  {"y", {{}, {0.5F, -1.25F}, {}}},
                                                                  {"n", {{}, {}, {-1, 0, 1LL << 40}}},
                                                                  {"t", {{"a", "", shorter}, {}, {}}}};
  const std::string message = tf_example(features);
  const auto read = parse_tf_example(message, "here");
  ASSERT_EQ(read.size(), features.size());
  for (const auto& [name, feature] : features) {
    EXPECT_EQ(read.at(name).bytes, feature.bytes) << name;
    EXPECT_EQ(read.at(name).floats, feature.floats) << name;
    EXPECT_EQ(read.at(name).integers, feature.integers) << name;
  }
  EXPECT_EQ(tf_example({{"y", {{}, {1, 2}, {}}}}),  // by hand
            field(1, entry("y", field(2, field(1, std::string("\x00\x00\x80\x3f\x00\x00\x00\x40", 8))))));
  EXPECT_THROW(tf_example({{"empty", {}}}), Error);
}

TEST(TfExample, RealRecordIsWrittenAsItWas) {
  const std::string folder = (test::samples_folder() / "cosmoflow/").string();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "SKIPPED: no samples in " << folder;
  int same = 0;
  for (const std::string& name : {kTwin, kOther}) {
    const std::string bytes = read_inflated(folder + name + ".tfrecord", name);
    const auto features = parse_tf_example(tfrecords_in(bytes, name).at(0), name);
    const std::string written = tfrecord(tf_example(features));
    EXPECT_EQ(written.size(), bytes.size());
    same += written == bytes ? 1 : 0;  // the order of features is free
  }
  EXPECT_GE(same, 1);
}

TEST(Gzip, WrittenBytesReadBack) {
  EXPECT_LT(gzipped(std::string(1 << 20, 'a')).size(), 1U << 14);
  const test::ScratchFolder scratch;
  std::string noise(3 << 20, '\0');
  std::uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525U + 1013904223U) >> 24);
  for (const std::string& bytes : {std::string(), std::string("abc"), std::string(1 << 20, 'a'), noise}) {
    const std::string packed = gzipped(bytes), path = scratch / "a.gz";
    EXPECT_TRUE(packed.starts_with("\x1f\x8b"));
    EXPECT_LT(packed.size(), bytes.size() + 1000);
    test::write_bytes(path, packed);
    EXPECT_TRUE(read_inflated(path, path) == bytes) << bytes.size();
    // By another implementation.
    std::string plain(bytes.size() + 1, '\0');
    z_stream zlib{};
    ASSERT_EQ(inflateInit2(&zlib, 16 + MAX_WBITS), Z_OK);
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    zlib.avail_in = static_cast<uInt>(packed.size());
    zlib.next_out = reinterpret_cast<Bytef*>(plain.data());
    zlib.avail_out = static_cast<uInt>(plain.size());
    EXPECT_EQ(inflate(&zlib, Z_FINISH), Z_STREAM_END);
    EXPECT_EQ(zlib.total_out, bytes.size());
    inflateEnd(&zlib);
    EXPECT_TRUE(plain.substr(0, bytes.size()) == bytes);
  }
}

}  // namespace
}  // namespace petaflow
