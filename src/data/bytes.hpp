// Values as bytes, from one process to another of the same program.  A type lists its fields once, for both directions:
//   template <class Bytes> void exchange(Bytes& bytes, Event& event) { bytes(event.label, event.weight); }
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace petaflow {

/// Appends what it is called with, which it leaves as it is.
class ByteWriter {
 public:
  template <class... T>
  void operator()(T&... values) {
    (add(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  void add_raw(const void* from, std::size_t size) { bytes_.append(static_cast<const char*>(from), size); }
  void add_size(std::size_t size) { add_raw(&size, sizeof size); }
  void add(std::string& text) {
    add_size(text.size());
    add_raw(text.data(), text.size());
  }
  template <class T>
  void add(std::vector<T>& values) {
    add_size(values.size());
    for (T& value : values) add(value);
  }
  template <class T>
  void add(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      add_raw(&value, sizeof value);
    } else {
      exchange(*this, value);
    }
  }

  std::string bytes_;
};

/// Takes the same values out again, in the same order.
class ByteReader {
 public:
  /// `bytes` must outlive it.
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (take(values), ...);
  }

 private:
  void take_raw(void* to, std::size_t size) {
    PETAFLOW_REQUIRE(size <= rest_.size(), "{} bytes to read of {}", size, rest_.size());
    if (size > 0) std::memcpy(to, rest_.data(), size);
    rest_.remove_prefix(size);
  }
  std::size_t take_size() {
    std::size_t size = 0;
    take_raw(&size, sizeof size);
    return size;
  }
  void take(std::string& text) {
    text.resize(take_size());
    take_raw(text.data(), text.size());
  }
  template <class T>
  void take(std::vector<T>& values) {
    values.resize(take_size());
    for (T& value : values) take(value);
  }
  template <class T>
  void take(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      take_raw(&value, sizeof value);
    } else {
      exchange(*this, value);
    }
  }

  std::string_view rest_;
};

/// Leaves the value as it is.
template <class T>
std::string to_bytes(T& value) {
  ByteWriter bytes;
  bytes(value);
  return bytes.take();
}

template <class T>
T from_bytes(std::string_view bytes) {
  T value;
  ByteReader reader(bytes);
  reader(value);
  return value;
}

}  // namespace petaflow
