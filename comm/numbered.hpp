// Things that are known by a number as long as they last, such as messages under way.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace petaflow {

/// Numbers, from 0 on, are given again when what they stood for is removed.
/// @tparam Values  std::deque<T> where values must stay where they are
template <class T, class Values = std::vector<T>>
class Numbered {
 public:
  /// Makes room for so many at a time: neither add() nor, ever, remove() allocates then.
  void reserve(std::size_t count) {
    values_.reserve(count);
    free_.reserve(count);
  }
  std::size_t add(T value = {}) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      if (free_.capacity() < values_.size()) free_.reserve(2 * values_.size());
      return values_.size() - 1;
    }
    const std::size_t number = free_.back();
    free_.pop_back();
    values_[number] = std::move(value);
    return number;
  }
  void remove(std::size_t number) { free_.push_back(number); }

  T& operator[](std::size_t number) { return values_[number]; }
  /// Of those that last.
  std::size_t count() const { return values_.size() - free_.size(); }

 private:
  Values values_;
  std::vector<std::size_t> free_;  // numbers
};

}  // namespace petaflow
