// Messages of the LogGP model on shared interfaces and cables, against closed forms.
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "loggp_formulas.hpp"
#include "simulate/loggp_network.hpp"

namespace petaflow {
namespace {

using namespace testing_support;

struct Sent {
  double start_s;
  int from, to;
  std::size_t bytes;
};

/// When messages arrive that are sent at rising times; infinity: never.
std::vector<double> arrivals_of(NetworkModel& network, const std::vector<Sent>& sent) {
  std::vector<double> arrivals(sent.size(), INFINITY);
  for (std::size_t next = 0; next < sent.size() || network.next_s() < INFINITY;) {
    if (next < sent.size() && sent[next].start_s < network.next_s()) {
      const Sent& message = sent[next];
      network.send(static_cast<NetworkModel::Number>(next), message.from, message.to, message.bytes, message.start_s);
      next += 1;
      continue;
    }
    const double now_s = network.next_s();
    if (const auto message = network.advance()) arrivals[*message] = now_s;
  }
  return arrivals;
}

TEST(Network, MessagesBetweenGroupsShareTheirCables) {
  LogGpOptions options = network_of(true);
  options.nodes_per_group = 4;
  options.group_byte_s = 0.5e-9;
  options.group_latency_s = 1e-6;
  LogGpNetwork network(8, options);
  constexpr std::size_t kBytes = 1'000'000;
  // Four at a time through cables as fast as two interfaces, so that all take twice as long; then one within a group,
  // which does not need them, and one that finds them idle.
  const std::vector<double> arrivals = arrivals_of(network, {{0, 0, 4, kBytes},
                                                             {0, 1, 5, kBytes},
                                                             {0, 2, 6, kBytes},
                                                             {0, 3, 7, kBytes},
                                                             {0, 2, 1, kBytes},
                                                             {1, 0, 4, kBytes}});
  for (int rank : {0, 1, 3}) {
    EXPECT_NEAR(arrivals[static_cast<std::size_t>(rank)], message_s(2 * kBytes, true) + 1e-6, 1e-9);
  }
  // The second message of rank 2 starts an overhead later and has half of its interface until it is through.
  EXPECT_NEAR(arrivals[4], message_s(2 * kBytes, true), 2 * kOverhead);
  EXPECT_NEAR(arrivals[5], 1 + message_s(kBytes, true) + 1e-6, 1e-9);
}

// Messages to one rank: each gets an equal part of what those that are there leave, so that the k-th smallest of those
// that come together is through when all smaller ones are, and as much of all larger ones as it has itself.
TEST(Network, MessagesShareAnInterface) {
  constexpr std::size_t kBytes = 1'000'000;
  LogGpNetwork network(8, network_of(true));
  const std::vector<double> together = arrivals_of(
      network, {{0, 1, 0, 3 * kBytes}, {0, 2, 0, kBytes}, {0, 3, 0, 2 * kBytes}, {0, 4, 0, 64}, {0, 5, 6, kBytes}});
  EXPECT_NEAR(together[0], message_s(6 * kBytes, true), 5e-6);
  EXPECT_NEAR(together[1], message_s(3 * kBytes, true), 5e-6);
  EXPECT_NEAR(together[2], message_s(5 * kBytes, true), 5e-6);
  EXPECT_NEAR(together[3], message_s(64, true), 1e-12);  // within the gap: it need not share
  EXPECT_NEAR(together[4], message_s(kBytes, true), 1e-12);
  // Together they get half of it: 64 bytes need not share.
  LogGpOptions half = network_of(true);
  half.shared_efficiency = 0.5;
  LogGpNetwork narrow(8, half);
  const std::vector<double> slow =
      arrivals_of(narrow, {{0, 1, 0, kBytes}, {0, 2, 0, 2 * kBytes}, {0, 3, 0, 64}, {1, 4, 0, kBytes}});
  EXPECT_NEAR(slow[0], message_s(4 * kBytes, true), 5e-6);
  EXPECT_NEAR(slow[1], message_s(5 * kBytes, true), 5e-6);
  EXPECT_NEAR(slow[2], message_s(64, true), 1e-12);
  EXPECT_NEAR(slow[3], 1 + message_s(kBytes, true), 1e-9);
  // The second one comes when the first is half through.
  LogGpNetwork other(8, network_of(true));
  const std::vector<double> later = arrivals_of(other, {{0, 1, 0, kBytes}, {kBytes / 2 * kByte, 2, 0, kBytes}});
  EXPECT_NEAR(later[0], message_s(1.5 * kBytes, true), 1e-9);
  EXPECT_NEAR(later[1], message_s(2 * kBytes, true), 1e-9);
}

// Events are due at the times that they were given, whatever these are rounded to.
TEST(Network, AllMessagesArrive) {
  LogGpOptions options = network_of(true);
  options.byte_s = 1 / 0.024e9;
  options.shared_efficiency = 0.8;
  options.burst_bytes = 250'000;
  options.in_order = true;
  LogGpNetwork network(4, options);
  RandomSequence random(random_stream(7, RandomPurpose::kGenerate), 0);
  std::vector<Sent> sent;
  for (double now_s = 0; sent.size() < 10'000;) {
    now_s += 0.05 * random.exponential();
    const int from = static_cast<int>(sent.size() % 4);
    sent.push_back({now_s, from, (from + 1 + static_cast<int>(sent.size() / 4 % 3)) % 4,
                    static_cast<std::size_t>(2e6 * random.exponential())});
  }
  for (const double arrival_s : arrivals_of(network, sent)) EXPECT_LT(arrival_s, INFINITY);
}

TEST(Network, MessagesOfAConnectionFollowEachOther) {
  constexpr std::size_t kBytes = 1'000'000;
  LogGpOptions options = network_of(true);
  options.in_order = true;
  LogGpNetwork network(3, options);
  // Two of rank 0 to rank 1, the first of which shares their interface with one to rank 2; then one alone.
  const std::vector<double> arrivals =
      arrivals_of(network, {{0, 0, 1, kBytes}, {0, 0, 2, kBytes}, {0, 0, 1, kBytes}, {1, 0, 1, kBytes}});
  EXPECT_NEAR(arrivals[0], message_s(2 * kBytes, true), 2 * kOverhead);
  EXPECT_NEAR(arrivals[1], message_s(2 * kBytes, true), 2 * kOverhead);
  EXPECT_NEAR(arrivals[2], message_s(3 * kBytes, true), 3 * kOverhead);
  EXPECT_NEAR(arrivals[3], 1 + message_s(kBytes, true), 1e-9);
}

// A link that is limited to a rate lets some bytes pass at once after a pause.
TEST(Network, AnInterfaceThatWasIdleTakesABurst) {
  constexpr std::size_t kBytes = 1'000'000, kBurst = 250'000;
  LogGpOptions options = network_of(true);
  options.burst_bytes = kBurst;
  LogGpNetwork network(3, options);
  // A long pause before the first; half of the burst is saved before the second, nothing before the third.
  const double second_s = 1 + (kBytes - kBurst) * kByte + kBurst / 2 * kByte;
  const double third_s = second_s + (kBytes - kBurst / 2) * kByte;
  const std::vector<double> arrivals =
      arrivals_of(network, {{1, 0, 1, kBytes}, {second_s, 0, 1, kBytes}, {third_s, 0, 1, kBytes}});
  EXPECT_NEAR(arrivals[0], 1 + message_s(kBytes - kBurst, true), 1e-9);
  EXPECT_NEAR(arrivals[1], second_s + message_s(kBytes - kBurst / 2, true), 1e-9);
  EXPECT_NEAR(arrivals[2], third_s + message_s(kBytes, true), 1e-9);
}

}  // namespace
}  // namespace petaflow
