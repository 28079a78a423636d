#include "climate/netcdf.hpp"

#include <netcdf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>
#include <string_view>

#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "io/missing_file.hpp"

namespace petaflow::climate {

NetcdfFile::NetcdfFile(const std::string& path) : path_(path) {
  if (const std::string missing = missing_file_text(path); !missing.empty()) user_error("{}", missing);
  const auto lock = lock_hdf5();
  check(nc_open(path.c_str(), NC_NOWRITE, &file_), "is not a readable netCDF file");
  try {
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path)), least = least_bytes();
    if (bytes < least) user_error("{} is truncated: it has {} bytes where its variables take {}", path, bytes, least);
  } catch (...) {
    nc_close(file_);
    throw;
  }
}

// Bytes of a file in one of the classic formats, behind whose end the library reads zeros: a header of names, sizes and
// attributes, then the numbers.  Source: "The NetCDF Classic Format Specification", user's guide, appendix B.
std::int64_t NetcdfFile::least_bytes() const {
  int format = 0, dimensions = 0, variables = 0, attributes = 0, unlimited = -1;
  check(nc_inq_format(file_, &format), "is damaged");
  if (format == NC_FORMAT_NETCDF4 || format == NC_FORMAT_NETCDF4_CLASSIC) return 0;  // HDF5 sees it
  check(nc_inq(file_, &dimensions, &variables, &attributes, &unlimited), "is damaged");
  const std::int64_t count = format == NC_FORMAT_CDF5 ? 8 : 4, begin = format == NC_FORMAT_CLASSIC ? 4 : 8;
  const auto padded = [](std::int64_t bytes) { return (bytes + 3) / 4 * 4; };
  const auto name_bytes = [&](const char* name) { return count + padded(std::ssize(std::string_view(name))); };
  char name[NC_MAX_NAME + 1] = "";
  const auto type_bytes = [&](nc_type type) {
    std::size_t bytes = 0;
    check(nc_inq_type(file_, type, nullptr, &bytes), "is damaged");
    return static_cast<std::int64_t>(bytes);
  };
  const auto attribute_bytes = [&](int variable, int number) {
    std::int64_t bytes = 4 + count;
    for (int i = 0; i < number; ++i) {
      nc_type type = NC_NAT;
      std::size_t length = 0;
      check(nc_inq_attname(file_, variable, i, name), "is damaged");
      check(nc_inq_att(file_, variable, name, &type, &length), "is damaged");
      bytes += name_bytes(name) + 4 + count + padded(static_cast<std::int64_t>(length) * type_bytes(type));
    }
    return bytes;
  };
  std::int64_t bytes = 4 + count + (4 + count) + attribute_bytes(NC_GLOBAL, attributes) + (4 + count);
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < dimensions; ++i) {
    std::size_t size = 0;
    check(nc_inq_dim(file_, i, name, &size), "is damaged");
    bytes += name_bytes(name) + count;
    sizes.push_back(static_cast<std::int64_t>(size));
  }
  std::int64_t fixed = 0, record = 0, last_record = 0, record_variables = 0;
  for (int variable = 0; variable < variables; ++variable) {
    nc_type type = NC_NAT;
    int rank = 0, of_variable = 0;
    std::array<int, NC_MAX_VAR_DIMS> ids{};
    check(nc_inq_var(file_, variable, name, &type, &rank, ids.data(), &of_variable), "is damaged");
    bytes += name_bytes(name) + count + rank * count + attribute_bytes(variable, of_variable) + 4 + count + begin;
    const bool records = rank > 0 && ids[0] == unlimited;
    std::int64_t size = type_bytes(type);
    for (int i = records ? 1 : 0; i < rank; ++i)
      size *= sizes[static_cast<std::size_t>(ids[static_cast<std::size_t>(i)])];
    if (!records) {
      fixed += padded(size);
      continue;
    }
    record += padded(size);
    last_record = size;
    ++record_variables;
  }
  if (record_variables == 1) record = last_record;  // records of one variable are not padded
  if (unlimited >= 0) fixed += record * sizes[static_cast<std::size_t>(unlimited)];
  return bytes + fixed - 3;  // without the padding of the last one
}

