#include "io/tfrecord.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace petaflow {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

template <class T>
void append(std::string& text, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  text.append(bytes, sizeof value);
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

}  // namespace petaflow
