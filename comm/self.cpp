#include "comm/self.hpp"

#include <cstdlib>

#include "base/error.hpp"

namespace petaflow {

void SelfCommunicator::send(std::span<const float>, int to) { failure("rank 0 is alone and sends to rank {}", to); }

void SelfCommunicator::receive(std::span<float>, int from) { failure("rank 0 is alone and waits for rank {}", from); }

void SelfCommunicator::broadcast(std::span<std::byte>, int root) {
  PETAFLOW_REQUIRE(root == 0, "rank 0 is alone, rank {} broadcasts", root);
}

std::vector<std::vector<std::byte>> SelfCommunicator::gather(std::span<const std::byte> bytes) {
  return {{bytes.begin(), bytes.end()}};
}

void SelfCommunicator::abort(int exit_code) { std::_Exit(exit_code); }

}  // namespace petaflow
