// TFRecord: TensorFlow's framing of byte strings in a file (tensorflow/core/lib/io/record_writer.h): the length as 64
// bits little endian, its masked CRC-32C, the bytes, their masked CRC-32C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace petaflow {

/// CRC-32C (Castagnoli) rotated and shifted, so that the checksum of data with checksums in it stays useful:
/// ((crc >> 15) | (crc << 17)) + 0xa282ead8.
std::uint32_t masked_crc32c(std::string_view bytes);

/// One record as it stands in a file.
std::string tfrecord(std::string_view bytes);

/// Whether bytes start with the length of a record (kTfRecordHead bytes, its checksum with it).
inline constexpr std::size_t kTfRecordHead = 12;
bool starts_tfrecord(std::string_view bytes);

/// The records in the bytes of a file, as parts of them.  Throws Error(kUser) naming file, record (from 0) and checksum
/// where one does not fit, and where the file ends inside of a record.
std::vector<std::string_view> tfrecords_in(std::string_view bytes, const std::string& path);

}  // namespace petaflow
