// Data sets of HDF5 files: what they are, reading and writing rows.
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include <fmt/ranges.h>

#include "io/hdf5_handle.hpp"

namespace petaflow {

using hdf5::check;
using hdf5::Handle;
using hdf5::Lock;

namespace {

template <typename T>
hid_t memory_type();
template <>
hid_t memory_type<float>() {
  return H5T_NATIVE_FLOAT;
}
template <>
hid_t memory_type<double>() {
  return H5T_NATIVE_DOUBLE;
}
template <>
hid_t memory_type<std::int16_t>() {
  return H5T_NATIVE_INT16;
}
template <>
hid_t memory_type<std::int32_t>() {
  return H5T_NATIVE_INT32;
}
template <>
hid_t memory_type<std::int64_t>() {
  return H5T_NATIVE_INT64;
}

/// IEEE half precision; HDF5 has had a name for it only since 1.14.4.
Handle half_type() {
  Handle type(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
  const bool ok = H5Tset_fields(type, 15, 10, 5, 0, 10) >= 0 && H5Tset_precision(type, 16) >= 0 &&
                  H5Tset_ebias(type, 15) >= 0 && H5Tset_size(type, 2) >= 0;
  check(ok, "HDF5 has no half precision");
  return type;
}

Handle file_type(Hdf5Type type) {
  switch (type) {
    case Hdf5Type::kF16:
      return half_type();
    case Hdf5Type::kF32:
      return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
    case Hdf5Type::kF64:
      return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
    case Hdf5Type::kU8:
      return {H5Tcopy(H5T_STD_U8LE), H5Tclose};
    case Hdf5Type::kI16:
      return {H5Tcopy(H5T_STD_I16LE), H5Tclose};
    case Hdf5Type::kI32:
      return {H5Tcopy(H5T_STD_I32LE), H5Tclose};
    case Hdf5Type::kI64:
      return {H5Tcopy(H5T_STD_I64LE), H5Tclose};
  }
  return {};
}

Hdf5Class class_of(hid_t type) {
  switch (H5Tget_class(type)) {
    case H5T_FLOAT:
      return Hdf5Class::kFloat;
    case H5T_INTEGER:
    case H5T_ENUM:  // of integers; NumPy's booleans
      return Hdf5Class::kInteger;
    case H5T_STRING:
      return Hdf5Class::kText;
    default:
      return Hdf5Class::kOther;
  }
}

/// The name of the file that holds an object.
std::string file_name(hid_t object) {
  std::string name(static_cast<std::size_t>(std::max<ssize_t>(0, H5Fget_name(object, nullptr, 0))), '\0');
  H5Fget_name(object, name.data(), name.size() + 1);
  return name;
}

/// HDF5's chunk cache is 1 MB by default: a chunk above it is read and decompressed again for each row.  This one holds
/// the chunks of one row; 64 MiB at most.
Handle cache_for(const Hdf5Info& info) {
  constexpr double kLargest = 64.0 * (1 << 20), kSmallest = 1 << 20;
  double bytes = static_cast<double>(info.type_bytes * info.chunk[0]);
  for (std::size_t axis = 1; axis < info.dims.size(); ++axis) {
    const std::int64_t chunk = info.chunk[axis];
    bytes *= static_cast<double>((info.dims[axis] + chunk - 1) / chunk * chunk);
  }
  Handle list(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  constexpr std::size_t kSlots = 12421;
  H5Pset_chunk_cache(list, kSlots, static_cast<std::size_t>(std::clamp(bytes, kSmallest, kLargest)), 1.0);
  return list;
}

/// Refuses a data set with a filter that this library has not: HDF5 says so only when a chunk is read.
void require_filters(const Hdf5Dataset::Impl& set, hid_t made) {
  for (int i = 0; i < H5Pget_nfilters(made); ++i) {
    unsigned flags = 0;
    std::size_t parameters = 0;
    char name[64] = "";
    const H5Z_filter_t filter =
        H5Pget_filter2(made, static_cast<unsigned>(i), &flags, &parameters, nullptr, sizeof name, name, nullptr);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    user_error(
        "{}: data set {} is compressed by the filter {} ({}), which the HDF5 library here does not have; convert the "
        "file where it can be read (h5repack -f GZIP=4 OLD NEW) or name the folder of the filter's plugin in "
        "HDF5_PLUGIN_PATH",
        set.file->path, set.name, *name != '\0' ? name : "without name", filter);
  }
}

/// The checks that reading and writing share; returns the number of elements.
std::int64_t require_rows(const Hdf5Dataset::Impl& set, std::int64_t first, std::int64_t count, std::size_t values) {
  const Hdf5Info& info = set.info;
  if (!info.is_number()) {
    user_error("{}: data set {} is {}; numbers were expected (in Python: array.astype('f4'))", set.file->path, set.name,
               info.text());
  }
  if (first < 0 || count < 0 || first > info.rows() - count) {
    user_error("{}: data set {} has {} rows; rows {} to {} were asked for", set.file->path, set.name, info.rows(),
               first, first + count);
  }
  const std::int64_t elements = count * info.row_elements();
  PETAFLOW_REQUIRE(values == static_cast<std::size_t>(elements), "{}: {} values for {} elements", set.name, values,
                   elements);
  return elements;
}

/// Selects rows in a new file space; empty for a scalar, which HDF5 only takes whole.
std::pair<Handle, Handle> select_rows(const Hdf5Dataset::Impl& set, std::int64_t first, std::int64_t count) {
  Handle in_file(H5Dget_space(set.id), H5Sclose);
  if (set.info.dims.empty()) return {std::move(in_file), Handle(H5Screate(H5S_SCALAR), H5Sclose)};
  std::vector<hsize_t> start(set.info.dims.size(), 0), block(set.info.dims.begin(), set.info.dims.end());
  start[0] = static_cast<hsize_t>(first);
  block[0] = static_cast<hsize_t>(count);
  check(H5Sselect_hyperslab(in_file, H5S_SELECT_SET, start.data(), nullptr, block.data(), nullptr) >= 0,
        "{}: data set {}: rows {} to {} cannot be selected", set.file->path, set.name, first, first + count);
  Handle in_memory(H5Screate_simple(static_cast<int>(block.size()), block.data(), nullptr), H5Sclose);
  return {std::move(in_file), std::move(in_memory)};
}

}  // namespace

void hdf5::read_bytes(const Hdf5Dataset::Impl& set, std::int64_t offset, std::span<std::byte> to) {
  while (!to.empty()) {
    const ssize_t got = pread(set.file->descriptor, to.data(), to.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      user_error("{}: data set {} ends at byte {} of the file: truncated?", set.file->path, set.name, offset);
    offset += got;
    to = to.subspan(static_cast<std::size_t>(got));
  }
}

std::int64_t Hdf5Info::row_elements() const {
  return dims.empty() ? 1 : std::accumulate(dims.begin() + 1, dims.end(), std::int64_t{1}, std::multiplies<>());
}

std::string dims_text(std::span<const std::int64_t> dims) { return fmt::format("({})", fmt::join(dims, ", ")); }

std::string Hdf5Info::text() const {
  const char* const name = type_class == Hdf5Class::kFloat     ? "float"
                           : type_class == Hdf5Class::kInteger ? "integer"
                           : type_class == Hdf5Class::kText    ? "text"
                                                               : "neither number nor text";
  return (is_number() ? fmt::format("{}{} ", name, 8 * type_bytes) : fmt::format("{} ", name)) + dims_text(dims);
}

Hdf5Dataset::Impl::Impl(std::shared_ptr<Hdf5File::Impl> file_in, std::string name_in)
    : file(std::move(file_in)), name(std::move(name_in)) {
  const Lock lock;
  id = Handle(H5Dopen2(file->id, name.c_str(), H5P_DEFAULT), H5Dclose);
  check(static_cast<bool>(id), "{}: {} is not a readable data set", file->path, name);
  const Handle type(H5Dget_type(id), H5Tclose), space(H5Dget_space(id), H5Sclose),
      made(H5Dget_create_plist(id), H5Pclose);
  check(type && space && made, "{}: data set {} is damaged", file->path, name);
  require_filters(*this, made);
  info.type_class = class_of(type);
  info.type_bytes = static_cast<std::int64_t>(H5Tget_size(type));
  const int rank = H5Sget_simple_extent_ndims(space);
  check(rank >= 0, "{}: data set {} is damaged", file->path, name);
  std::vector<hsize_t> sizes(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space, sizes.data(), nullptr);
  double bytes = static_cast<double>(info.type_bytes);
  for (const hsize_t size : sizes) bytes *= static_cast<double>(std::max<hsize_t>(size, 1));
  constexpr double kAbsurdBytes = 1e18;
  if (bytes > kAbsurdBytes) user_error("{}: data set {} is damaged: it claims {:.3g} bytes", file->path, name, bytes);
  info.dims.assign(sizes.begin(), sizes.end());
  const H5D_layout_t layout = H5Pget_layout(made);
  if (layout == H5D_CHUNKED && rank > 0) {
    H5Pget_chunk(made, rank, sizes.data());
    info.chunk.assign(sizes.begin(), sizes.end());
    id = Handle(H5Dopen2(file->id, name.c_str(), cache_for(info)), H5Dclose);
    check(static_cast<bool>(id), "{}: {} is not a readable data set", file->path, name);
  }
  const bool plain = layout == H5D_CONTIGUOUS && H5Tequal(type, H5T_IEEE_F32LE) > 0;
  in_own_file = file->descriptor >= 0 && file_name(id) == file_name(file->id);  // a link may lead into another file
  if (plain && in_own_file && std::endian::native == std::endian::little) {
    const haddr_t at = H5Dget_offset(id);  // undefined for data that were never written or are stored outside
    if (at != HADDR_UNDEF) offset = static_cast<std::int64_t>(at);
  }
}

const std::string& Hdf5Dataset::name() const { return impl_->name; }
const std::string& Hdf5Dataset::path() const { return impl_->file->path; }
const Hdf5Info& Hdf5Dataset::info() const { return impl_->info; }

template <typename T>
void Hdf5Dataset::read(std::int64_t first, std::int64_t count, std::span<T> values) const {
  const std::int64_t elements = require_rows(*impl_, first, count, values.size());
  if (elements == 0) return;
  if (std::is_same_v<T, float> && impl_->offset >= 0) {
    hdf5::read_bytes(*impl_, impl_->offset + first * impl_->info.row_elements() * 4, std::as_writable_bytes(values));
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (hdf5::read_rows_of_chunks(*impl_, first, count, values)) return;
  }
  if (std::is_integral_v<T> && impl_->info.type_class == Hdf5Class::kFloat) {
    std::vector<double> wide(values.size());  // HDF5 1.10 turns negative half-precision numbers into wrong integers
    read<double>(first, count, wide);
    std::ranges::transform(wide, values.begin(), [](double x) { return static_cast<T>(x); });
    return;
  }
  const Lock lock;
  const auto [in_file, in_memory] = select_rows(*impl_, first, count);
  check(H5Dread(impl_->id, memory_type<T>(), in_memory, in_file, H5P_DEFAULT, values.data()) >= 0,
        "{}: data set {}: rows {} to {} cannot be read: damaged?", path(), name(), first, first + count);
}

template <typename T>
void Hdf5Dataset::write(std::int64_t first, std::int64_t count, std::span<const T> values) const {
  if (require_rows(*impl_, first, count, values.size()) == 0) return;
  const Lock lock;
  const auto [in_file, in_memory] = select_rows(*impl_, first, count);
  check(H5Dwrite(impl_->id, memory_type<T>(), in_memory, in_file, H5P_DEFAULT, values.data()) >= 0,
        "{}: data set {} cannot be written: is the disk full?", path(), name());
}

template <typename T>
std::vector<T> Hdf5File::read(const std::string& name) const {
  const Hdf5Dataset set = dataset(name);
  const std::int64_t elements = set.info().rows() * set.info().row_elements();
  std::vector<T> values;
  try {
    values.resize(static_cast<std::size_t>(elements));
  } catch (const std::exception&) {
    user_error("{}: data set {} {} does not fit into memory", path(), name, set.info().text());
  }
  set.read<T>(0, set.info().rows(), values);
  return values;
}

Hdf5Dataset Hdf5File::create_dataset(const std::string& name, const std::vector<std::int64_t>& dims,
                                     const Hdf5Storage& storage) {
  const Lock lock;
  const std::vector<hsize_t> sizes(dims.begin(), dims.end()), chunk(storage.chunk.begin(), storage.chunk.end());
  const Handle space(
      dims.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(dims.size()), sizes.data(), nullptr),
      H5Sclose);
  const Handle list(H5Pcreate(H5P_DATASET_CREATE), H5Pclose), links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(links, 1);
  bool ok = true;
  if (!chunk.empty()) ok = H5Pset_chunk(list, static_cast<int>(chunk.size()), chunk.data()) >= 0;
  if (storage.shuffle) ok = ok && H5Pset_shuffle(list) >= 0;
  if (storage.gzip > 0) ok = ok && H5Pset_deflate(list, static_cast<unsigned>(storage.gzip)) >= 0;
  const Handle made(
      ok ? H5Dcreate2(impl_->id, name.c_str(), file_type(storage.type), space, links, list, H5P_DEFAULT) : -1,
      H5Dclose);
  check(static_cast<bool>(made), "{}: data set {} {} cannot be made", path(), name, dims_text(dims));
  return Hdf5Dataset(std::make_shared<Hdf5Dataset::Impl>(impl_, name));
}

void Hdf5File::write_texts(const std::string& name, std::span<const std::string> texts) {
  const Lock lock;
  std::size_t longest = 1;
  for (const std::string& text : texts) longest = std::max(longest, text.size());
  std::string bytes;
  for (const std::string& text : texts) (bytes += text).resize(bytes.size() + longest - text.size(), '\0');
  const hsize_t count = texts.size();
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose), space(H5Screate_simple(1, &count, nullptr), H5Sclose);
  H5Tset_size(type, longest);
  H5Tset_strpad(type, H5T_STR_NULLPAD);
  const Handle made(H5Dcreate2(impl_->id, name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
  check(made && H5Dwrite(made, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) >= 0,
        "{}: data set {} cannot be written", path(), name);
}

std::vector<std::string> Hdf5File::read_texts(const std::string& name) const {
  const Hdf5Dataset set = dataset(name);
  const Lock lock;
  const hid_t id = set.impl_->id;
  const Handle file_type(H5Dget_type(id), H5Tclose), space(H5Dget_space(id), H5Sclose);
  const hssize_t elements = H5Sget_simple_extent_npoints(space);
  constexpr hssize_t kMost = 1'000'000;
  if (set.info().type_class != Hdf5Class::kText || elements < 0 || elements > kMost) {
    user_error("{}: data set {} is {}; texts were expected", path(), name, set.info().text());
  }
  const auto count = static_cast<std::size_t>(elements);
  std::vector<std::string> texts;
  if (H5Tis_variable_str(file_type) > 0) {
    std::vector<char*> pointers(count, nullptr);
    check(H5Dread(id, file_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, pointers.data()) >= 0,
          "{}: data set {} cannot be read: damaged?", path(), name);
    for (const char* text : pointers) texts.emplace_back(text == nullptr ? "" : text);
    hdf5::free_texts(file_type, space, pointers.data());
    return texts;
  }
  const std::size_t width = H5Tget_size(file_type);
  std::vector<char> bytes(count * width);
  check(H5Dread(id, file_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()) >= 0,
        "{}: data set {} cannot be read: damaged?", path(), name);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text(&bytes[i * width], strnlen(&bytes[i * width], width));
    texts.push_back(text.substr(0, text.find_last_not_of(' ') + 1));
  }
  return texts;
}

#define PETAFLOW_INSTANTIATE(T)                                                              \
  template void Hdf5Dataset::read<T>(std::int64_t, std::int64_t, std::span<T>) const;        \
  template void Hdf5Dataset::write<T>(std::int64_t, std::int64_t, std::span<const T>) const; \
  template std::vector<T> Hdf5File::read<T>(const std::string&) const;
PETAFLOW_INSTANTIATE(float)
PETAFLOW_INSTANTIATE(double)
PETAFLOW_INSTANTIATE(std::int16_t)
PETAFLOW_INSTANTIATE(std::int32_t)
PETAFLOW_INSTANTIATE(std::int64_t)
#undef PETAFLOW_INSTANTIATE

}  // namespace petaflow
