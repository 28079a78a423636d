// The base of hdf5.cpp, hdf5_attributes.cpp, hdf5_box.cpp and hdf5_dataset.cpp: the lock, owned handles, HDF5's own
// words.  Include nowhere else.
#pragma once

#include <hdf5.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "io/hdf5.hpp"

namespace petaflow::hdf5 {

/// Holds the process-wide HDF5 mutex and keeps HDF5 from printing its error stack.
class Lock {
 public:
  Lock() : lock_(mutex()) {
    // At exit HDF5 1.10 closes again a file that it could not close (disk full) and crashes; ours are closed by then.
    static const herr_t once = H5dont_atexit();
    static_cast<void>(once);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  static std::recursive_mutex& mutex() {
    static auto* const mutex = new std::recursive_mutex;  // never destroyed: files may be closed by static destructors
    return *mutex;
  }

 private:
  std::lock_guard<std::recursive_mutex> lock_;
};

/// A handle with the function that closes it.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, herr_t (*close_id)(hid_t)) : id_(id), close_(close_id) {}
  Handle(Handle&& other) noexcept { *this = std::move(other); }
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() { close(); }

  /// False where HDF5 could not close it; it is gone all the same.
  bool close() {
    if (id_ < 0) return true;
    const Lock lock;
    return close_(std::exchange(id_, -1)) >= 0;
  }
  explicit operator bool() const { return id_ >= 0; }
  operator hid_t() const { return id_; }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

/// Frees what HDF5 allocated for texts of variable length.
inline void free_texts(hid_t type, hid_t space, void* texts) {
#if H5_VERSION_GE(1, 12, 0)
  H5Treclaim(type, space, H5P_DEFAULT, texts);
#else
  H5Dvlen_reclaim(type, space, H5P_DEFAULT, texts);
#endif
}

/// HDF5's error stack from the innermost cause outwards, "; " between, for the end of a sentence; the cause alone
/// where a system call failed.
std::string error_text();

/// Throws a user error with the words of HDF5 added where `ok` is false.
template <typename... Args>
void check(bool ok, fmt::format_string<Args...> text, Args&&... args) {
  if (!ok) user_error("{} (HDF5: {})", fmt::format(text, std::forward<Args>(args)...), error_text());
}

}  // namespace petaflow::hdf5

namespace petaflow {

struct Hdf5File::Impl {
  std::string path;
  hdf5::Handle id;
  int descriptor = -1;  // of a file opened for reading: for pread

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl();
};

struct Hdf5Dataset::Impl {
  std::shared_ptr<Hdf5File::Impl> file;
  std::string name;
  hdf5::Handle id;
  Hdf5Info info;
  bool in_own_file = false;  // and not in one that a link leads to; the file's descriptor is open
  std::int64_t offset = -1;  // where contiguous little-endian f32 data start in the file; -1: to be read through HDF5

  /// Opens what `file` holds under `name`; the caller knows that it is there.
  Impl(std::shared_ptr<Hdf5File::Impl> file, std::string name);
};

namespace hdf5 {

/// Reads bytes at `offset` of the file of a data set around HDF5.
void read_bytes(const Hdf5Dataset::Impl& set, std::int64_t offset, std::span<std::byte> to);

/// Reads rows of a chunked data set of little-endian f32 chunk by chunk, unpacked by this thread.  False where that
/// cannot be done here, or where chunks have more rows than are asked for, which HDF5 keeps for the next call.
bool read_rows_of_chunks(const Hdf5Dataset::Impl& set, std::int64_t first, std::int64_t count, std::span<float> values);

}  // namespace hdf5

}  // namespace petaflow
