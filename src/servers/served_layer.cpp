#include "servers/served_layer.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace petaflow {

ServedLayer::ServedLayer(std::unique_ptr<LayerStore> store, int groups, const ServingOrder& order)
    : order_(order),
      store_(std::move(store)),
      waiting_(static_cast<std::size_t>(groups)),
      seen_(static_cast<std::size_t>(groups)),
      idle_(static_cast<std::size_t>(groups)) {
  PETAFLOW_REQUIRE(order.max_staleness == ServingOrder::kUnbounded || order.max_staleness >= groups - 1,
                   "gradients of {} groups with a staleness of at most {}", groups, order.max_staleness);
  arrived_.reserve(static_cast<std::size_t>(groups));
  answered_.reserve(static_cast<std::size_t>(groups));
}

// By arrival with a bound: whether afterwards every other group can still be served before its gradient is too old, the
// one with the oldest weights first.  Where that holds for the groups that are not idle, it holds for the one with the
// oldest weights too, so that not all of them wait.
bool ServedLayer::is_due(int group) const {
  const auto is_next = [&](int g) { return g != group && idle_[static_cast<std::size_t>(g)] == 0; };
  const int groups = static_cast<int>(seen_.size());
  for (int g = 0; g < groups; ++g) {
    if (!is_next(g)) continue;
    const std::int64_t seen = seen_[static_cast<std::size_t>(g)];
    std::int64_t before = 0;  // groups to be served no later than this one
    for (int other = 0; other < groups; ++other) {
      before += is_next(other) && other != g && seen_[static_cast<std::size_t>(other)] <= seen ? 1 : 0;
    }
    if (version_ + 1 + before - seen > order_.max_staleness) return false;
  }
  return true;
}

void ServedLayer::apply_what_is_due() {
  if (released_) {
    for (const int group : arrived_) apply(group);
    arrived_.clear();
  }
  if (order_.order == UpdateOrder::kTicket) {
    while (!arrived_.empty()) {
      const auto due = std::ranges::find_if(
          arrived_, [&](int group) { return waiting_[static_cast<std::size_t>(group)].header->ticket == version_; });
      if (due == arrived_.end()) return;
      apply(*due);
      arrived_.erase(due);
    }
    return;
  }
  const bool bounded = order_.max_staleness != ServingOrder::kUnbounded;
  for (auto next = arrived_.begin(); next != arrived_.end();) {
    if (bounded && !is_due(*next)) {
      ++next;
      continue;
    }
    apply(*next);
    arrived_.erase(next);
    next = arrived_.begin();
  }
}

void ServedLayer::answer(int group) {
  Message& message = waiting_[static_cast<std::size_t>(group)];
  message.header->version = version_;
  message = {};
  answered_.push_back(group);
}

void ServedLayer::apply(int group) {
  const Message& message = waiting_[static_cast<std::size_t>(group)];
  std::int64_t& seen = seen_[static_cast<std::size_t>(group)];
  message.header->staleness = version_ - seen;
  if (!released_) {
    store_->update(version_, seen, message.header->learning_rate, message.values);
    version_ += 1;
  }
  seen = version_;
  store_->read_weights(message.values);
  answer(group);
}

std::span<const int> ServedLayer::take(int group, LayerHeader& header, float* values) {
  answered_.clear();
  Message& mine = waiting_.at(static_cast<std::size_t>(group));
  PETAFLOW_REQUIRE(mine.header == nullptr, "group {} sends a message before the last one is answered", group);
  mine = {&header, values};
  switch (header.kind) {
    case LayerHeader::Kind::kPush:
      PETAFLOW_REQUIRE(order_.order == UpdateOrder::kArrival || released_ || header.ticket >= version_,
                       "ticket {} comes after {}", header.ticket, version_);
      arrived_.push_back(group);
      apply_what_is_due();
      break;
    case LayerHeader::Kind::kIdle:
      idle_[static_cast<std::size_t>(group)] = 1;
      answer(group);
      apply_what_is_due();
      break;
    case LayerHeader::Kind::kWeights:
      seen_[static_cast<std::size_t>(group)] = version_;
      idle_[static_cast<std::size_t>(group)] = 0;
      store_->settled(version_);
      store_->read_weights(values);
      answer(group);
      break;
    case LayerHeader::Kind::kState:
      store_->read_state(header.state, values);
      answer(group);
      break;
    case LayerHeader::Kind::kSetWeights:
      store_->set_weights(values);
      version_ = header.version;
      seen_.assign(seen_.size(), version_);
      store_->settled(version_);
      answer(group);
      break;
    case LayerHeader::Kind::kSetState:
      store_->set_state(header.state, values);
      answer(group);
      break;
    case LayerHeader::Kind::kTuner:
      store_->read_tuner({values, values_with(header, 0)});
      answer(group);
      break;
    case LayerHeader::Kind::kSetTuner:
      store_->set_tuner({values, values_with(header, 0)});
      answer(group);
      break;
    case LayerHeader::Kind::kRelease:
      released_ = true;
      apply_what_is_due();
      answer(group);
      break;
    case LayerHeader::Kind::kEnd:
      mine = {};
      break;
  }
  return answered_;
}

}  // namespace petaflow
