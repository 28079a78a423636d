// From the value that stands in a TOML text to the type of an option, with the sentences for what does not fit.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.hpp"
#include "config/check.hpp"
#include "config/document.hpp"

namespace petaflow {

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};

template <class T>
std::string type_name() {
  if constexpr (IsList<T>::value) {
    const std::string element = type_name<typename T::value_type>();
    return "a list of " + element.substr(element.find(' ') + 1) + "s";
  } else if constexpr (std::is_same_v<T, bool>) {
    return "a boolean (true or false)";
  } else if constexpr (std::is_integral_v<T>) {
    return "an integer";
  } else {
    return std::is_same_v<T, double> ? "a number" : "a string";
  }
}

/// "the string \"abc\"", "a list of 3".
std::string found(const Scalar& value);
std::string found(const Value& value);

// The value as T; none where the types differ or T cannot hold it: an int above 32 bits, a double above 2^53.
template <class T>
std::optional<T> converted(const Scalar& value) {
  using Stored = std::conditional_t<std::is_same_v<T, int>, std::int64_t, T>;
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      constexpr std::int64_t kExact = std::int64_t{1} << 53;
      return *integer >= -kExact && *integer <= kExact ? std::optional(static_cast<double>(*integer)) : std::nullopt;
    }
  }
  const auto* stored = std::get_if<Stored>(&value);
  if (stored == nullptr) return std::nullopt;
  if constexpr (std::is_same_v<T, int>) {
    using Limits = std::numeric_limits<int>;
    if (*stored < Limits::min() || *stored > Limits::max()) return std::nullopt;
  }
  return static_cast<T>(*stored);
}

// Why a value of the right type is refused ("must be ..."); empty: it is not.
template <class T>
std::string why_not(const T& value, const Check& check) {
  if constexpr (std::is_same_v<T, double>) {
    if (!std::isfinite(value)) return "finite";
  }
  bool holds = true;
  if constexpr (std::is_same_v<T, std::string>) {
    if (value.find('\0') != std::string::npos) return "text without zero characters";
    holds = !check.word || check.word(value);
  } else if constexpr (!std::is_same_v<T, bool>) {
    holds = !check.number || check.number(static_cast<double>(value));
  }
  return holds ? "" : check.text;
}

template <class T>
T checked_scalar(const Scalar& value, const Check& check, const std::string& subject) {
  const std::optional<T> result = converted<T>(value);
  if (!result) {
    const char* const size = !std::holds_alternative<std::int64_t>(value) ? ""
                             : std::is_same_v<T, int>                     ? " of 32 bits"
                             : std::is_same_v<T, double>                  ? " below 2^53 where it is an integer"
                                                                          : "";
    user_error("{} must be {}{}, found {}", subject, type_name<T>(), size, found(value));
  }
  const std::string reason = why_not(*result, check);
  if (!reason.empty()) user_error("{} must be {}, found {}", subject, reason, to_toml(*result));
  return *result;
}

// A value of the type and within the check of the option; subject begins the message: "hep.toml:12: train.batch".
template <class T>
T checked(const Value& value, const Check& check, const std::string& subject) {
  if constexpr (IsList<T>::value) {
    const auto* list = std::get_if<std::vector<Scalar>>(&value);
    if (list == nullptr) user_error("{} must be {}, found {}", subject, type_name<T>(), found(value));
    T result;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string element = fmt::format("{}[{}]", subject, i);
      result.push_back(checked_scalar<typename T::value_type>((*list)[i], check, element));
    }
    return result;
  } else {
    const auto* scalar = std::get_if<Scalar>(&value);
    if (scalar == nullptr) user_error("{} must be {}, found {}", subject, type_name<T>(), found(value));
    return checked_scalar<T>(*scalar, check, subject);
  }
}

// Whether a check is one for values of this type.
template <class T>
bool check_fits(const Check& check) {
  if constexpr (IsList<T>::value) return check_fits<typename T::value_type>(check);
  if constexpr (std::is_same_v<T, std::string>) return !check.number;
  if constexpr (std::is_same_v<T, bool>) return !check.number && !check.word;
  return !check.word;
}

}  // namespace petaflow
