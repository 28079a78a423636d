#include "io/tensorboard.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/tfrecord.hpp"

namespace petaflow {
namespace {

// Wire format of protocol buffers: a key is (field number << 3) | type; type 0 is a varint, 1 are 64 bits, 2 is a
// length and bytes, 5 are 32 bits, all little endian.
constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

void put_varint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) message += static_cast<char>(value | 0x80);
  message += static_cast<char>(value);
}

void put_key(std::string& message, int field, int type) {
  put_varint(message, static_cast<std::uint64_t>(field << 3 | type));
}

template <class T>
void put_fixed(std::string& message, int field, T value) {
  put_key(message, field, sizeof value == 8 ? kFixed64 : kFixed32);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  message.append(bytes, sizeof value);
}

void put_bytes(std::string& message, int field, std::string_view bytes) {
  put_key(message, field, kBytes);
  put_varint(message, bytes.size());
  message += bytes;
}

// Event: 1 wall_time (double), 2 step (int64), 3 file_version (string), 5 summary, 7 session_log.
std::string event(double wall_time_s, std::int64_t step) {
  std::string message;
  put_fixed(message, 1, wall_time_s);
  if (step != 0) {
    put_key(message, 2, kVarint);
    put_varint(message, static_cast<std::uint64_t>(step));
  }
  return message;
}

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

}  // namespace

std::string encode_version_event(double wall_time_s) {
  std::string message = event(wall_time_s, 0);
  put_bytes(message, 3, "brain.Event:2");
  return message;
}

std::string encode_start_event(double wall_time_s, std::int64_t step) {
  std::string log;  // SessionLog: 1 status (1: START)
  put_key(log, 1, kVarint);
  put_varint(log, 1);
  std::string message = event(wall_time_s, step);
  put_bytes(message, 7, log);
  return message;
}

std::string encode_scalars_event(double wall_time_s, std::int64_t step, std::span<const NamedScalar> scalars) {
  std::string summary;  // 1 value (repeated)
  for (const auto& [tag, number] : scalars) {
    std::string value;  // 1 tag, 2 simple_value (float)
    put_bytes(value, 1, tag);
    put_fixed(value, 2, static_cast<float>(number));
    put_bytes(summary, 1, value);
  }
  std::string message = event(wall_time_s, step);
  put_bytes(message, 5, summary);
  return message;
}

EventFile::EventFile(const std::string& folder) {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  const double now = now_s();
  path_ = fmt::format("{}/events.out.tfevents.{:010d}.{}.{}", folder, static_cast<std::int64_t>(now), host.data(),
                      getpid());
  file_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) user_error("cannot write {}: {}", path_, std::strerror(errno));
  append_all(file_, tfrecord(encode_version_event(now)), path_);
}

EventFile::~EventFile() { close(file_); }

void EventFile::write(std::int64_t step, std::span<const NamedScalar> scalars) {
  if (!started_) unwritten_ += tfrecord(encode_start_event(now_s(), step));
  started_ = true;
  unwritten_ += tfrecord(encode_scalars_event(now_s(), step, scalars));
  append_all(file_, unwritten_, path_);
  unwritten_.clear();
}

}  // namespace petaflow
