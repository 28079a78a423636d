// Boxes of chunked data sets of 16-bit integers or f32.  Chunks are read as they are stored, around HDF5 where it says
// where they are, and unpacked here: HDF5 reads and unpacks one at a time in the whole process, and its filters cost
// more than the reading.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "io/gzip.hpp"
#include "io/hdf5_handle.hpp"

#if H5_VERSION_GE(1, 10, 3)
#define PETAFLOW_HDF5_READS_STORED_CHUNKS
#endif

namespace petaflow {

using hdf5::check;
using hdf5::Handle;
using hdf5::Lock;

namespace {

using Index = std::vector<std::int64_t>;

/// How numbers of 16 bits come into memory.  Signed and unsigned ones keep their bits.
hid_t type_in_memory(bool is_signed) { return is_signed ? H5T_NATIVE_INT16 : H5T_NATIVE_UINT16; }

/// The filters of a chunked data set, in the order in which they were applied; `known`: all of them can be undone here.
template <class T>
struct Filters {
  std::vector<H5Z_filter_t> list;
  bool known = false;
  bool addressed = false;  // chunks are where HDF5 says, in the file that we have open
  hsize_t file_bytes = 0;  // of the file that holds the data set: no chunk in it is longer
  T fill = 0;              // the numbers of chunks that were never written
};

/// @param in_file, in_memory  types of numbers that have the same bits
template <class T>
Filters<T> filters_of(const Hdf5Dataset::Impl& set, hid_t in_file, hid_t in_memory) {
  Filters<T> filters;
#ifdef PETAFLOW_HDF5_READS_STORED_CHUNKS
  const Lock lock;
  const Handle made(H5Dget_create_plist(set.id), H5Pclose), type(H5Dget_type(set.id), H5Tclose);
  const Handle file(H5Iget_file_id(set.id), H5Fclose), file_made(H5Fget_create_plist(file), H5Pclose);
  H5Fget_filesize(file, &filters.file_bytes);
  hsize_t user_block = 1;
  filters.addressed = set.in_own_file && H5Pget_userblock(file_made, &user_block) >= 0 && user_block == 0;
  filters.known = std::endian::native == std::endian::little && H5Tequal(type, in_file) > 0;
  H5Pget_fill_value(made, in_memory, &filters.fill);  // stays 0 where the file defines none
  for (int i = 0; i < H5Pget_nfilters(made); ++i) {
    unsigned flags = 0, config = 0;
    std::size_t values = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(made, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config);
    filters.list.push_back(filter);
    filters.known = filters.known && (filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE);
  }
#endif
  return filters;
}

/// Puts the first bytes of all numbers, then the second ones, ... back together.
template <std::size_t kSize>
void unshuffle(std::vector<std::byte>& bytes, std::vector<std::byte>& buffer) {
  const std::size_t count = bytes.size() / kSize;
  buffer.resize(bytes.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t b = 0; b < kSize; ++b) buffer[kSize * i + b] = bytes[b * count + i];
  }
  bytes.swap(buffer);
}

/// Reads the numbers of the chunk whose corner is `corner`; false where it was never written.
template <class T>
bool read_chunk(const Hdf5Dataset::Impl& set, const Filters<T>& filters, const Index& corner, std::size_t chunk_bytes,
                std::vector<std::byte>& bytes) {
#ifdef PETAFLOW_HDF5_READS_STORED_CHUNKS
  thread_local std::vector<std::byte> buffer;
  const std::vector<hsize_t> offset(corner.begin(), corner.end());
  std::uint32_t skipped = 0;  // bit i: filter i was not applied to this chunk
  haddr_t address = HADDR_UNDEF;
  {
    const Lock lock;
    hsize_t stored = 0;
#if H5_VERSION_GE(1, 10, 5)
    unsigned mask = 0;
    check(H5Dget_chunk_info_by_coord(set.id, offset.data(), &mask, &address, &stored) >= 0,
          "{}: data set {} is damaged", set.file->path, set.name);
    skipped = mask;
#else
    check(H5Dget_chunk_storage_size(set.id, offset.data(), &stored) >= 0, "{}: data set {} is damaged", set.file->path,
          set.name);
#endif
    if (stored == 0) return false;
    constexpr std::size_t kMostInflated = 1032;  // bytes from one, by deflate (RFC 1951)
    if (stored > filters.file_bytes || chunk_bytes / kMostInflated > stored) {
      user_error("{}: data set {} is damaged: a chunk of {} bytes is said to be stored in {} of {}", set.file->path,
                 set.name, chunk_bytes, stored, filters.file_bytes);
    }
    bytes.resize(stored);
    if (!filters.addressed) address = HADDR_UNDEF;
    check(address != HADDR_UNDEF || H5Dread_chunk(set.id, H5P_DEFAULT, offset.data(), &skipped, bytes.data()) >= 0,
          "{}: data set {}: a chunk cannot be read: truncated?", set.file->path, set.name);
  }
  if (address != HADDR_UNDEF) {
    hdf5::read_bytes(set, static_cast<std::int64_t>(address), bytes);
  }
  for (std::size_t i = filters.list.size(); i-- > 0;) {
    if ((skipped >> i & 1U) != 0) continue;
    if (filters.list[i] == H5Z_FILTER_SHUFFLE) {
      unshuffle<sizeof(T)>(bytes, buffer);
    } else {
      buffer.resize(chunk_bytes);
      if (!inflate_zlib(bytes, buffer)) {
        user_error("{}: data set {}: a chunk is damaged: it cannot be decompressed", set.file->path, set.name);
      }
      bytes.swap(buffer);
    }
  }
  if (bytes.size() != chunk_bytes) {
    user_error("{}: data set {}: a chunk is damaged: it has {} of {} bytes", set.file->path, set.name, bytes.size(),
               chunk_bytes);
  }
#endif
  return true;
}

/// Calls f(index) for each index of a box, last axis fastest; `step` apart along each axis.
template <class F>
void for_each_index(const Index& first, const Index& last, const Index& step, const F& f) {
  Index index = first;
  while (true) {
    f(index);
    std::size_t axis = index.size();
    while (axis > 0 && (index[axis - 1] += step[axis - 1]) >= last[axis - 1]) {
      --axis;
      index[axis] = first[axis];
    }
    if (axis == 0) return;
  }
}

/// Elements between neighbours along each axis of a row-major array.
Index strides_of(const Index& dims) {
  Index strides(dims.size(), 1);
  for (std::size_t axis = dims.size() - 1; axis > 0; --axis) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

/// Copies what a chunk and a box have in common from the chunk's numbers to the box's; `fill` where there is no chunk.
template <class T>
void copy_common(const Index& chunk_first, const Index& chunk_dims, const T* chunk, T fill, const Index& first,
                 const Index& count, T* values) {
  const std::size_t rank = first.size();
  const Index chunk_strides = strides_of(chunk_dims), box_strides = strides_of(count);
  Index from(rank), to(rank), step(rank, 1);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    from[axis] = std::max(first[axis], chunk_first[axis]);
    to[axis] = std::min(first[axis] + count[axis], chunk_first[axis] + chunk_dims[axis]);
  }
  // The last two axes at once, so that neither short rows nor single channels cost a call each.
  const std::int64_t width = to.back() - from.back(), rows = rank > 1 ? to[rank - 2] - from[rank - 2] : 1;
  const std::int64_t chunk_row = chunk_dims.back(), box_row = count.back();
  step.back() = width;
  if (rank > 1) step[rank - 2] = rows;
  for_each_index(from, to, step, [&](const Index& index) {
    T* target = values;
    for (std::size_t axis = 0; axis < rank; ++axis) target += (index[axis] - first[axis]) * box_strides[axis];
    if (chunk == nullptr) {
      for (std::int64_t row = 0; row < rows; ++row) std::fill_n(target + row * box_row, width, fill);
      return;
    }
    const T* source = chunk;
    for (std::size_t axis = 0; axis < rank; ++axis) source += (index[axis] - chunk_first[axis]) * chunk_strides[axis];
    if (width == chunk_row && width == box_row) {
      std::copy_n(source, rows * width, target);
    } else {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < width; ++i) target[row * box_row + i] = source[row * chunk_row + i];
      }
    }
  });
}

