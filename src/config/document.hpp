// A TOML document as a flat list of keys and values: the only door to the TOML library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"

namespace petaflow {

/// A value of a type that no key has: a date, a time, a table inside a list, a list inside a list.
struct ForeignValue {
  std::string type;
};

using Scalar = std::variant<bool, std::int64_t, double, std::string, ForeignValue>;
using Value = std::variant<Scalar, std::vector<Scalar>>;

struct Entry {
  std::string key;  // dotted path
  Value value;
  bool empty_table = false;          // the key is a table without keys
  int line = 0;                      // of the key, from 1
  int end_line = 0, end_column = 0;  // one past the last character of the value, from 1
};

/// A number that the text holds and no type does; what() is the whole message, `reason` that part which names no place.
class NumberTooLarge : public Error {
 public:
  NumberTooLarge(const std::string& place, std::string reason)
      : Error(ErrorKind::kUser, place + ": " + reason), reason_(std::move(reason)) {}
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

/// All keys of a TOML text in the order of their lines, and its empty tables.  Throws a user error
/// "<name>:<line>:<column>: ..." where the text is not TOML, NumberTooLarge where a number is the reason.
std::vector<Entry> parse_document(std::string_view text, const std::string& name);

/// The whole of a file; throws a user error that names it.
std::string read_text_file(const std::string& path);

/// The TOML text of a value; a number always has a point or an exponent and parses back to the same bits.
std::string to_toml(bool value);
std::string to_toml(int value);
std::string to_toml(std::int64_t value);
std::string to_toml(double value);
std::string to_toml(const std::string& value);
std::string to_toml(const Scalar& value);
std::string to_toml(const Value& value);

template <class T>
std::string to_toml(const std::vector<T>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + to_toml(value);
  return text + "]";
}

}  // namespace petaflow
