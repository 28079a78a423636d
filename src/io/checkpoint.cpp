#include "io/checkpoint.hpp"
#include "io/atomic_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <span>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "io/hdf5.hpp"

namespace petaflow {

namespace {

constexpr std::int64_t kSchema = 2;  // 1: weights only, texts without checksum
const std::string kWeights = "/weights/", kTraining = "/training/";

static_assert(std::endian::native == std::endian::little, "checksums are over little-endian bytes");

uLong crc32_on(uLong crc, const void* bytes, std::size_t count) {
  return crc32_z(crc, static_cast<const Bytef*>(bytes), count);
}

std::int64_t crc32_of(std::span<const float> values) {
  return static_cast<std::int64_t>(crc32_on(crc32_z(0, nullptr, 0), values.data(), values.size_bytes()));
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

std::string names_of(const std::vector<NamedArray>& arrays) {
  std::string names;
  for (const NamedArray& array : arrays) names += array.name + "\n";
  return names;
}

/// The texts of a file.
struct Texts {
  std::string model, config, provenance, training, weight_names, training_names;
  /// Each with the name of its attribute, in the order of the checksum.
  std::array<std::pair<const char*, std::string*>, 6> fields() {
    return {{{"model", &model},
             {"config", &config},
             {"provenance", &provenance},
             {"training", &training},
             {"weight_names", &weight_names},
             {"training_names", &training_names}}};
  }
};

std::int64_t crc32_of(Texts& texts) {
  uLong crc = crc32_z(0, nullptr, 0);
  for (const auto& [name, text] : texts.fields()) crc = crc32_on(crc, text->c_str(), text->size() + 1);
  return static_cast<std::int64_t>(crc);
}

void write_arrays(Hdf5File& file, const std::string& group, const std::vector<NamedArray>& arrays) {
  for (const NamedArray& array : arrays) {
    const std::string name = group + array.name;
    file.write<float>(name, array.dims, array.values);
    file.set_attribute(name, "crc32", crc32_of(array.values));
  }
}

void write_checkpoint(Hdf5File& file, const Checkpoint& checkpoint) {
  write_arrays(file, kWeights, checkpoint.weights);
  write_arrays(file, kTraining, checkpoint.training_arrays);
  Texts texts{checkpoint.model,
              checkpoint.config,
              checkpoint.provenance,
              checkpoint.training,
              names_of(checkpoint.weights),
              names_of(checkpoint.training_arrays)};
  for (const auto& [name, text] : texts.fields()) file.set_attribute("/", name, *text);
  file.set_attribute("/", "texts_crc32", crc32_of(texts));
  file.set_attribute("/", "petaflow_schema", kSchema);
}

// About the size of its file: HDF5 keeps some 400 bytes per array beside the values.
std::size_t size_bytes(const Checkpoint& checkpoint) {
  std::size_t size = checkpoint.config.size() + checkpoint.provenance.size() + 4096;
  for (const auto* arrays : {&checkpoint.weights, &checkpoint.training_arrays}) {
    for (const NamedArray& array : *arrays) size += array.values.size() * sizeof(float) + 400;
  }
  return size;
}

/// Reads arrays of a group and compares their checksums; false where one has none, which is an error in our own files.
bool read_arrays(const Hdf5File& file, const std::string& group, const std::vector<std::string>& names, bool ours,
                 std::vector<NamedArray>& arrays) {
  bool checked = true;
  for (const std::string& name : names) {
    const std::string full = group + name;
    NamedArray array{name, file.dataset(full).info().dims, file.read<float>(full)};
    const auto expected = file.integer_attribute(full, "crc32");
    if (!expected && ours) user_error("{} is corrupt: data set {} has lost its checksum", file.path(), full);
    if (!expected) checked = false;
    if (expected && *expected != crc32_of(array.values)) {
      user_error("{} is corrupt: data set {} has checksum {:08x}, {:08x} was written", file.path(), full,
                 crc32_of(array.values), *expected);
    }
    arrays.push_back(std::move(array));
  }
  return checked;
}

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  try {
    write_hdf5_atomically(path, [&](Hdf5File& file) { write_checkpoint(file, checkpoint); });
  } catch (const Error& error) {
    throw Error(error.kind(), error.what() + room_for(path, size_bytes(checkpoint)));
  }
}

Checkpoint load_checkpoint(const std::string& path) {
  const Hdf5File file = Hdf5File::open(path);
  const std::int64_t schema = file.integer_attribute("/", "petaflow_schema").value_or(1);
  if (schema > kSchema) {
    user_error("{} was written by a newer petaflow: its schema is {}, this program knows up to {}", path, schema,
               kSchema);
  }
  Texts texts;
  for (const auto& [name, text] : texts.fields()) *text = file.text_attribute("/", name).value_or("");
  const std::int64_t written = file.integer_attribute("/", "texts_crc32").value_or(-1);
  if (schema > 1 && written != crc32_of(texts)) {
    user_error("{} is corrupt: its texts have checksum {:08x}, {:08x} was written", path, crc32_of(texts), written);
  }
  std::vector<std::string> names = lines(texts.weight_names);
  if (names.empty()) {  // another tool's
    names = file.datasets(kWeights);
    for (std::string& name : names) name.erase(0, kWeights.size());
  }
  if (names.empty()) user_error("{} is not a checkpoint: it holds no data sets below {}", path, kWeights);
  Checkpoint checkpoint;
  checkpoint.model = texts.model;
  checkpoint.config = texts.config;
  checkpoint.provenance = texts.provenance;
  checkpoint.training = texts.training;
  checkpoint.checked = read_arrays(file, kWeights, names, schema > 1, checkpoint.weights);
  read_arrays(file, kTraining, lines(texts.training_names), schema > 1, checkpoint.training_arrays);
  return checkpoint;
}

std::vector<const NamedArray*> match_arrays(const std::vector<NamedArray>& arrays, const std::vector<NamedDims>& model,
                                            const std::string& path) {
  const auto same_name = [](const std::string& name) {
    return [&name](const auto& entry) { return entry.name == name; };
  };
  std::vector<const NamedArray*> matched;
  std::vector<std::string> differences;
  for (const NamedDims& expected : model) {
    const auto found = std::ranges::find_if(arrays, same_name(expected.name));
    if (found == arrays.end()) {
      differences.push_back(fmt::format("{} is missing", expected.name));
    } else if (found->dims != expected.dims) {
      differences.push_back(
          fmt::format("{} is {}, the model has {}", expected.name, dims_text(found->dims), dims_text(expected.dims)));
    } else {
      matched.push_back(&*found);
    }
  }
  for (const NamedArray& array : arrays) {
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
