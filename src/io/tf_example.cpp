#include "io/tf_example.hpp"

#include <bit>
#include <cstring>
#include <functional>

#include "base/error.hpp"

namespace petaflow {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");

// Wire types of protocol buffers (developers' guide, "Encoding").
enum class Wire : std::uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// Reads the fields of one message.
class Fields {
 public:
  Fields(std::string_view message, const std::string& where) : rest_(message), where_(where) {}

  /// Calls f(number, wire type) for each field; f takes the field's value by varint(), bytes() or fixed32().  Fields
  /// that it does not know it skips.
  template <class F>
  void for_each(const F& f) {
    while (!rest_.empty()) {
      const std::uint64_t key = varint();
      f(key >> 3, static_cast<Wire>(key & 7));
    }
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if ((byte & 0x80U) == 0) return value;
    }
    damaged();
  }
  std::string_view bytes() { return take(varint()); }
  float fixed32() {
    float value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  void skip(Wire wire) {
    switch (wire) {
      case Wire::kVarint:
        varint();
        return;
      case Wire::kFixed64:
        take(8);
        return;
      case Wire::kBytes:
        bytes();
        return;
      case Wire::kFixed32:
        take(4);
        return;
    }
    damaged();
  }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > rest_.size()) damaged();
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  [[noreturn]] void damaged() const { user_error("{} holds no tf.train.Example", where_); }

  std::string_view rest_;
  const std::string& where_;
};

// BytesList, FloatList and Int64List have their values in field 1.
void parse_list(std::uint64_t kind, std::string_view message, const std::string& where, TfFeature& feature) {
  Fields list(message, where);
  list.for_each([&](std::uint64_t number, Wire wire) {
    if (number != 1) return list.skip(wire);
    if (kind == 1 && wire == Wire::kBytes) {
      feature.bytes.push_back(list.bytes());
    } else if (kind == 2 && wire == Wire::kFixed32) {
      feature.floats.push_back(list.fixed32());
    } else if (kind == 2 && wire == Wire::kBytes) {
      Fields packed(list.bytes(), where);
      while (!packed.empty()) feature.floats.push_back(packed.fixed32());
    } else if (kind == 3 && wire == Wire::kVarint) {
      feature.integers.push_back(static_cast<std::int64_t>(list.varint()));
    } else if (kind == 3 && wire == Wire::kBytes) {
      Fields packed(list.bytes(), where);
      while (!packed.empty()) feature.integers.push_back(static_cast<std::int64_t>(packed.varint()));
    } else {
      list.skip(wire);
    }
  });
}

// Feature: one of bytes_list = 1, float_list = 2, int64_list = 3.
TfFeature parse_feature(std::string_view message, const std::string& where) {
  TfFeature feature;
  Fields fields(message, where);
  fields.for_each([&](std::uint64_t kind, Wire wire) {
    if (kind < 1 || kind > 3 || wire != Wire::kBytes) return fields.skip(wire);
    parse_list(kind, fields.bytes(), where, feature);
  });
  return feature;
}

void append_varint(std::string& message, std::uint64_t value) {
  for (; value >= 0x80U; value >>= 7) message.push_back(static_cast<char>(value | 0x80U));
  message.push_back(static_cast<char>(value));
}

void append_bytes(std::string& message, std::uint64_t number, std::string_view bytes) {
  append_varint(message, number << 3 | static_cast<std::uint64_t>(Wire::kBytes));
  append_varint(message, bytes.size());
  message.append(bytes);
}

std::string feature_message(const TfFeature& feature) {
  std::string list, values, message;
  for (const std::string_view bytes : feature.bytes) append_bytes(list, 1, bytes);
  if (!feature.bytes.empty()) append_bytes(message, 1, list);
  if (!feature.floats.empty()) {
    values.assign(reinterpret_cast<const char*>(feature.floats.data()), feature.floats.size() * sizeof(float));
    append_bytes(list, 1, values);
    append_bytes(message, 2, list);
  }
  if (!feature.integers.empty()) {
    for (const std::int64_t value : feature.integers) append_varint(values, static_cast<std::uint64_t>(value));
    append_bytes(list, 1, values);
    append_bytes(message, 3, list);
  }
  return message;
}

}  // namespace

std::string tf_example(const std::map<std::string, TfFeature, std::less<>>& features) {
  std::string map;
  for (const auto& [name, feature] : features) {
    const int kinds = !feature.bytes.empty() + !feature.floats.empty() + !feature.integers.empty();
    PETAFLOW_REQUIRE(kinds == 1, "feature {} has values in {} lists", name, kinds);
    std::string entry;
    append_bytes(entry, 1, name);
    append_bytes(entry, 2, feature_message(feature));
    append_bytes(map, 1, entry);
  }
  std::string message;
  append_bytes(message, 1, map);
  return message;
}

std::map<std::string, TfFeature, std::less<>> parse_tf_example(std::string_view message, const std::string& where) {
  std::map<std::string, TfFeature, std::less<>> features;
  Fields example(message, where);
  example.for_each([&](std::uint64_t features_number, Wire wire) {
    if (features_number != 1 || wire != Wire::kBytes) return example.skip(wire);
    Fields map(example.bytes(), where);  // Features: map<string, Feature> feature = 1
    map.for_each([&](std::uint64_t entry_number, Wire entry_wire) {
      if (entry_number != 1 || entry_wire != Wire::kBytes) return map.skip(entry_wire);
      std::string_view key, value;
      Fields entry(map.bytes(), where);
      entry.for_each([&](std::uint64_t part, Wire part_wire) {
        if (part > 2 || part_wire != Wire::kBytes) return entry.skip(part_wire);
        (part == 1 ? key : value) = entry.bytes();
      });
      features[std::string(key)] = parse_feature(value, where);
    });
  });
  return features;
}

}  // namespace petaflow
