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

TEST(Safetensors, RefusesWhatCannotBe) {
  std::vector<NamedArray> twice = arrays();
  twice.push_back({"conv1.bias", {1}, {0}});
  EXPECT_HOLDS(test::error_of([&] { safetensors_header(twice, {}); }), "conv1.bias");
  EXPECT_HOLDS(test::error_of([&] { save_safetensors("/missing/w.safetensors", arrays(), {}); }), "/missing");
}

}  // namespace
}  // namespace petaflow
