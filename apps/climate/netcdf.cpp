#include "climate/netcdf.hpp"

#include <netcdf.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "io/missing_file.hpp"

namespace petaflow::climate {

NetcdfFile::NetcdfFile(const std::string& path) : path_(path) {
  if (const std::string missing = missing_file_text(path); !missing.empty()) user_error("{}", missing);
  const auto lock = lock_hdf5();
  check(nc_open(path.c_str(), NC_NOWRITE, &file_), "is not a readable netCDF file");
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

std::optional<double> NetcdfFile::number(int variable, const char* name) const {
  std::size_t length = 0;
  nc_type type = NC_NAT;
  double value = 0;
  if (nc_inq_att(file_, variable, name, &type, &length) != NC_NOERR || length != 1 || type == NC_CHAR ||
      type == NC_STRING) {
    return std::nullopt;
  }
  if (nc_get_att_double(file_, variable, name, &value) != NC_NOERR) return std::nullopt;
  return value;
}

std::optional<double> NetcdfFile::number_attribute(const std::string& variable, const std::string& name) const {
  const auto lock = lock_hdf5();
  return number(id_of(variable), name.c_str());
}

/// Gaps are compared as the file has them, before they are unpacked.
template <class T>
void NetcdfFile::unpack(int variable, std::span<T> values) const {
  const double scale = number(variable, "scale_factor").value_or(1),
               offset = number(variable, "add_offset").value_or(0);
  const auto fill = number(variable, "_FillValue"), missing = number(variable, "missing_value");
  const auto low = number(variable, "valid_min"), high = number(variable, "valid_max");
  const auto as_stored = [](const std::optional<double>& value) {  // NaN equals nothing
    return value ? static_cast<T>(*value) : std::numeric_limits<T>::quiet_NaN();
  };
  const T gap = as_stored(fill), other_gap = as_stored(missing);
  const T lowest = low ? static_cast<T>(*low) : -std::numeric_limits<T>::infinity();
  const T highest = high ? static_cast<T>(*high) : std::numeric_limits<T>::infinity();
  const bool packed = scale != 1 || offset != 0;
  for (T& x : values) {
    if (x == gap || x == other_gap || x < lowest || x > highest) {
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
