#include "io/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

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

namespace {

/// Little-endian numbers of a type as f32; BF16 are the upper halves of f32.
std::vector<float> converted(const std::string& type, std::string_view bytes, const std::string& where) {
  const std::size_t size = type == "F64" ? 8 : type == "F32" ? 4 : type == "BF16" ? 2 : 0;
  if (size == 0) user_error("{} is {}; F32, F64 or BF16 was expected: convert it in Python, x.float()", where, type);
  std::vector<float> values(bytes.size() / size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const char* const at = bytes.data() + i * size;
    if (size == 8) {
      double wide = 0;
      std::memcpy(&wide, at, size);
      values[i] = static_cast<float>(wide);
    } else {
      std::uint32_t word = 0;
      std::memcpy(reinterpret_cast<char*>(&word) + 4 - size, at, size);
      values[i] = std::bit_cast<float>(word);
    }
  }
  if (values.size() * size != bytes.size()) user_error("{} has {} bytes of type {}", where, bytes.size(), type);
  return values;
}

}  // namespace

Checkpoint load_safetensors(const std::string& path) try {
  std::ifstream file(path, std::ios::binary);
  if (!file) user_error("cannot read {}: {}", path, std::strerror(errno));
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof length) std::memcpy(&length, bytes.data(), sizeof length);
  if (length == 0 || length > bytes.size() - sizeof length) {
    user_error("{} is no whole file of safetensors: its header is to have {} bytes, the file has {}", path, length,
               bytes.size());
  }
  const std::string_view arrays = std::string_view(bytes).substr(sizeof length + length);
  Checkpoint checkpoint;
  checkpoint.checked = false;
  const nlohmann::json header = nlohmann::json::parse(std::string_view(bytes).substr(sizeof length, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      checkpoint.config = entry.value("config", "");
      checkpoint.model = entry.value("description", "");
      continue;
    }
    const auto [begin, end] = entry.at("data_offsets").get<std::pair<std::size_t, std::size_t>>();
    if (begin > end || end > arrays.size())
      user_error("{} is truncated: {} ends at byte {} of {}", path, name, end, arrays.size());
    NamedArray array{name, entry.at("shape").get<std::vector<std::int64_t>>(),
                     converted(entry.at("dtype"), arrays.substr(begin, end - begin), path + ": " + name)};
    std::ranges::replace(array.name, '.', '/');
    const auto elements = std::accumulate(array.dims.begin(), array.dims.end(), std::int64_t{1}, std::multiplies<>());
    if (elements != std::ssize(array.values)) {
      user_error("{}: {} has {} numbers for its shape of {}", path, name, array.values.size(), elements);
    }
    checkpoint.weights.push_back(std::move(array));
  }
  if (checkpoint.weights.empty()) user_error("{} holds no weights", path);
  return checkpoint;
} catch (const nlohmann::json::exception& error) {
  user_error("{} is no file of safetensors: {}", path, error.what());
}

}  // namespace petaflow
