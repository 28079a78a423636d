// Which ranks share a node, that is, a memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace petaflow {

class Nodes {
 public:
  /// @param of_ranks  the node of each rank: numbers from 0 on, none left out
  explicit Nodes(std::vector<int> of_ranks) : of_ranks_(std::move(of_ranks)), ranks_(of_ranks_.size()) {
    for (const int node : of_ranks_) {
      begins_.resize(std::max(begins_.size(), static_cast<std::size_t>(node) + 2));
      begins_[static_cast<std::size_t>(node) + 1] += 1;
    }
    for (std::size_t node = 1; node < begins_.size(); ++node) begins_[node] += begins_[node - 1];
    std::vector<std::size_t> next = begins_;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      ranks_[next[static_cast<std::size_t>(of_ranks_[rank])]++] = static_cast<int>(rank);
    }
  }

  int count() const { return static_cast<int>(begins_.size()) - 1; }
  int of(int rank) const { return of_ranks_[static_cast<std::size_t>(rank)]; }
  /// Of a node, rising.
  std::span<const int> ranks(int node) const {
    const auto n = static_cast<std::size_t>(node);
    return std::span(ranks_).subspan(begins_[n], begins_[n + 1] - begins_[n]);
  }

 private:
  std::vector<int> of_ranks_, ranks_;      // ranks_: node after node
  std::vector<std::size_t> begins_ = {0};  // of each node in ranks_, and the end
};

}  // namespace petaflow