NetcdfFile::~NetcdfFile() {
  const auto lock = lock_hdf5();
  nc_close(file_);
}

void NetcdfFile::check(int status, const std::string& what) const {
  if (status != NC_NOERR) user_error("{} {} (netCDF: {})", path_, what, nc_strerror(status));
}

std::vector<std::string> NetcdfFile::variables() const {
  const auto lock = lock_hdf5();
  int count = 0;
  check(nc_inq_nvars(file_, &count), "is damaged");
  std::vector<std::string> names;
  for (int variable = 0; variable < count; ++variable) {
    char name[NC_MAX_NAME + 1] = "";
    check(nc_inq_varname(file_, variable, name), "is damaged");
    names.emplace_back(name);
  }
  return names;
}

std::string NetcdfFile::contents() const {
  constexpr std::size_t kShown = 24;
  const std::vector<std::string> names = variables();
  std::string list;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) list += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) list += fmt::format(" and {} more", names.size() - kShown);
  return names.empty() ? "none" : list;
}

bool NetcdfFile::has(const std::string& variable) const {
  const auto lock = lock_hdf5();
  int id = 0;
  return nc_inq_varid(file_, variable.c_str(), &id) == NC_NOERR;
}

int NetcdfFile::id_of(const std::string& variable) const {
  if (!has(variable)) user_error("{} has no variable {}; it has {}", path_, variable, contents());
  int id = 0;
  nc_inq_varid(file_, variable.c_str(), &id);
  return id;
}

std::vector<NetcdfDimension> NetcdfFile::dimensions(const std::string& variable) const {
  const auto lock = lock_hdf5();
  const int id = id_of(variable);
  int count = 0;
  std::array<int, NC_MAX_VAR_DIMS> ids{};
  check(nc_inq_var(file_, id, nullptr, nullptr, &count, ids.data(), nullptr), "is damaged at " + variable);
  std::vector<NetcdfDimension> dimensions;
  for (int i = 0; i < count; ++i) {
    char name[NC_MAX_NAME + 1] = "";
    std::size_t size = 0;
    check(nc_inq_dim(file_, ids[static_cast<std::size_t>(i)], name, &size), "is damaged at " + variable);
    dimensions.push_back({name, static_cast<std::int64_t>(size)});
  }
  return dimensions;
}

bool NetcdfFile::is_text(const std::string& variable) const {
  const auto lock = lock_hdf5();
  nc_type type = NC_NAT;
  check(nc_inq_vartype(file_, id_of(variable), &type), "is damaged at " + variable);
  return type == NC_STRING || type == NC_CHAR;
}

std::optional<std::string> NetcdfFile::text_attribute(const std::string& variable, const std::string& name) const {
  const auto lock = lock_hdf5();
  const int id = id_of(variable);
  nc_type type = NC_NAT;
  std::size_t length = 0;
  if (nc_inq_att(file_, id, name.c_str(), &type, &length) != NC_NOERR) return std::nullopt;
  if (type == NC_CHAR) {
    std::string text(length, '\0');
    check(nc_get_att_text(file_, id, name.c_str(), text.data()), "is damaged at " + variable);
    return text.substr(0, text.find('\0'));
  }
  if (type != NC_STRING || length != 1) return std::nullopt;
  char* text = nullptr;
  check(nc_get_att_string(file_, id, name.c_str(), &text), "is damaged at " + variable);
  std::string copy = text == nullptr ? "" : text;
  nc_free_string(1, &text);
  return copy;
}

std::vector<double> NetcdfFile::numbers(int variable, const char* name) const {
  std::size_t length = 0;
  nc_type type = NC_NAT;
  if (nc_inq_att(file_, variable, name, &type, &length) != NC_NOERR || type == NC_CHAR || type == NC_STRING) return {};
  std::vector<double> values(length);
  if (nc_get_att_double(file_, variable, name, values.data()) != NC_NOERR) return {};
  return values;
}

double NetcdfFile::number(int variable, const char* name, double otherwise) const {
  const std::vector<double> values = numbers(variable, name);
  return values.size() == 1 ? values.front() : otherwise;
}

