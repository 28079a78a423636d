#include "io/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "io/atomic_file.hpp"

namespace petaflow {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

std::string pytorch_name(const std::string& name) {
  std::string result = name;
  std::ranges::replace(result, '/', '.');
  return result;
}

std::string safetensors_header(std::span<const NamedArray> arrays, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header;
  header["__metadata__"] = metadata;
  std::size_t offset = 0;
  for (const NamedArray& array : arrays) {
    const std::string name = pytorch_name(array.name);
    if (header.contains(name)) user_error("two weights have the name {} in PyTorch; rename one of the layers", name);
    const std::size_t end = offset + array.values.size() * sizeof(float);
    header[name] = {{"dtype", "F32"}, {"shape", array.dims}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text;
}

void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const std::map<std::string, std::string>& metadata) {
  std::string bytes = safetensors_header(arrays, metadata);
  for (const NamedArray& array : arrays) {
    bytes.append(reinterpret_cast<const char*>(array.values.data()), array.values.size() * sizeof(float));
  }
  write_file_atomically(path, bytes);
}

}  // namespace petaflow
