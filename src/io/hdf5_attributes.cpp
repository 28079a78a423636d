// Attributes of Hdf5File: texts (written with fixed length, read with fixed or variable length) and integers.
#include <cstring>

#include "io/hdf5_handle.hpp"

namespace petaflow {

using hdf5::check;
using hdf5::Handle;
using hdf5::Lock;

namespace {

/// Empty where there is none of that name.
Handle open_attribute(hid_t file, const std::string& path, const std::string& object, const std::string& name) {
  const htri_t there = H5Aexists_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT);
  check(there >= 0, "{} is damaged: the attributes of {} cannot be read", path, object);
  if (there == 0) return {};
  return {H5Aopen_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose};
}

/// Makes the attribute anew and writes it; `value` has the memory layout of `type`.
void write_attribute(hid_t file, const std::string& path, const std::string& object, const std::string& name,
                     hid_t type, const void* value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  if (H5Aexists_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT) > 0) {
    H5Adelete_by_name(file, object.c_str(), name.c_str(), H5P_DEFAULT);
  }
  const Handle attribute(
      H5Acreate_by_name(file, object.c_str(), name.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  check(attribute && H5Awrite(attribute, type, value) >= 0, "{}: attribute {} of {} cannot be written", path, name,
        object);
}

std::string read_variable_text(hid_t attribute, hid_t space, const std::string& path, const std::string& name) {
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, H5T_VARIABLE);
  const Handle file_type(H5Aget_type(attribute), H5Tclose);
  H5Tset_cset(type, H5Tget_cset(file_type));
  char* text = nullptr;
  check(H5Aread(attribute, type, &text) >= 0, "{}: attribute {} cannot be read", path, name);
  std::string value = text == nullptr ? "" : text;
  hdf5::free_texts(type, space, &text);
  return value;
}

}  // namespace

std::optional<std::string> Hdf5File::text_attribute(const std::string& object, const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_attribute(impl_->id, path(), object, name);
  if (!attribute) return std::nullopt;
  const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1) return std::nullopt;
  if (H5Tis_variable_str(type) > 0) return read_variable_text(attribute, space, path(), name);
  std::string value(H5Tget_size(type), '\0');
  check(H5Aread(attribute, type, value.data()) >= 0, "{}: attribute {} cannot be read", path(), name);
  value.resize(std::strlen(value.c_str()));
  return value;
}

std::optional<std::int64_t> Hdf5File::integer_attribute(const std::string& object, const std::string& name) const {
  const Lock lock;
  const Handle attribute = open_attribute(impl_->id, path(), object, name);
  if (!attribute) return std::nullopt;
  const Handle type(H5Aget_type(attribute), H5Tclose), space(H5Aget_space(attribute), H5Sclose);
  if (H5Tget_class(type) != H5T_INTEGER || H5Sget_simple_extent_npoints(space) != 1) return std::nullopt;
  std::int64_t value = 0;
  check(H5Aread(attribute, H5T_NATIVE_INT64, &value) >= 0, "{}: attribute {} cannot be read", path(), name);
  return value;
}

void Hdf5File::set_attribute(const std::string& object, const std::string& name, const std::string& value) {
  const Lock lock;
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type, value.size() + 1);
  H5Tset_cset(type, H5T_CSET_UTF8);
  write_attribute(impl_->id, path(), object, name, type, value.c_str());
}

void Hdf5File::set_attribute(const std::string& object, const std::string& name, std::int64_t value) {
  const Lock lock;
  write_attribute(impl_->id, path(), object, name, H5T_NATIVE_INT64, &value);
}

}  // namespace petaflow
