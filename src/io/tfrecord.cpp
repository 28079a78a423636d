#include "io/tfrecord.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.hpp"

namespace petaflow {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <class T>
void append(std::string& text, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  text.append(bytes, sizeof value);
}

template <class T>
T number_at(std::string_view bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  // ISA-L takes and gives the register as it is; the polynomial of iSCSI is Castagnoli's.
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // its lengths are int
  std::uint32_t crc = 0xFFFFFFFFU;
  for (std::string_view rest = bytes; !rest.empty();) {
    const std::size_t n = std::min(rest.size(), kPiece);
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(rest.data()));  // it only reads
    crc = crc32_iscsi(data, static_cast<int>(n), crc);
    rest.remove_prefix(n);
  }
  return std::rotr(~crc, 15) + 0xA282EAD8U;
}

std::string tfrecord(std::string_view bytes) {
  std::string record;
  append(record, static_cast<std::uint64_t>(bytes.size()));
  append(record, masked_crc32c(record));
  record.append(bytes);
  append(record, masked_crc32c(bytes));
  return record;
}

bool starts_tfrecord(std::string_view bytes) {
  return bytes.size() >= kTfRecordHead && number_at<std::uint32_t>(bytes, 8) == masked_crc32c(bytes.substr(0, 8));
}

std::vector<std::string_view> tfrecords_in(std::string_view bytes, const std::string& path) {
  constexpr std::size_t kHead = kTfRecordHead, kFoot = 4;
  std::vector<std::string_view> records;
  const auto check = [&](std::string_view checked, std::size_t at, const char* what) {
    const auto stored = number_at<std::uint32_t>(bytes, at), found = masked_crc32c(checked);
    if (stored != found) {
      user_error(
          "{}: record {}: the masked CRC-32C of its {} is {:08x}, but {:08x} is stored; the file is damaged, or no "
          "TFRecord file",
          path, records.size(), what, found, stored);
    }
  };
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t left = bytes.size() - at;
    if (left < kHead) user_error("{}: record {}: the file ends inside of its length", path, records.size());
    check(bytes.substr(at, 8), at + 8, "length");
    const auto length = number_at<std::uint64_t>(bytes, at);
    if (length > left - kHead) {
      user_error("{}: record {}: it has {} bytes, but the file ends after {} of them", path, records.size(), length,
                 left - kHead);
    }
    if (left - kHead - length < kFoot) {
      user_error("{}: record {}: the file ends inside of the checksum of its data", path, records.size());
    }
    const std::string_view record = bytes.substr(at + kHead, length);
    check(record, at + kHead + length, "data");
    records.push_back(record);
    at += kHead + length + kFoot;
  }
  return records;
}

}  // namespace petaflow
