#include "io/checkpoint.hpp"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <span>
#include <sstream>

#include "base/error.hpp"
#include "io/atomic_file.hpp"
#include "io/hdf5.hpp"

namespace petaflow {

namespace {

constexpr std::int64_t kSchema = 1;
const std::string kGroup = "/weights/";

static_assert(std::endian::native == std::endian::little, "checksums are over little-endian bytes");

std::int64_t crc32_of(std::span<const float> values) {
  const auto* const bytes = reinterpret_cast<const Bytef*>(values.data());
  return static_cast<std::int64_t>(crc32_z(crc32_z(0, nullptr, 0), bytes, values.size_bytes()));
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  Hdf5File file = Hdf5File::create(path);
  std::string names;
  for (const NamedArray& array : checkpoint.weights) {
    const std::string name = kGroup + array.name;
    file.write<float>(name, array.dims, array.values);
    file.set_attribute(name, "crc32", crc32_of(array.values));
    names += array.name + "\n";
  }
  file.set_attribute("/", "petaflow_schema", kSchema);
  file.set_attribute("/", "weight_names", names);
  file.set_attribute("/", "model", checkpoint.model);
  file.set_attribute("/", "config", checkpoint.config);
  file.set_attribute("/", "provenance", checkpoint.provenance);
  file.close();
}

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  const std::string temporary = temporary_name(path);
  try {
    write_checkpoint(temporary, checkpoint);
  } catch (...) {
    unlink(temporary.c_str());
    throw;
  }
  publish_file(temporary, path);
}

Checkpoint load_checkpoint(const std::string& path) {
  const Hdf5File file = Hdf5File::open(path);
  const std::int64_t schema = file.integer_attribute("/", "petaflow_schema").value_or(kSchema);
  if (schema > kSchema) {
    user_error("{} was written by a newer petaflow: its schema is {}, this program knows up to {}", path, schema,
               kSchema);
  }
  Checkpoint checkpoint;
  checkpoint.model = file.text_attribute("/", "model").value_or("");
  checkpoint.config = file.text_attribute("/", "config").value_or("");
  checkpoint.provenance = file.text_attribute("/", "provenance").value_or("");

  std::vector<std::string> names = file.datasets(kGroup);
  if (const auto listed = file.text_attribute("/", "weight_names")) {
    names = lines(*listed);
    for (std::string& name : names) name = kGroup + name;
  }
  if (names.empty()) user_error("{} is not a checkpoint: it holds no data sets below {}", path, kGroup);
  for (const std::string& name : names) {
    NamedArray array{name.substr(kGroup.size()), file.dataset(name).info().dims, file.read<float>(name)};
    const auto expected = file.integer_attribute(name, "crc32");
    if (!expected) checkpoint.checked = false;
    if (expected && *expected != crc32_of(array.values)) {
      user_error("{} is corrupt: data set {} has checksum {:08x}, {:08x} was written", path, name,
                 crc32_of(array.values), *expected);
    }
    checkpoint.weights.push_back(std::move(array));
  }
  return checkpoint;
}

std::vector<const NamedArray*> match_weights(const Checkpoint& checkpoint, const std::vector<NamedDims>& model,
                                             const std::string& path) {
  const auto same_name = [](const std::string& name) {
    return [&name](const auto& entry) { return entry.name == name; };
  };
  std::vector<const NamedArray*> matched;
  std::vector<std::string> differences;
  for (const NamedDims& expected : model) {
    const auto found = std::ranges::find_if(checkpoint.weights, same_name(expected.name));
    if (found == checkpoint.weights.end()) {
      differences.push_back(fmt::format("{} is missing", expected.name));
    } else if (found->dims != expected.dims) {
      differences.push_back(
          fmt::format("{} is {}, the model has {}", expected.name, dims_text(found->dims), dims_text(expected.dims)));
    } else {
      matched.push_back(&*found);
    }
  }
  for (const NamedArray& array : checkpoint.weights) {
    if (std::ranges::none_of(model, same_name(array.name))) {
      differences.push_back(fmt::format("{} is not in the model", array.name));
    }
  }
  if (!differences.empty()) {
    constexpr std::size_t kShown = 3;
    std::string text;
    for (std::size_t i = 0; i < std::min(kShown, differences.size()); ++i)
      text += (i == 0 ? "" : "; ") + differences[i];
    if (differences.size() > kShown) text += fmt::format("; and {} more differences", differences.size() - kShown);
    user_error("{} is a checkpoint of another model: {}", path, text);
  }
  return matched;
}

}  // namespace petaflow
