#include "io/npy.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <numeric>
#include <regex>

#include "base/error.hpp"

namespace petaflow {
namespace {

std::int64_t product(const std::vector<std::int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

// The magic string, the version as two bytes, the length of the header as 2 bytes (version 1) or 4, and the header: a
// Python dictionary of descr, fortran_order and shape.
NpyFile::NpyFile(const std::string& path) : path_(path), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (descriptor_ < 0) user_error("cannot open {}: {}", path, std::strerror(errno));
  try {
    unsigned char start[12] = {};
    const ssize_t got = pread(descriptor_, start, sizeof start, 0);
    if (got >= 0 && got < 10) user_error("{} is truncated: it has {} bytes", path, got);
    if (got < 0 || std::memcmp(start, "\x93NUMPY", 6) != 0) {
      user_error("{} is not a file of NumPy: it does not start with its signature", path);
    }
    const bool old = start[6] == 1;
    const std::size_t length = start[8] + 256U * start[9] + (old ? 0 : 65536U * (start[10] + 256U * start[11]));
    constexpr std::size_t kLongest = 10'000;  // of NumPy too; std::regex below needs stack for each byte
    if (length > kLongest) user_error("{} is damaged: its header claims {} bytes", path, length);
    data_ = static_cast<std::int64_t>(length) + (old ? 10 : 12);
    std::string header(length, ' ');
    if (pread(descriptor_, header.data(), length, data_ - static_cast<std::int64_t>(length)) !=
        static_cast<ssize_t>(length)) {
      user_error("{} is truncated: its header ends early", path);
    }
    static const std::regex type("'descr': *'([^']*)'"), c_order("'fortran_order': *False"),
        shape(R"('shape': *\(([0-9, ]*)\))"), line(R"('shape': *\([0-9]*,? *\))");
    std::smatch found_type, found_shape;
    if (!std::regex_search(header, found_type, type) || !std::regex_search(header, found_shape, shape)) {
      user_error("{}: the header says neither type nor shape: {}", path, header);
    }
    if (!std::regex_search(header, c_order) && !std::regex_search(header, line)) {  // a line has one order
      refuse("the array lies in Fortran's order", "numpy.ascontiguousarray(array)");
    }
    type_ = found_type[1];
    static const std::regex known("[<>](i2|i4|i8|f4|f8)|[|<>][iu]1");
    if (!std::regex_match(type_, known)) {
      refuse(
          fmt::format("the numbers are {}; integers of 8 bits, signed ones of 16, 32 or 64 bits, f32 and f64 are read",
                      type_),
          type_.find('f') == std::string::npos ? "array.astype('<i2')" : "array.astype('<f4')");
    }
    const std::int64_t element = type_.back() - '0';
    struct stat status{};
    fstat(descriptor_, &status);
    const std::int64_t there = (status.st_size - data_) / element;
    static const std::regex number("[0-9]+");
    const std::string sizes = found_shape[1];
    for (std::sregex_iterator at(sizes.begin(), sizes.end(), number), end; at != end; ++at) {
      const std::string digits = at->str();
      std::int64_t dim = 0;
      const bool fits = std::from_chars(digits.data(), digits.data() + digits.size(), dim).ec == std::errc();
      if (fits && dim == 0) user_error("{}: an array of ({}) has no elements", path, sizes);
      if (!fits || dim > there / product(dims_)) {  // so no product of them overflows
        user_error("{} is truncated: it has {} of its ({}) elements of {} bytes", path, there, sizes, element);
      }
      dims_.push_back(dim);
    }
    const std::int64_t size = data_ + product(dims_) * element;
    if (status.st_size != size)
      user_error("{} has {} bytes; its array of ({}) ends at byte {}", path, status.st_size, sizes, size);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

NpyFile::~NpyFile() { close(descriptor_); }

void NpyFile::refuse(const std::string& what, const char* save_as) const {
  user_error("{}: {}; in Python: numpy.save(name, {})", path_, what, save_as);
}

template <class T>
void NpyFile::to_native(std::span<T> values) const {
  static_assert(std::endian::native == std::endian::little);
  if (type_[0] != '>') return;
  for (T& value : values) {
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    std::ranges::reverse(bytes);
  }
}

void NpyFile::read_bytes(std::int64_t element, void* to, std::size_t bytes, std::int64_t element_bytes) const {
  auto* at = static_cast<char*>(to);
  std::int64_t offset = data_ + element * element_bytes;
  while (bytes > 0) {
    const ssize_t got = pread(descriptor_, at, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) user_error("{} cannot be read at byte {}: truncated?", path_, offset);
    at += got, offset += got, bytes -= static_cast<std::size_t>(got);
  }
}

void NpyFile::read_box(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
                       std::span<std::int16_t> values) const {
  if (!is("i2")) {
    refuse(fmt::format("the numbers are {}; counts of particles are signed integers of 16 bits (and not logarithms)",
                       type_),
           "array.astype('<i2')");
  }
  PETAFLOW_REQUIRE(dims_.size() == 4 && first.size() == 4 && count.size() == 4 && first[3] == 0 && count[3] == dims_[3],
                   "{}: a box of {} axes", path_, first.size());
  const std::int64_t run = count[2] * count[3];
  std::int16_t* to = values.data();
  for (std::int64_t d = first[0]; d < first[0] + count[0]; ++d) {
    for (std::int64_t h = first[1]; h < first[1] + count[1]; ++h, to += run) {
      read_bytes(((d * dims_[1] + h) * dims_[2] + first[2]) * dims_[3], to, static_cast<std::size_t>(2 * run), 2);
    }
  }
  to_native(values);
}

std::vector<float> NpyFile::read_numbers() const {
  const auto read = [&]<class T>(std::vector<T> values) {
    read_bytes(0, values.data(), values.size() * sizeof(T), sizeof(T));
    to_native(std::span(values));
    return std::vector<float>(values.begin(), values.end());
  };
  const auto size = static_cast<std::size_t>(product(dims_));
  if (is("i1")) return read(std::vector<std::int8_t>(size));
  if (is("u1")) return read(std::vector<std::uint8_t>(size));
  if (is("i2")) return read(std::vector<std::int16_t>(size));
  if (is("i4")) return read(std::vector<std::int32_t>(size));
  if (is("i8")) return read(std::vector<std::int64_t>(size));
  return is("f4") ? read(std::vector<float>(size)) : read(std::vector<double>(size));
}

std::vector<float> NpyFile::read_floats() const {
  if (!is("f4") && !is("f8")) {
    refuse(fmt::format("the numbers are {}; labels are f32 or f64", type_), "array.astype('<f4')");
  }
  return read_numbers();
}

}  // namespace petaflow
