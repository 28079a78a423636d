// Messages between virtual ranks of which one side, the sender's or the receiver's, has come and the other has not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>

#include "comm/numbered.hpp"
#include "comm/transport.hpp"
#include "simulate/network_model.hpp"

namespace petaflow {

/// Messages between two ranks of a group with one tag, to be received in their order.
struct Channel {
  int group = 0, to = 0, from = 0;
  Tag tag{0};
  bool operator==(const Channel&) const = default;
};
struct HashOfChannel {
  std::size_t operator()(const Channel& c) const {
    const auto words = [](int high, int low) {
      return (std::uint64_t{std::uint32_t(high)} << 32 | std::uint32_t(low)) * 0x9E3779B97F4A7C15U;
    };
    const std::uint64_t word = words(c.to, c.from), other = words(c.tag.number(), c.group);
    return word ^ word >> 29 ^ (other << 7 | other >> 57);
  }
};

/// A message whose other side has not come yet.
struct Side {
  std::byte* bytes = nullptr;  // null: of a message without content
  std::size_t size = 0;
  Transport::Message message = Transport::kNone;  // to be told; none: an eager send, which is over
  int rank = 0;                                   // whose side it is
  NetworkModel::Number flight = 0;                // of an eager send
  std::unique_ptr<std::byte[]> copy;              // likewise
  std::uint32_t next = 0;                         // behind it in its channel
};

/// Sides by channel, in their order: of senders or of receivers, never both.  There are few at a time.
class Waiting {
 public:
  /// The first of a channel that is a sender's (or a receiver's); nullptr: there is none.
  Side* first(const Channel& channel, bool of_sender) {
    const auto found = queues_.find(channel);
    if (found == queues_.end() || found->second.of_sender != of_sender) return nullptr;
    return &sides_[found->second.first];
  }
  void add(const Channel& channel, bool of_sender, Side side) {
    const auto place = static_cast<std::uint32_t>(sides_.add(std::move(side)));
    const auto [queue, is_new] = queues_.try_emplace(channel, Queue{of_sender, place, place});
    if (is_new) return;
    sides_[queue->second.last].next = place;
    queue->second.last = place;
  }
  void remove_first(const Channel& channel) {
    const auto found = queues_.find(channel);
    const std::uint32_t place = found->second.first;
    if (place == found->second.last) {
      queues_.erase(found);
    } else {
      found->second.first = sides_[place].next;
    }
    sides_[place].copy.reset();
    sides_.remove(place);
  }

 private:
  struct Queue {
    bool of_sender = false;
    std::uint32_t first = 0, last = 0;
  };
  std::unordered_map<Channel, Queue, HashOfChannel> queues_;
  Numbered<Side> sides_;
};

}  // namespace petaflow
