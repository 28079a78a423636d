#include "io/gzip.hpp"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string_view>

#include "base/error.hpp"

namespace petaflow {
namespace {

constexpr std::string_view kMagic = "\x1f\x8b";

std::string read_whole(const std::string& path) {
  if (std::filesystem::is_directory(path)) user_error("{} is a folder; a file was expected", path);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) user_error("cannot open {}: {}", path, std::strerror(errno));
  std::string bytes(static_cast<std::size_t>(file.tellg()), '\0');
  file.seekg(0);
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) {
    user_error("cannot read {}: {}", path, std::strerror(errno));
  }
  return bytes;
}

const char* reason(int code) {
  if (code == ISAL_END_INPUT) return "the file ends in the middle, before its checksum (CRC-32)";
  if (code == ISAL_INCORRECT_CHECKSUM) return "the checksum of its contents (CRC-32) does not fit";
  return "its contents are damaged, before their checksum (CRC-32) is reached";
}

// ISA-L counts in 32 bits: input and output are handed over in pieces.
std::uint32_t piece(std::size_t bytes) {
  return static_cast<std::uint32_t>(std::min<std::size_t>(bytes, std::numeric_limits<std::int32_t>::max()));
}

std::string inflate(const std::string& packed, const std::string& where) {
  const auto state = std::make_unique<inflate_state>();  // 80 kB
  std::string plain(4 * packed.size() + 4096, '\0');
  std::size_t read = 0, written = 0;
  while (read < packed.size()) {
    const std::string_view rest = std::string_view(packed).substr(read);
    if (!rest.starts_with(kMagic.substr(0, rest.size()))) {
      user_error("{} is packed by gzip, but {} bytes that are not follow its end", where, rest.size());
    }
    isal_inflate_init(state.get());
    state->crc_flag = ISAL_GZIP;
    while (state->block_state != ISAL_BLOCK_FINISH) {
      if (written == plain.size()) plain.resize(2 * plain.size());
      state->next_in = reinterpret_cast<std::uint8_t*>(const_cast<char*>(packed.data())) + read;
      state->next_out = reinterpret_cast<std::uint8_t*>(plain.data()) + written;
      const std::uint32_t in = piece(packed.size() - read), out = piece(plain.size() - written);
      state->avail_in = in;
      state->avail_out = out;
      const int code = isal_inflate(state.get());
      const std::size_t taken = in - state->avail_in, made = out - state->avail_out;
      if (code < 0) user_error("{} is packed by gzip, but {}", where, reason(code));
      if (taken == 0 && made == 0) user_error("{} is packed by gzip, but {}", where, reason(ISAL_END_INPUT));
      read += taken;
      written += made;
    }
  }
  plain.resize(written);
  return plain;
}

}  // namespace

bool inflate_zlib(std::span<const std::byte> packed, std::span<std::byte> plain) {
  constexpr std::size_t kLargest = std::numeric_limits<std::int32_t>::max();
  if (packed.size() > kLargest || plain.size() > kLargest) return false;
  thread_local const auto state = std::make_unique<inflate_state>();
  isal_inflate_init(state.get());
  state->crc_flag = ISAL_ZLIB;
  state->next_in = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(packed.data()));
  state->avail_in = static_cast<std::uint32_t>(packed.size());
  state->next_out = reinterpret_cast<std::uint8_t*>(plain.data());
  state->avail_out = static_cast<std::uint32_t>(plain.size());
  return isal_inflate(state.get()) == ISAL_DECOMP_OK && state->block_state == ISAL_BLOCK_FINISH &&
         state->avail_out == 0;
}

std::string gzipped(std::string_view bytes) {
  const auto stream = std::make_unique<isal_zstream>();
  std::string work(ISAL_DEF_LVL1_DEFAULT, '\0'), packed(bytes.size() / 2 + 4096, '\0');
  isal_deflate_init(stream.get());
  stream->gzip_flag = IGZIP_GZIP;
  stream->level = 1;
  stream->level_buf = reinterpret_cast<std::uint8_t*>(work.data());
  stream->level_buf_size = static_cast<std::uint32_t>(work.size());
  std::size_t read = 0, written = 0;
  while (stream->internal_state.state != ZSTATE_END) {
    if (written == packed.size()) packed.resize(2 * packed.size());
    stream->next_in = reinterpret_cast<std::uint8_t*>(const_cast<char*>(bytes.data())) + read;
    stream->next_out = reinterpret_cast<std::uint8_t*>(packed.data()) + written;
    const std::uint32_t in = piece(bytes.size() - read), out = piece(packed.size() - written);
    stream->avail_in = in;
    stream->avail_out = out;
    stream->end_of_stream = read + in == bytes.size() ? 1 : 0;
    const int code = isal_deflate(stream.get());
    PETAFLOW_REQUIRE(code == COMP_OK, "ISA-L's error {}", code);
    read += in - stream->avail_in;
    written += out - stream->avail_out;
  }
  packed.resize(written);
  return packed;
}

std::string read_inflated(const std::string& path, const std::string& where) {
  std::string bytes = read_whole(path);
  return bytes.starts_with(kMagic) ? inflate(bytes, where) : bytes;
}

}  // namespace petaflow
