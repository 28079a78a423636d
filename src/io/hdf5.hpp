// HDF5 files for the rest of petaflow: owned handles, every status checked, every error one sentence that names the
// file and the data set.  Source: HDF5 reference manual, C API, 1.10 and later.
//
// HDF5's own calls are serialised by one mutex of the process, as the library may be built without thread safety; rows
// of contiguous f32 data and chunks of f32 and 16-bit integers are read around it with pread, and unpacked outside of
// it. All errors are Error(kUser).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace petaflow {

enum class Hdf5Class { kFloat, kInteger, kText, kOther };

/// Type of the numbers in a file that we write.
enum class Hdf5Type { kF16, kF32, kF64, kU8, kI16, kI32, kI64 };

/// Properties of a data set.
struct Hdf5Info {
  std::vector<std::int64_t> dims;   // empty: a scalar
  std::vector<std::int64_t> chunk;  // empty: contiguous
  Hdf5Class type_class = Hdf5Class::kOther;
  std::int64_t type_bytes = 0;

  bool is_number() const { return type_class == Hdf5Class::kFloat || type_class == Hdf5Class::kInteger; }
  std::int64_t rows() const { return dims.empty() ? 1 : dims[0]; }
  std::int64_t row_elements() const;
  std::string text() const;  // "float32 (250, 28, 32)"
};

/// "(250, 28, 32)"
std::string dims_text(std::span<const std::int64_t> dims);

/// Where element `at` of a box (read_box) is in its array: "(12, 0, 31)".
std::string place_text(std::span<const std::int64_t> first, std::span<const std::int64_t> count, std::int64_t at);

/// How a data set that we write is stored.
struct Hdf5Storage {
  Hdf5Type type = Hdf5Type::kF32;
  std::vector<std::int64_t> chunk = {};  // empty: contiguous
  int gzip = 0;                          // 1-9, needs chunks
  bool shuffle = false;                  // before gzip: first bytes of all numbers, then the second ones, ...
};

/// An open data set; copies share it, and it keeps its file open.  Safe to read from several threads.
class Hdf5Dataset {
 public:
  const std::string& name() const;
  const std::string& path() const;
  const Hdf5Info& info() const;

  /// Reads rows [first, first + count) of the first axis, row-major, converted from any float or integer type.
  /// T: float, double, std::int16_t, std::int32_t, std::int64_t.  Throws on text data, rows that do not exist,
  /// unreadable data.
  template <typename T>
  void read(std::int64_t first, std::int64_t count, std::span<T> values) const;
  /// Reads a box of 16-bit integers, row-major: `count` elements along each axis from `first` on.  Chunks packed by
  /// deflate, shuffled or not, are unpacked by the calling thread.  Throws on other types, boxes that reach outside,
  /// and unsigned numbers above 32767.
  void read_box(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
                std::span<std::int16_t> values) const;
  /// Writes rows [first, first + count), converted to the type in the file.
  template <typename T>
  void write(std::int64_t first, std::int64_t count, std::span<const T> values) const;

  struct Impl;

 private:
  friend class Hdf5File;
  explicit Hdf5Dataset(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// HDF5's mutex of the process, held: for calls of other libraries that call HDF5 themselves, as netCDF does.
std::unique_lock<std::recursive_mutex> lock_hdf5();

/// Whether HDF5 locks the files that are opened from now on (flock), as it does by default.  The environment variable
/// HDF5_USE_FILE_LOCKING has the last word.
void set_hdf5_locking(bool on);

/// Whether a file has HDF5's signature; false where it cannot be read.
bool is_hdf5(const std::string& path);

class Hdf5File {
 public:
  /// Opens for reading.  Missing, unreadable, not HDF5, truncated, damaged and locked files have sentences of their
  /// own.
  static Hdf5File open(const std::string& path);
  /// Creates a file, replacing an old one; HDF5 1.8 and later read it.
  static Hdf5File create(const std::string& path);

  const std::string& path() const;

  /// Full names of all data sets below a group, in order of name; empty where there is no such group.
  std::vector<std::string> datasets(const std::string& group = "/") const;
  /// The same for a message: the first dozen and the number of the others; "none".
  std::string contents() const;
  bool has(const std::string& name) const;
  /// Throws, naming the data sets that there are, where this one is missing.
  Hdf5Dataset dataset(const std::string& name) const;
  /// The whole of a data set.
  template <typename T>
  std::vector<T> read(const std::string& name) const;

  /// Makes a data set, and the groups above it.
  Hdf5Dataset create_dataset(const std::string& name, const std::vector<std::int64_t>& dims,
                             const Hdf5Storage& storage = {});
  template <typename T>
  void write(const std::string& name, const std::vector<std::int64_t>& dims, std::span<const T> values,
             const Hdf5Storage& storage = {}) {
    create_dataset(name, dims, storage).template write<T>(0, dims.empty() ? 1 : dims[0], values);
  }
  /// One text per row, padded with zeros to the longest, as NumPy writes its byte strings.
  void write_texts(const std::string& name, std::span<const std::string> texts);
  /// The texts of a data set, of fixed or variable length, without padding; a user error where it holds none.
  std::vector<std::string> read_texts(const std::string& name) const;
  void create_group(const std::string& name);

  /// Attributes of a group or data set ("/" is the file itself); nullopt where there is none of that name and kind.
  std::optional<std::string> text_attribute(const std::string& object, const std::string& name) const;
  std::optional<std::int64_t> integer_attribute(const std::string& object, const std::string& name) const;
  void set_attribute(const std::string& object, const std::string& name, const std::string& value);
  void set_attribute(const std::string& object, const std::string& name, std::int64_t value);

  /// Writes everything out; throws where that fails (disk full).  The destructor closes too, but cannot tell.
  void close();

  struct Impl;

 private:
  explicit Hdf5File(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// Lets `write` fill a new file under a temporary name, which is published as `path` (atomic_file.hpp).  Nothing is
/// left behind where that fails; what `write` throws is thrown on.
void write_hdf5_atomically(const std::string& path, const std::function<void(Hdf5File&)>& write);

}  // namespace petaflow
