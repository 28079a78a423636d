// NumPy's file format, versions 1 to 3 (numpy.lib.format): arrays of bytes, integers of 16 to 64 bits, f32 and f64, of
// either byte order, in C order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace petaflow {

/// An array of a file that is open for reading.  All errors are Error(kUser) naming the file.
class NpyFile {
 public:
  explicit NpyFile(const std::string& path);
  ~NpyFile();
  NpyFile(const NpyFile&) = delete;
  NpyFile& operator=(const NpyFile&) = delete;

  const std::vector<std::int64_t>& dims() const { return dims_; }
  /// A box of an array of 4 axes of 16-bit integers, row-major: `count` elements along each axis from `first`
  /// on, the last axis whole.
  void read_box(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
                std::span<std::int16_t> values) const;
  /// The whole of an array of f32 or f64.
  std::vector<float> read_floats() const;
  /// The whole of an array of any of the types.
  std::vector<float> read_numbers() const;

 private:
  bool is(const char* type) const { return type_.ends_with(type); }
  /// @param save_as  what is to be done to the array in Python
  [[noreturn]] void refuse(const std::string& what, const char* save_as) const;
  template <class T>
  void to_native(std::span<T> values) const;
  void read_bytes(std::int64_t element, void* to, std::size_t bytes, std::int64_t element_bytes) const;

  std::string path_;
  int descriptor_ = -1;
  std::string type_;  // "<i2", ">f4": byte order and type
  std::vector<std::int64_t> dims_;
  std::int64_t data_ = 0;  // where the elements begin
};

}  // namespace petaflow
