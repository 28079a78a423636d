// Virtual ranks: when and in which order they go on, and how a run ends where they cannot.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "comm/communicator.hpp"
#include "simulate/virtual_world.hpp"
#include "uniform_network.hpp"

namespace petaflow {
namespace {

using testing_support::UniformNetwork;

constexpr Tag kTag{7};

VirtualOptions virtual_options() {
  VirtualOptions options;
  options.byte_added_s = 0.1;
  return options;
}

/// Runs rank 0 so, while rank 1 sends it bytes at these times; messages take a second.
void run_beside_a_sender(const std::vector<double>& times_s,
                         const std::function<void(Transport&, std::vector<Transport::Message>&)>& rank_0) {
  UniformNetwork network(1, 0);
  VirtualWorld world(2, network, virtual_options());
  world.run([&](std::unique_ptr<Transport> transport) {
    std::vector<std::byte> bytes(times_s.size());
    std::vector<Transport::Message> messages;
    for (std::size_t m = 0; m < bytes.size(); ++m) {
      const std::span<std::byte> byte(&bytes[m], 1);
      if (transport->rank() == 0) {
        messages.push_back(transport->receive(byte, 1, kTag));
      } else {
        transport->work(times_s[m] - transport->now_s());
        messages.push_back(transport->send(byte, 0, kTag));
      }
    }
    if (transport->rank() == 0) rank_0(*transport, messages);
    for (Transport::Message& message : messages) transport->wait([&] { return transport->done(message); }, "test");
  });
}

TEST(VirtualRanks, WakeForMessagesThatTheyAskFor) {
  run_beside_a_sender({1, 2, 3, 4}, [](Transport& transport, std::vector<Transport::Message>& messages) {
    std::vector<double> looks_s;
    const auto over = [&] {
      looks_s.push_back(transport.now_s());
      if (looks_s.size() == 1) {
        transport.done(messages[0]);
        transport.done(messages[1]);
      }
      return transport.done(messages[3]);
    };
    transport.wait(over, "test");
    // For the first, which the look before asked for, not for the second; for the third, as nobody ever asked for it.
    EXPECT_EQ(looks_s, (std::vector<double>{0, 2, 4, 5}));
  });
}

TEST(VirtualRanks, LookAtMessagesBetweenPiecesOfWork) {
  run_beside_a_sender({0.2, 1.7, 2.3, 5}, [](Transport& transport, std::vector<Transport::Message>& messages) {
    std::vector<double> looks_s;
    transport.work_and_look(4.7, 0.5, [&] {
      looks_s.push_back(transport.now_s());
      for (Transport::Message& message : messages) {
        if (message != Transport::kNone && transport.done(message)) transport.work_on(1);  // 0.1 s
      }
    });
    // At multiples, after a message that came: at 1.2, 2.7, 3.3.  Each addition puts off all that follows.
    ASSERT_EQ(looks_s.size(), 4U);
    EXPECT_DOUBLE_EQ(looks_s[0], 0);
    EXPECT_DOUBLE_EQ(looks_s[1], 1.5);
    EXPECT_DOUBLE_EQ(looks_s[2], 3.1);
    EXPECT_DOUBLE_EQ(looks_s[3], 3.7);
    EXPECT_NEAR(transport.now_s(), 4.7 + 3 * 0.1, 1e-12);
  });
}

std::vector<int> order_of(std::optional<std::uint64_t> seed) {
  UniformNetwork network;
  VirtualOptions options;
  options.seed = seed;
  VirtualWorld world(16, network, options);
  std::vector<int> order;
  world.run([&](std::unique_ptr<Transport> transport) {
    transport->work(1);
    order.push_back(transport->rank());
  });
  return order;
}

TEST(VirtualRanks, GoOnInAnyOrderOrByRank) {
  std::vector<int> by_rank(16);
  std::iota(by_rank.begin(), by_rank.end(), 0);
  EXPECT_EQ(order_of(std::nullopt), by_rank);
  EXPECT_EQ(order_of(1), order_of(1));
  EXPECT_NE(order_of(1), order_of(2));
}

TEST(VirtualRanks, ADeadlockOfThousandsNamesAFew) {
  UniformNetwork network;
  VirtualWorld world(1000, network, {});
  try {
    world.run([](std::unique_ptr<Transport> transport) { transport->wait([] { return false; }, "a receive"); });
    ADD_FAILURE() << "it ended";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("rank 15 in a receive and 984 more")) << error.what();
  }
}

TEST(VirtualRanks, ADeadlockNamesWhoWaits) {
  UniformNetwork network;
  VirtualWorld world(3, network, {});
  try {
    world.run([](std::unique_ptr<Transport> transport) {
      if (transport->rank() == 2) return;
      float value = 0;
      Transport::Message message =
          transport->receive(std::as_writable_bytes(std::span(&value, 1)), 1 - transport->rank(), Tag(7));
      transport->wait([&] { return transport->done(message); }, "a receive");
    });
    ADD_FAILURE() << "it ended";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "all wait for messages that nobody sends: rank 0 in a receive, rank 1 in a receive");
  }
}

TEST(VirtualRanks, WaitByTheirOwnTransport) {
  UniformNetwork network;
  VirtualWorld world(2, network, {});
  Transport* first = nullptr;
  const auto wait = [&](std::unique_ptr<Transport> transport) {
    if (first == nullptr) first = transport.get();
    first->work(1);
    transport->work(5);
  };
  EXPECT_THROW(world.run(wait), Error);
}

TEST(VirtualRanks, AnErrorOfOneEndsAll) {
  UniformNetwork network;
  VirtualWorld world(4, network, {});
  const auto fail = [](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    if (comm.rank() == 3) user_error("rank 3 gives up");
    comm.barrier();
  };
  EXPECT_THROW(world.run(fail), Error);
}

// As a step keeps them, and goes on until all ranks know.
TEST(VirtualRanks, ThatKeepFailuresForLaterEndWithTheOthers) {
  UniformNetwork network;
  VirtualWorld world(3, network, {});
  int kept = 0, ended = 0;
  const auto fail = [&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    if (comm.rank() == 2) user_error("rank 2 gives up");
    try {
      comm.transport().work(1);
    } catch (...) {
      kept += 1;
    }
    try {
      comm.barrier();
    } catch (const CommError&) {
      ended += 1;
      throw;
    }
  };
  try {
    world.run(fail);
    ADD_FAILURE() << "it ended";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 2 gives up");
  }
  EXPECT_EQ(kept, ended);
  EXPECT_GT(kept, 0);
}

}  // namespace
}  // namespace petaflow
