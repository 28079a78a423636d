// Things that are costly to make and too many to keep, such as open files: those used last are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace petaflow {

/// Safe to use from several threads.  A value that is put away lives on for those who still hold it.
template <class Value>
class RecentlyUsed {
 public:
  /// limit >= 1 values are kept.
  explicit RecentlyUsed(std::size_t limit) : limit_(limit) {}

  /// The value of a key, made by make() where it is not there.  What make() throws is thrown on.
  template <class Make>
  std::shared_ptr<const Value> get(std::int64_t key, Make&& make) {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(key); found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return order_.front().second;
    }
    if (order_.size() == limit_) {  // first: the new value may need the descriptors of the old one
      places_.erase(order_.back().first);
      order_.pop_back();
    }
    order_.emplace_front(key, std::make_shared<const Value>(make()));
    places_[key] = order_.begin();
    return order_.front().second;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    places_.clear();
    order_.clear();
  }

 private:
  using Order = std::list<std::pair<std::int64_t, std::shared_ptr<const Value>>>;  // used last: in front

  std::size_t limit_;
  std::mutex mutex_;
  Order order_;
  std::unordered_map<std::int64_t, typename Order::iterator> places_;
};

}  // namespace petaflow
