// Messages of protocol buffers made by hand, as other writers may make them (developers' guide, "Encoding").
#pragma once

#include <cstdint>
#include <string>

namespace petaflow::test {

/// @param padding  bytes that say nothing, which readers must accept
inline std::string varint(std::uint64_t value, int padding = 0) {
  std::string bytes;
  for (; value >= 0x80U; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80U));
  bytes.push_back(static_cast<char>(value));
  for (int i = 0; i < padding; ++i) {
    bytes.back() = static_cast<char>(bytes.back() | '\x80');
    bytes.push_back('\0');
  }
  return bytes;
}

/// A field of wire type 2: bytes, text, a message or a packed list.
inline std::string field(std::uint64_t number, const std::string& value, int padding = 0) {
  return varint(number << 3 | 2U, padding) + varint(value.size(), padding) + value;
}

/// An entry of the map of features of a tf.train.Example.
inline std::string entry(const std::string& key, const std::string& feature) {
  return field(1, field(1, key) + field(2, feature));
}

}  // namespace petaflow::test
