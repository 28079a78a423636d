// Words for the values that were found.
#include "config/conversion.hpp"

namespace petaflow {

std::string found(const Scalar& value) {
  const std::string text = to_toml(value);
  if (std::holds_alternative<bool>(value)) return "the boolean " + text;
  if (std::holds_alternative<std::int64_t>(value)) return "the integer " + text;
  if (std::holds_alternative<double>(value)) return "the number " + text;
  return std::holds_alternative<std::string>(value) ? "the string " + text : text;
}

std::string found(const Value& value) {
  const auto* list = std::get_if<std::vector<Scalar>>(&value);
  return list == nullptr ? found(std::get<Scalar>(value)) : "a list of " + std::to_string(list->size());
}

}  // namespace petaflow
