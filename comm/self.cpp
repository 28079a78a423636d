#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "comm/transport.hpp"

namespace petaflow {
namespace {

class SelfTransport final : public Transport {
 public:
  std::string name() const override { return "self"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const Nodes& nodes() const override { return nodes_; }
  Message send(std::span<const std::byte> bytes, int to, Tag tag) override {
    if (to != 0) failure("rank 0 is alone and sends to rank {}", to);
    return add({true, tag, const_cast<std::byte*>(bytes.data()), bytes.size()});  // what is sent is only read
  }
  Message receive(std::span<std::byte> bytes, int from, Tag tag) override {
    if (from != 0) failure("rank 0 is alone and waits for rank {}", from);
    return add({false, tag, bytes.data(), bytes.size()});
  }
  bool done(Message& message) override {
    const auto waits = [&](const Side& side) { return side.message == message; };
    if (message != kNone && std::ranges::any_of(waiting_, waits)) return false;
    message = kNone;
    return true;
  }
  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    while (!over() && now_s() < until_s) {
      PETAFLOW_REQUIRE(until_s < 1e300 || count_ != kNone, "rank 0 is alone and waits in {}", call);
    }
  }
  double now_s() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  std::unique_ptr<Transport> split(int) override { return make_self_transport(); }
  [[noreturn]] void abort(int exit_code) override { std::_Exit(exit_code); }

 private:
  /// A message of which one side has come.
  struct Side {
    bool sends = false;
    Tag tag{0};
    std::byte* bytes = nullptr;
    std::size_t size = 0;
    Message message = kNone;
  };

  /// Matches it with the first other side of its tag, or lets it wait; there are few at a time.
  Message add(Side side) {
    side.message = ++count_ == kNone ? ++count_ : count_;
    const auto other = std::ranges::find_if(
        waiting_, [&](const Side& waits) { return waits.tag == side.tag && waits.sends != side.sends; });
    if (other == waiting_.end()) {
      waiting_.push_back(side);
      return side.message;
    }
    const auto& [from, to] = side.sends ? std::pair(side, *other) : std::pair(*other, side);
    PETAFLOW_REQUIRE(from.size == to.size, "rank 0 sends itself {} bytes and expects {}", from.size, to.size);
    if (from.size > 0) std::memcpy(to.bytes, from.bytes, from.size);
    waiting_.erase(other);
    return side.message;
  }

  Nodes nodes_{std::vector<int>{0}};
  std::vector<Side> waiting_;  // in the order in which they came
  Message count_ = kNone;
};

}  // namespace

std::unique_ptr<Transport> make_self_transport() { return std::make_unique<SelfTransport>(); }

}  // namespace petaflow
