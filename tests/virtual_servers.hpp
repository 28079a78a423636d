// Workers in groups and servers on virtual ranks, whose messages take random times.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "servers/served_rank.hpp"
#include "simulate/virtual_world.hpp"

namespace petaflow::virtual_servers {

/// Latencies with an exponential distribution; those of messages from some ranks are much longer.
class Noisy final : public FixedArrivals {
 public:
  explicit Noisy(std::uint64_t seed) : random_(random_stream(seed, RandomPurpose::kGenerate), 1) {}
  double arrival_s(int from, int, std::size_t bytes, double start_s) override {
    const double scale = from % 3 == 1 ? 1e-2 : 1e-3;
    return start_s - scale * std::log(1 - random_.uniform()) + 1e-9 * static_cast<double>(bytes);
  }

 private:
  RandomSequence random_;
};

/// An update of a layer, as a server tells of it.
struct Event {
  std::size_t layer = 0;
  int group = 0;
  std::int64_t ticket = 0, version = 0, staleness = 0;
};

inline std::unique_ptr<VirtualWorld> world_of(const ServerLayout& layout, NetworkModel& network, std::uint64_t seed) {
  VirtualOptions options;
  options.stack_bytes = 4 << 20;
  options.seed = seed;
  return std::make_unique<VirtualWorld>(layout.ranks(), network, options);
}

/// What a rank does in a training: `work` on the workers, with its session.
/// @param server  becomes the messages of the first server's rank; may be null
template <class Work>
void on_ranks(VirtualWorld& world, const ServerLayout& layout, const ServeOptions& serving, const Work& work,
              Transport** server = nullptr) {
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    if (server != nullptr && layout.server_at(comm.rank()) == 0) *server = &comm.transport();
    ServedRank rank(comm, layout, serving);
    if (!rank.works()) {
      EXPECT_EQ(rank.serve(), 3);
      return;
    }
    work(rank.workers(), rank.group(), rank.session());
    rank.session().end(3);
  });
  EXPECT_EQ(world.messages_left(), 0);
}

}  // namespace petaflow::virtual_servers
