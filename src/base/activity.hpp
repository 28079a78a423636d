// The present activity of this rank, for messages about ranks that wait for each other.
#pragma once

#include <cstdint>

namespace petaflow {

/// Names what the main thread does for the life of the object; they nest.
class Activity {
 public:
  struct Current {
    const char* what = "starting";
    std::int64_t step = -1;  // of training; negative: none
  };

  /// @param what  a constant: "summing gradients"
  explicit Activity(const char* what, std::int64_t step = current().step) : before_(current()) {
    current() = {what, step};
  }
  ~Activity() { current() = before_; }
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  static Current& current() {
    static Current now;
    return now;
  }

 private:
  Current before_;
};

}  // namespace petaflow
