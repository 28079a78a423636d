// TFRecord framing, CRC-32C against published values, TensorBoard's events against what TensorBoard itself writes.
#include <sys/resource.h>

#include <bit>
#include <csignal>
#include <numeric>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

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

std::vector<std::string> event_files(const ScratchFolder& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with("events.out.tfevents.")) files.push_back(entry.path().string());
  }
  return files;
}

std::string without_time(const std::string& message) { return message.substr(9); }

/// The messages of an events file, without their times.
std::vector<std::string> messages_of(const std::string& path) {
  const std::string bytes = read_bytes(path);
  std::vector<std::string> messages;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto size = static_cast<std::size_t>(static_cast<std::uint8_t>(bytes.at(at)));
    const std::string message = bytes.substr(at + 12, size);
    EXPECT_EQ(bytes.substr(at, size + 16), tfrecord(message));
    messages.push_back(without_time(message));
    at += size + 16;
  }
  return messages;
}

/// No file may grow beyond a size: stands for a full disk, which takes a part of what is written.
class SizeLimit {
 public:
  explicit SizeLimit(std::uintmax_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit now = before_;
    now.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, SIG_DFL);
  }
  SizeLimit(const SizeLimit&) = delete;
  SizeLimit& operator=(const SizeLimit&) = delete;

 private:
  rlimit before_{};
};

TEST(TensorBoard, MetricsLogWritesItsNumbersAsScalars) {
  const ScratchFolder folder;
  {
    MetricsLog log(folder / "metrics.jsonl", folder.path());
    log.write({{"step", 10}, {"loss", 0.5}, {"name", "text"}});
    log.write({{"step", 20}, {"validation", {{"auc", 0.75}}}});
    log.write({{"note", "no step"}});
  }
  ASSERT_EQ(event_files(folder).size(), 1U);
  // Version, start at step 10, two scalars.
  const NamedScalar loss[] = {{"loss", 0.5}}, auc[] = {{"validation/auc", 0.75}};
  const std::vector<std::string> expected = {
      without_time(encode_version_event(0)), without_time(encode_start_event(0, 10)),
      without_time(encode_scalars_event(0, 10, loss)), without_time(encode_scalars_event(0, 20, auc))};
  EXPECT_EQ(messages_of(event_files(folder)[0]), expected);
  EXPECT_HOLDS(test::error_of([&] { MetricsLog log(folder / "m.jsonl", folder / "missing"); }), "missing");
}

TEST(TensorBoard, AFullDiskCutsNoRecordAndRepeatsNoLine) {
  const ScratchFolder folder;
  const std::string lines = folder / "metrics.jsonl";
  MetricsLog log(lines, folder.path());
  const std::string events = event_files(folder).at(0);
  const auto fails_at = [&](int step, std::uintmax_t room) {
    const std::uintmax_t size = std::filesystem::file_size(events);
    const SizeLimit limit(size + room);
    EXPECT_HOLDS(test::error_of([&] { log.write({{"step", step}, {"loss", 0.5}}); }), "cannot write " + events);
    EXPECT_EQ(std::filesystem::file_size(events), size);
  };
  fails_at(10, 7);   // in the event of the start
  fails_at(20, 40);  // after it
  log.write({{"step", 30}, {"loss", 0.5}});
  const NamedScalar loss[] = {{"loss", 0.5}};
  EXPECT_EQ(messages_of(events),
            (std::vector<std::string>{without_time(encode_version_event(0)), without_time(encode_start_event(0, 10)),
                                      without_time(encode_scalars_event(0, 10, loss)),
                                      without_time(encode_scalars_event(0, 20, loss)),
                                      without_time(encode_scalars_event(0, 30, loss))}));
  const std::string ten = "{\"loss\":0.5,\"step\":10}\n", twenty = "{\"loss\":0.5,\"step\":20}\n";
  EXPECT_EQ(read_bytes(lines), ten + twenty + "{\"loss\":0.5,\"step\":30}\n");

  const std::uintmax_t cut = std::filesystem::file_size(lines) + 10;
  {
    const SizeLimit limit(cut);
    EXPECT_HOLDS(test::error_of([&] { log.write({{"note", "as long as it takes"}}); }), "cannot write " + lines);
  }
  log.write({{"step", 40}});
  EXPECT_HOLDS(read_bytes(lines), "\"step\":30}\n{\"note\":\"as long as it takes\"}\n{\"step\":40}\n");
}

}  // namespace
}  // namespace petaflow
