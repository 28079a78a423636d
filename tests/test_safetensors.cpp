// The safetensors writer: header, alignment, names, what it refuses.
#include <cstring>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "io/safetensors.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::read_bytes;
using test::ScratchFolder;

std::vector<NamedArray> arrays() {
  return {{"conv1/weight", {2, 1, 1, 2}, {1, 2, 3, 4}}, {"conv1/bias", {2}, {-1, 0.5F}}};
}

TEST(Safetensors, HeaderNamesEveryArray) {
  for (const std::string commit : {"c", "co", "com", "comm", "<\"\\>\n", "ä"}) {  // all paddings
    const std::string bytes = safetensors_header(arrays(), {{"commit", commit}});
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    ASSERT_EQ(bytes.size(), 8 + length);
    EXPECT_EQ(length % 8, 0U);
    const nlohmann::json header = nlohmann::json::parse(bytes.substr(8));
    EXPECT_EQ(header.size(), 3U);
    EXPECT_EQ(header["__metadata__"]["commit"], commit);
    EXPECT_EQ(header["conv1.weight"],
              nlohmann::json::parse(R"({"dtype":"F32","shape":[2,1,1,2],"data_offsets":[0,16]})"));
    EXPECT_EQ(header["conv1.bias"], nlohmann::json::parse(R"({"dtype":"F32","shape":[2],"data_offsets":[16,24]})"));
  }
}

TEST(Safetensors, FileHoldsTheValuesAfterTheHeader) {
  const ScratchFolder folder;
  save_safetensors(folder / "w.safetensors", arrays(), {});
  const std::string bytes = read_bytes(folder / "w.safetensors"), header = safetensors_header(arrays(), {});
  ASSERT_EQ(bytes.size(), header.size() + 24);
  EXPECT_EQ(bytes.substr(0, header.size()), header);
  float values[6];
  std::memcpy(values, bytes.data() + header.size(), sizeof values);
  EXPECT_EQ(std::vector<float>(values, values + 6), (std::vector<float>{1, 2, 3, 4, -1, 0.5F}));
  EXPECT_EQ(folder.files(), 1U);  // no temporary one
}

TEST(Safetensors, IsReadBack) {
  const ScratchFolder folder;
  save_safetensors(folder / "w.safetensors", arrays(), {{"config", "[train]"}, {"description", "words"}});
  const Checkpoint read = load_safetensors(folder / "w.safetensors");
  EXPECT_EQ(read.config, "[train]");
  EXPECT_EQ(read.model, "words");
  ASSERT_EQ(read.weights.size(), 2U);  // in order of name
  EXPECT_EQ(read.weights[0].name, "conv1/bias");
  EXPECT_EQ(read.weights[0].values, (std::vector<float>{-1, 0.5F}));
  EXPECT_EQ(read.weights[1].name, "conv1/weight");
  EXPECT_EQ(read.weights[1].dims, (std::vector<std::int64_t>{2, 1, 1, 2}));
  EXPECT_EQ(read.weights[1].values, (std::vector<float>{1, 2, 3, 4}));
}

TEST(Safetensors, OtherTypesAndDamage) {
  const ScratchFolder folder;
  const auto load = [&](std::string header, const std::string& arrays) {
    const std::uint64_t length = header.size();
    test::write_bytes(folder / "w.safetensors",
                      std::string(reinterpret_cast<const char*>(&length), sizeof length) + header + arrays);
    return load_safetensors(folder / "w.safetensors").weights.at(0).values;
  };
  const double wide[] = {1.5, -2};
  EXPECT_EQ(load(R"({"a.b":{"dtype":"F64","shape":[2],"data_offsets":[0,16]}})",
                 std::string(reinterpret_cast<const char*>(wide), sizeof wide)),
            (std::vector<float>{1.5F, -2}));
  EXPECT_EQ(load(R"({"a.b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}})", std::string("\x80\x3F\x00\xC0", 4)),
            (std::vector<float>{1, -2}));
  const auto error = [&](const std::string& header, const std::string& arrays = std::string(8, '\0')) {
    return test::error_of([&] { load(header, arrays); });
  };
  EXPECT_HOLDS(error(R"({"a.b":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})"), "w.safetensors: a.b is F16; F32,");
  EXPECT_HOLDS(error(R"({"a.b":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"),
               "a.b has 2 numbers for its shape of 3");
  EXPECT_HOLDS(error(R"({"a.b":{"dtype":"F32","shape":[3],"data_offsets":[0,12]}})"),
               "is truncated: a.b ends at byte 12 of 8");
  EXPECT_HOLDS(error("no JSON"), "is no file of safetensors");
  EXPECT_HOLDS(error("{}"), "holds no weights");
  test::write_bytes(folder / "s.safetensors", std::string(12, 'a'));
  EXPECT_HOLDS(test::error_of([&] { load_safetensors(folder / "s.safetensors"); }), "is no whole file of safetensors");
}

TEST(Safetensors, RefusesWhatCannotBe) {
  std::vector<NamedArray> twice = arrays();
  twice.push_back({"conv1.bias", {1}, {0}});
  EXPECT_HOLDS(test::error_of([&] { safetensors_header(twice, {}); }), "conv1.bias");
  EXPECT_HOLDS(test::error_of([&] { save_safetensors("/missing/w.safetensors", arrays(), {}); }), "/missing");
}

}  // namespace
}  // namespace petaflow