std::optional<double> NetcdfFile::number_attribute(const std::string& variable, const std::string& name) const {
  const auto lock = lock_hdf5();
  const std::vector<double> values = numbers(id_of(variable), name.c_str());
  return values.size() == 1 ? std::optional(values.front()) : std::nullopt;
}

/// Gaps are compared as the file has them, before they are unpacked.
template <class T>
void NetcdfFile::unpack(int variable, std::span<T> values) const {
  const double scale = number(variable, "scale_factor", 1), offset = number(variable, "add_offset", 0);
  std::vector<T> gaps;
  for (const char* name : {"_FillValue", "missing_value"}) {
    for (const double value : numbers(variable, name)) gaps.push_back(static_cast<T>(value));  // NaN equals nothing
  }
  constexpr double kAll = std::numeric_limits<double>::infinity();
  const std::vector<double> range = numbers(variable, "valid_range");
  const auto lowest = static_cast<T>(range.size() == 2 ? range[0] : number(variable, "valid_min", -kAll));
  const auto highest = static_cast<T>(range.size() == 2 ? range[1] : number(variable, "valid_max", kAll));
  const bool packed = scale != 1 || offset != 0;
  for (T& x : values) {
    if (std::ranges::find(gaps, x) != gaps.end() || x < lowest || x > highest) {
      x = std::numeric_limits<T>::quiet_NaN();
    } else if (packed) {
      x = static_cast<T>(static_cast<double>(x) * scale + offset);
    }
  }
}

void NetcdfFile::read(const std::string& variable, std::span<const std::int64_t> first,
                      std::span<const std::int64_t> count, std::span<float> values) const {
  const auto elements = std::accumulate(count.begin(), count.end(), std::int64_t{1}, std::multiplies<>());
  PETAFLOW_REQUIRE(first.size() == count.size() && std::ssize(values) == elements, "{}: {} numbers of {}", variable,
                   values.size(), elements);
  int id = 0;
  {
    const auto lock = lock_hdf5();
    id = id_of(variable);
    const std::vector<std::size_t> start(first.begin(), first.end()), length(count.begin(), count.end());
    check(nc_get_vara_float(file_, id, start.data(), length.data(), values.data()), "cannot be read at " + variable);
  }
  const auto lock = lock_hdf5();
  unpack(id, values);
}

std::vector<double> NetcdfFile::read(const std::string& variable) const {
  const auto lock = lock_hdf5();
  std::size_t elements = 1;
  for (const NetcdfDimension& dimension : dimensions(variable)) elements *= static_cast<std::size_t>(dimension.size);
  std::vector<double> values(elements);
  const int id = id_of(variable);
  check(nc_get_var_double(file_, id, values.data()), "cannot be read at " + variable);
  unpack(id, std::span(values));
  return values;
}

std::vector<std::string> NetcdfFile::read_texts(const std::string& variable) const {
  const auto lock = lock_hdf5();
  const int id = id_of(variable);
  nc_type type = NC_NAT;
  check(nc_inq_vartype(file_, id, &type), "is damaged at " + variable);
  const std::vector<NetcdfDimension> dims = dimensions(variable);
  std::size_t elements = 1;
  for (const NetcdfDimension& dimension : dims) elements *= static_cast<std::size_t>(dimension.size);
  std::vector<std::string> texts;
  if (type == NC_STRING) {
    std::vector<char*> found(elements, nullptr);
    check(nc_get_var_string(file_, id, found.data()), "cannot be read at " + variable);
    for (const char* text : found) texts.emplace_back(text == nullptr ? "" : text);
    nc_free_string(elements, found.data());
    return texts;
  }
  std::string characters(elements, '\0');
  check(nc_get_var_text(file_, id, characters.data()), "cannot be read at " + variable);
  const std::size_t length = dims.empty() ? 1 : static_cast<std::size_t>(dims.back().size);
  for (std::size_t at = 0; at < elements; at += length) {
    texts.emplace_back(characters.substr(at, length).c_str());  // without padding
  }
  return texts;
}

}  // namespace petaflow::climate
