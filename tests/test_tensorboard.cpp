// TFRecord framing, CRC-32C against published values, TensorBoard's events against what TensorBoard itself writes.
#include <sys/resource.h>

#include <bit>
#include <csignal>
#include <numeric>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "io/metrics_log.hpp"
#include "io/tensorboard.hpp"
#include "io/tfrecord.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::read_bytes;
using test::ScratchFolder;

std::uint32_t crc32c(const std::string& bytes) { return std::rotl(masked_crc32c(bytes) - 0xA282EAD8U, 15); }

TEST(TfRecord, ChecksumsAreThoseOfRfc3720) {
  std::string up(32, '\0');
  std::iota(up.begin(), up.end(), '\0');
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(up), 0x46DD794EU);
  EXPECT_EQ(crc32c(std::string(up.rbegin(), up.rend())), 0x113FDB5CU);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(TfRecord, FramesWithLengthAndTwoChecksums) {
  const std::string record = tfrecord("abc");
  ASSERT_EQ(record.size(), 8 + 4 + 3 + 4U);
  EXPECT_EQ(record.substr(0, 8), std::string("\x03\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(record[at + i]);
    return value;
  };
  EXPECT_EQ(word(8), masked_crc32c(record.substr(0, 8)));
  EXPECT_EQ(word(15), masked_crc32c("abc"));
}

TEST(TensorBoard, EncodesWhatTensorBoardEncodes) {
  const NamedScalar scalars[] = {{"loss", 0.6931}, {"validation/auc", 0.75}};
  const std::string ours = tfrecord(encode_version_event(1.7e9)) + tfrecord(encode_start_event(1.7e9 + 0.25, 300)) +
                           tfrecord(encode_scalars_event(1.7e9 + 0.5, 300, scalars));
  EXPECT_EQ(ours, read_bytes("tests/golden/tensorboard.tfevents"));
}

/// Files of this process cannot grow beyond so many bytes while it lives, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit = {bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

std::vector<std::string> event_files(const ScratchFolder& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path().string());
  }
  return files;
}

TEST(TensorBoard, MetricsLogWritesItsNumbersAsScalars) {
  const ScratchFolder folder;
  {
    MetricsLog log(folder / "metrics.jsonl", folder.path());
    log.write({{"step", 10}, {"loss", 0.5}, {"name", "text"}});
    log.write({{"step", 20}, {"validation", {{"auc", 0.75}}}});
    log.write({{"note", "no step"}});
  }
  ASSERT_EQ(event_files(folder).size(), 1U);
  const std::string bytes = read_bytes(event_files(folder)[0]);
  // Without the times: version, start at step 10, two scalars.
  const NamedScalar loss[] = {{"loss", 0.5}}, auc[] = {{"validation/auc", 0.75}};
  const auto without_time = [](const std::string& message) { return message.substr(9); };
  std::vector<std::string> found;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto size = static_cast<std::size_t>(static_cast<std::uint8_t>(bytes.at(at)));
    const std::string message = bytes.substr(at + 12, size);
    EXPECT_EQ(bytes.substr(at, size + 16), tfrecord(message));
    found.push_back(without_time(message));
    at += size + 16;
  }
  const std::vector<std::string> expected = {
      without_time(encode_version_event(0)), without_time(encode_start_event(0, 10)),
      without_time(encode_scalars_event(0, 10, loss)), without_time(encode_scalars_event(0, 20, auc))};
  EXPECT_EQ(found, expected);
  EXPECT_HOLDS(test::error_of([&] { MetricsLog log(folder / "m.jsonl", folder / "missing"); }), "missing");
}

TEST(TensorBoard, AFullDiskLeavesNoHalfRecords) {
  const ScratchFolder folder;
  const std::string path = folder / "metrics.jsonl";
  MetricsLog log(path, folder.path());
  log.write({{"step", 1}, {"loss", 0.5}});
  const std::string lines = read_bytes(path), events = read_bytes(event_files(folder).at(0));
  ASSERT_GT(events.size(), lines.size());
  const nlohmann::json second = {{"step", 2}, {"loss", 0.25}};
  {
    const FullDisk full(events.size() + 5);  // room for the line, not for the record
    try {
      log.write(second);
      ADD_FAILURE() << "it was written";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("; it takes 42 bytes and "), std::string::npos) << error.what();
    }
    EXPECT_EQ(read_bytes(path), lines);
    EXPECT_EQ(read_bytes(event_files(folder).at(0)), events);
  }
  log.write(second);
  EXPECT_EQ(read_bytes(path), lines + second.dump() + "\n");
  EXPECT_GT(read_bytes(event_files(folder).at(0)).size(), events.size() + 16);
}

}  // namespace
}  // namespace petaflow
