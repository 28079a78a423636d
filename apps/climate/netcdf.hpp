// netCDF files for the climate library: an owned handle, every status checked, values unpacked.
// Source: netCDF-C 4, user's guide; CF conventions 1.11, sections 2.5.1 (missing data) and 8.1 (packed data).
//
// netCDF calls HDF5, which one mutex of the process serialises (io/hdf5.hpp).  All errors are Error(kUser).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace petaflow::climate {

struct NetcdfDimension {
  std::string name;
  std::int64_t size = 0;
  bool operator==(const NetcdfDimension&) const = default;
};

/// A file that is open for reading, netCDF 3 or 4; safe to read from several threads.
class NetcdfFile {
 public:
  explicit NetcdfFile(const std::string& path);
  ~NetcdfFile();
  NetcdfFile(const NetcdfFile&) = delete;
  NetcdfFile& operator=(const NetcdfFile&) = delete;

  const std::string& path() const { return path_; }
  std::vector<std::string> variables() const;
  /// The same for a message: the first two dozen and the number of the others.
  std::string contents() const;
  bool has(const std::string& variable) const;
  /// Throws, naming the variables that there are, where this one is missing.
  std::vector<NetcdfDimension> dimensions(const std::string& variable) const;
  bool is_text(const std::string& variable) const;

  /// Attributes; nullopt where there is none of that name and kind.
  std::optional<std::string> text_attribute(const std::string& variable, const std::string& name) const;
  std::optional<double> number_attribute(const std::string& variable, const std::string& name) const;

  /// A box of a variable of numbers, row-major: `count` elements along each dimension from `first` on, unpacked by
  /// scale_factor and add_offset; what is _FillValue or missing_value or outside of the valid range is NaN.
  void read(const std::string& variable, std::span<const std::int64_t> first, std::span<const std::int64_t> count,
            std::span<float> values) const;
  /// All numbers of a variable, unpacked likewise.
  std::vector<double> read(const std::string& variable) const;
  /// All texts of a variable, of strings or of characters (the last dimension).
  std::vector<std::string> read_texts(const std::string& variable) const;

 private:
  int id_of(const std::string& variable) const;
  std::int64_t least_bytes() const;
  template <class T>
  void unpack(int variable, std::span<T> values) const;
  void check(int status, const std::string& what) const;
  std::vector<double> numbers(int variable, const char* name) const;
  double number(int variable, const char* name, double otherwise) const;

  std::string path_;
  int file_ = -1;
};

}  // namespace petaflow::climate
