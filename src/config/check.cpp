// The constraints that options use.
#include "config/check.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "config/document.hpp"

namespace petaflow {

Check at_least(double low) {
  return {fmt::format("at least {}", low), [low](double value) { return value >= low; }};
}

Check positive() {
  return {"greater than 0", [](double value) { return value > 0; }};
}

Check in_range(double low, double high) {
  return {fmt::format("between {} and {}", low, high), [=](double value) { return value >= low && value <= high; }};
}

Check from_to_below(double low, double high) {
  return {fmt::format("at least {} and below {}", low, high),
          [=](double value) { return value >= low && value < high; }};
}

Check one_of(std::vector<std::string> words) {
  std::string text = "one of ";
  for (const std::string& word : words) text += (&word == words.data() ? "" : ", ") + to_toml(word);
  return {text, {}, [words = std::move(words)](const std::string& value) {
            return std::find(words.begin(), words.end(), value) != words.end();
          }};
}

Check is_application(const std::string& name) {
  return {fmt::format("\"{0}\" for {0} to read this input", name), {}, [name](const std::string& value) {
            return value == name;
          }};
}

Check not_empty() {
  return {"not empty", {}, [](const std::string& value) { return !value.empty(); }};
}

}  // namespace petaflow