template <class T>
void read_chunks(const Hdf5Dataset::Impl& set, const Filters<T>& filters, const Index& first, const Index& count,
                 std::span<T> values) {
  thread_local std::vector<std::byte> bytes;
  const Index& chunk = set.info.chunk;
  std::size_t chunk_bytes = sizeof(T);
  for (const std::int64_t edge : chunk) chunk_bytes *= static_cast<std::size_t>(edge);
  Index from(first.size()), to(first.size());
  for (std::size_t axis = 0; axis < first.size(); ++axis) {
    from[axis] = first[axis] / chunk[axis] * chunk[axis];
    to[axis] = first[axis] + count[axis];
  }
  for_each_index(from, to, chunk, [&](const Index& corner) {
    const bool written = read_chunk(set, filters, corner, chunk_bytes, bytes);
    const auto* const numbers = written ? reinterpret_cast<const T*>(bytes.data()) : nullptr;
    copy_common(corner, chunk, numbers, filters.fill, first, count, values.data());
  });
}

/// Through HDF5, which knows all types, layouts and filters.
void read_hyperslab(const Hdf5Dataset::Impl& set, bool is_signed, const Index& first, const Index& count,
                    std::span<std::int16_t> values) {
  std::ranges::fill(values, std::int16_t{0});  // HDF5 leaves alone what was never written and has no fill value
  const Lock lock;
  const Handle in_file(H5Dget_space(set.id), H5Sclose);
  const std::vector<hsize_t> start(first.begin(), first.end()), block(count.begin(), count.end());
  const Handle in_memory(H5Screate_simple(static_cast<int>(block.size()), block.data(), nullptr), H5Sclose);
  check(H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start.data(), nullptr, block.data(), nullptr) >= 0 &&
            H5Dread(set.id, type_in_memory(is_signed), in_memory, in_file, H5P_DEFAULT, values.data()) >= 0,
        "{}: data set {} cannot be read: damaged?", set.file->path, set.name);
}

