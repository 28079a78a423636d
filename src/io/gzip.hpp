// Files that may be compressed: gzip is told by its magic number, whatever the file's name.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace petaflow {

/// The bytes of a file, inflated where it is gzip (RFC 1952; several members one after the other count as one).
/// @param where  for errors of what is packed: "a.tfrecord: record 0"
/// Throws Error(kUser) where the file cannot be read, or is truncated or damaged: gzip has a CRC-32.
std::string read_inflated(const std::string& path, const std::string& where);

/// Inflates a zlib stream (RFC 1950) that fills `plain`; false where it is damaged, longer or shorter.
bool inflate_zlib(std::span<const std::byte> packed, std::span<std::byte> plain);

/// The bytes as a gzip file of one member, of ISA-L's level 1.
std::string gzipped(std::string_view bytes);

}  // namespace petaflow
