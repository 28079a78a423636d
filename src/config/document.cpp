// Reading and writing of TOML text; toml++ appears nowhere else.
#include "config/document.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "base/error.hpp"

namespace petaflow {
namespace {

Scalar scalar_of(const toml::node& node) {
  if (const auto* value = node.as_boolean()) return value->get();
  if (const auto* value = node.as_integer()) return std::int64_t{value->get()};
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (node.is_table()) return ForeignValue{"a table"};
  if (node.is_array()) return ForeignValue{"a list"};
  return ForeignValue{"a date or time"};
}

Value value_of(const toml::node& node) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return scalar_of(node);
  std::vector<Scalar> elements;
  for (const toml::node& element : *array) elements.push_back(scalar_of(element));
  return elements;
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string path = prefix + std::string(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      flatten(*inner, path + ".", entries);
      continue;
    }
    const toml::source_position end = node.source().end;
    entries.push_back({path, value_of(node), inner != nullptr, static_cast<int>(key.source().begin.line),
                       static_cast<int>(end.line), static_cast<int>(end.column)});
  }
}

/// Why a text is refused that toml++ takes for a number; empty: for another reason.  It says so in words only:
/// "... '<number>' is not representable in 64 bits" of integers, "... floating-point: '<number>' could not be
/// interpreted as a value" of those beyond a double.
std::string too_large(std::string_view description) {
  const std::size_t begin = description.find('\''), end = description.rfind('\'');
  if (begin == std::string_view::npos || end == begin) return "";
  const std::string_view number = description.substr(begin + 1, end - begin - 1);
  if (description.ends_with("not representable in 64 bits")) {
    return fmt::format("{} is too large: an integer has 64 bits", number);
  }
  if (description.find("floating-point") == std::string_view::npos ||
      !description.ends_with("interpreted as a value")) {
    return "";
  }
  return fmt::format("{} is too large: a number is at most 1.797e308 in size", number);
}

}  // namespace

std::vector<Entry> parse_document(std::string_view text, const std::string& name) {
  std::vector<Entry> entries;
  try {
    flatten(toml::parse(text, name), "", entries);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    const std::string place = fmt::format("{}:{}:{}", name, at.line, at.column),
                      reason = too_large(error.description());
    if (!reason.empty()) throw NumberTooLarge(place, reason);
    user_error("{}: not valid TOML: {}", place, error.description());
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.line < b.line; });
  return entries;
}

std::string read_text_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) user_error("cannot read {}: {}", path, std::strerror(errno));
  std::string text;
  char block[4096];
  while (const std::size_t n = std::fread(block, 1, sizeof block, file.get())) text.append(block, n);
  if (std::ferror(file.get()) != 0) user_error("cannot read {}: {}", path, std::strerror(errno));
  return text;
}

std::string to_toml(bool value) { return value ? "true" : "false"; }
std::string to_toml(int value) { return std::to_string(value); }
std::string to_toml(std::int64_t value) { return std::to_string(value); }

std::string to_toml(double value) {
  std::string text = fmt::format("{}", value);  // shortest text that parses back to the same bits
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string to_toml(const std::string& value) {
  std::string text = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == '\t') {
      text += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      text += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      text += c;
    }
  }
  return text + '"';
}

std::string to_toml(const Scalar& value) {
  if (const auto* foreign = std::get_if<ForeignValue>(&value)) return foreign->type;
  if (const auto* text = std::get_if<std::string>(&value)) return to_toml(*text);
  if (const auto* flag = std::get_if<bool>(&value)) return to_toml(*flag);
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return to_toml(*integer);
  return to_toml(std::get<double>(value));
}

std::string to_toml(const Value& value) {
  return std::visit([](const auto& v) { return to_toml(v); }, value);
}

}  // namespace petaflow