bool is_signed_type(const Hdf5Dataset::Impl& set) {
  const Lock lock;
  const Handle type(H5Dget_type(set.id), H5Tclose);
  return H5Tget_sign(type) != H5T_SGN_NONE;
}

}  // namespace

bool hdf5::read_rows_of_chunks(const Hdf5Dataset::Impl& set, std::int64_t first, std::int64_t count,
                               std::span<float> values) {
  const Index& chunk = set.info.chunk;
  if (chunk.empty() || chunk.front() > count) return false;
  const auto filters = filters_of<float>(set, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT);
  if (!filters.known) return false;
  Index from(chunk.size(), 0), size = set.info.dims;
  from.front() = first;
  size.front() = count;
  read_chunks<float>(set, filters, from, size, values);
  return true;
}

std::string place_text(std::span<const std::int64_t> first, std::span<const std::int64_t> count, std::int64_t at) {
  Index place(first.begin(), first.end());
  for (std::size_t axis = place.size(); axis-- > 0; at /= count[axis]) place[axis] += at % count[axis];
  return dims_text(place);
}

void Hdf5Dataset::read_box(std::span<const std::int64_t> first, std::span<const std::int64_t> count,
                           std::span<std::int16_t> values) const {
  const Hdf5Info& set = info();
  if (set.type_class != Hdf5Class::kInteger || set.type_bytes != 2) {
    user_error("{}: data set {} is {}; integers of 16 bits were expected", path(), name(), set.text());
  }
  std::int64_t elements = 1;
  bool inside = first.size() == set.dims.size() && count.size() == set.dims.size();
  for (std::size_t axis = 0; inside && axis < set.dims.size(); ++axis) {
    inside = first[axis] >= 0 && count[axis] > 0 && first[axis] <= set.dims[axis] - count[axis];
    elements *= count[axis];
  }
  if (!inside) {
    user_error("{}: data set {} is {}; {} from {} on were asked for", path(), name(), set.text(), dims_text(count),
               dims_text(first));
  }
  PETAFLOW_REQUIRE(values.size() == static_cast<std::size_t>(elements), "{}: {} values for {} elements", name(),
                   values.size(), elements);
  const Index from(first.begin(), first.end()), size(count.begin(), count.end());
  const bool is_signed = is_signed_type(*impl_);
  Filters<std::int16_t> filters;
  if (!set.chunk.empty()) {
    filters = filters_of<std::int16_t>(*impl_, is_signed ? H5T_STD_I16LE : H5T_STD_U16LE, type_in_memory(is_signed));
  }
  if (filters.known) {
    read_chunks(*impl_, filters, from, size, values);
  } else {
    read_hyperslab(*impl_, is_signed, from, size, values);
  }
  if (is_signed) return;
  const auto large = std::ranges::find_if(values, [](std::int16_t value) { return value < 0; });
  if (large == values.end()) return;
  user_error("{}: data set {}: the number at {} is {}; at most 32767 was expected", path(), name(),
             place_text(first, count, large - values.begin()), static_cast<std::uint16_t>(*large));
}

}  // namespace petaflow
