// TFRecord: TensorFlow's framing of byte strings in a file (tensorflow/core/lib/io/record_writer.h): the length as 64
// bits little endian, its masked CRC-32C, the bytes, their masked CRC-32C.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace petaflow {

/// CRC-32C (Castagnoli) rotated and shifted, so that the checksum of data with checksums in it stays useful:
/// ((crc >> 15) | (crc << 17)) + 0xa282ead8.
std::uint32_t masked_crc32c(std::string_view bytes);

/// One record as it stands in a file.
std::string tfrecord(std::string_view bytes);

}  // namespace petaflow
