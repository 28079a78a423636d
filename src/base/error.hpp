// The one exception type and the checks that throw it.  All of them are on in every build type.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace petaflow {

/// Kind of a failure, which decides the exit code of the program.
enum class ErrorKind {
  kUser,    // arguments, input file, data: exit code 1
  kFailure  // numerical failure, library, lost rank: exit code 2
};

/// An error with a sentence for a person: what was expected, what was found, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// Throws a user error; the arguments are those of fmt::format.
template <typename... Args>
[[noreturn]] void user_error(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kUser, fmt::format(text, std::forward<Args>(args)...));
}

/// Throws a failure (not the user's fault); the arguments are those of fmt::format.
template <typename... Args>
[[noreturn]] void failure(fmt::format_string<Args...> text, Args&&... args) {
  throw Error(ErrorKind::kFailure, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace petaflow

/// Throws a failure with the condition, file and line where an invariant of the program itself does not hold.
#define PETAFLOW_REQUIRE(condition, ...)                                                                            \
  do {                                                                                                              \
    if (!(condition)) {                                                                                             \
      ::petaflow::failure("{}:{}: {} does not hold: {}", __FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
    }                                                                                                               \
  } while (false)
