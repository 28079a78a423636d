// Parameter servers without a network, with random layouts, times and pauses: every ticket is applied once, all end,
// and groups are served alike.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "nn/network.hpp"
#include "scaling/worker.hpp"
#include "servers/optimized_layer.hpp"
#include "uniform_network.hpp"
#include "virtual_servers.hpp"

namespace petaflow {
namespace {

using virtual_servers::Event;
using virtual_servers::Noisy;
using virtual_servers::on_ranks;
using virtual_servers::world_of;

/// A session that steps through tickets as a trainer does, with gradients of 1; the steps that are done at the end.
std::int64_t pretend(ServerSession& session, Communicator& workers, Communicator& group,
                     const std::vector<Parameter>& parameters, std::int64_t settle_every, std::int64_t steps,
                     Transport& clock, RandomSequence& random, int stop_at) {
  session.connect(parameters);
  const std::vector<Slice> layers = layers_of(parameters);
  const auto mine = [&](std::size_t layer) {
    return session.layout().owner_of(layer) == workers.rank() % session.layout().members();
  };
  workers.barrier();
  std::vector<float> ones(64, 1), weights(64);
  bool stopped = false;
  std::int64_t from = 0;
  while (from < steps && !stopped) {
    TicketReport report{.from = from, .until = std::min(steps, from + settle_every)};
    std::vector<std::int64_t> tickets;
    ServerSession::Lease lease;
    const auto exchange = [&] {
      lease = session.report(report);
      if (lease.ticket) tickets.push_back(*lease.ticket);
    };
    exchange();
    if (lease.ticket) exchange();
    while (!lease.settled) {
      report.done = tickets.front();
      tickets.erase(tickets.begin());
      for (int stage = 0; stage < 2; ++stage) {
        clock.work(-0.5e-3 * std::log(1 - random.uniform()));
        session.serve(random.below(2) == 0 ? Server::Progress::kMessagesAndUpdates : Server::Progress::kMessagesOnly);
      }
      for (std::size_t i = layers.size(); i-- > 0;) {
        if (mine(i)) session.push(layers[i].begin, report.done, 1, ones.data(), weights.data());
      }
      for (std::size_t i = layers.size(); i-- > 0;) {
        if (mine(i)) session.wait(layers[i].begin);
      }
      group.barrier();  // the weights of the other members
      report.stop = report.done == stop_at ? 1 : 0;
      exchange();
    }
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (!mine(i)) continue;
      session.start(layers[i].begin, {.kind = LayerHeader::Kind::kWeights}, nullptr, weights.data());
      session.wait(layers[i].begin);
    }
    workers.barrier();
    from = lease.until;
    stopped = lease.stop != 0;
  }
  return from;
}

TEST(Servers, RandomSchedulesApplyEveryTicketOnceAndEnd) {
  const char* const asked = std::getenv("PETAFLOW_SCHEDULES");
  const int schedules = asked == nullptr ? 1500 : std::atoi(asked);
  OptimizerOptions sgd;
  sgd.name = "sgd";
  sgd.momentum = 0;
  for (int n = 0; n < schedules; ++n) {
    RandomSequence random(random_stream(7, RandomPurpose::kGenerate), static_cast<std::uint64_t>(n));
    const auto up_to = [&](int most) { return 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(most))); };
    const bool colocated = random.below(2) == 0;
    const int members = up_to(3), groups = up_to(std::max(1, 10 / members));
    const int servers = up_to(colocated ? members * groups : 12 - members * groups);
    const ServerLayout layout{members * groups, groups, servers, false, colocated};
    std::vector<Parameter> parameters;
    const int layers = servers + static_cast<int>(random.below(3));
    for (int layer = 0; layer < layers; ++layer) {
      Parameter parameter;
      parameter.name = fmt::format("layer{}/weight", layer);
      parameter.spec.dims = {up_to(4)};
      parameter.layer = static_cast<std::size_t>(layer);
      parameter.offset = parameters.empty() ? 0 : parameters.back().offset + parameters.back().spec.elements();
      parameters.push_back(parameter);
    }
    const UpdateOrder order = random.below(2) == 0 ? UpdateOrder::kArrival : UpdateOrder::kTicket;
    const std::int64_t steps = up_to(12), settle_every = up_to(6);
    const std::int64_t max_staleness = random.below(2) == 0 ? ServingOrder::kUnbounded : groups - 2 + up_to(3);
    const int stop_at = random.below(3) == 0 ? static_cast<int>(random.below(12)) : -1;
    Noisy network(static_cast<std::uint64_t>(n));
    VirtualOptions options;
    options.stack_bytes = 128 << 10;
    options.seed = static_cast<std::uint64_t>(n);
    options.eager_bytes = random.below(2) == 0 ? 0 : 4096;
    VirtualWorld world(layout.ranks(), network, options);
    ServeOptions serving{optimized_layers(sgd, layout.groups), {order, max_staleness}};
    std::vector<std::vector<std::int64_t>> applied(static_cast<std::size_t>(layers));
    serving.updated = [&](std::size_t layer, int, const LayerHeader& header) {
      applied[layer].push_back(header.ticket);
      EXPECT_LE(header.staleness, max_staleness == ServingOrder::kUnbounded ? groups * steps : max_staleness);
      EXPECT_GE(header.queue, 1);
      EXPECT_LE(header.queue, groups * layers);
    };
    SCOPED_TRACE(fmt::format(
        "schedule {}: {} x {} workers, {} servers{}, {} layers, {} steps, settling every {}, {}, staleness {}", n,
        groups, members, servers, colocated ? " inside" : "", layers, steps, settle_every,
        order == UpdateOrder::kArrival ? "by arrival" : "by ticket", max_staleness));
    std::int64_t done = 0;
    on_ranks(world, layout, serving, [&](Communicator& workers, Communicator& group, ServerSession& session) {
      RandomSequence mine(random_stream(8, RandomPurpose::kGenerate),
                          static_cast<std::uint64_t>(n * 16 + workers.rank()));
      done = pretend(session, workers, group, parameters, settle_every, steps, workers.transport(), mine, stop_at);
    });
    for (std::vector<std::int64_t>& tickets : applied) {
      if (order == UpdateOrder::kArrival) std::ranges::sort(tickets);
      std::vector<std::int64_t> expected(tickets.size());
      std::iota(expected.begin(), expected.end(), 0);
      ASSERT_EQ(tickets, expected);
      ASSERT_EQ(std::ssize(tickets), done);
      ASSERT_TRUE(std::ssize(tickets) == steps || (stop_at >= 0 && stop_at < std::ssize(tickets)));
    }
  }
}

class Placements : public testing::TestWithParam<bool> {};

TEST_P(Placements, APauseOfAServerFillsNoMemoryAndServesAllAlike) {
  constexpr int kGroups = 5, kElements = 300'000;  // of more than 1 MB, without content
  constexpr std::int64_t kSteps = 5000;
  const ServerLayout layout{kGroups, kGroups, 1, false, GetParam()};
  testing_support::UniformNetwork network(1e-5, 1e-10);
  VirtualOptions options;
  options.eager_bytes = std::numeric_limits<std::size_t>::max();  // nothing but the protocol holds messages back
  VirtualWorld world(layout.ranks(), network, options);
  Transport* server = nullptr;
  ServeOptions serving;
  serving.make_layer = [&](std::span<const ServedParameter> parameters) {
    return scaling::timed_layers(*server, [](std::int64_t) { return 0; })(parameters);
  };
  std::vector<Event> events;
  serving.updated = [&](std::size_t layer, int group, const LayerHeader& header) {
    events.push_back({layer, group, header.ticket, header.version, header.staleness});
    if (events.size() == 5000) server->work(5);
  };
  std::vector<std::vector<double>> pushed_s(2, std::vector<double>(kSteps));
  const auto work = [&](Communicator& workers, Communicator&, ServerSession& session) {
    session.connect(std::array{ServedParameter{0, kElements, 0, 0}, ServedParameter{1, kElements, 0, 0}},
                    {"conv1", "conv2"});
    workers.barrier();
    RandomSequence random(random_stream(9, RandomPurpose::kGenerate), static_cast<std::uint64_t>(workers.rank()));
    TicketReport report{.from = 0, .until = kSteps};
    std::vector<std::int64_t> tickets;
    ServerSession::Lease lease;
    const auto exchange = [&] {
      lease = session.report(report);
      if (lease.ticket) tickets.push_back(*lease.ticket);
    };
    exchange();
    exchange();
    while (!lease.settled) {
      report.done = tickets.front();
      tickets.erase(tickets.begin());
      constexpr int kStages = 100;  // of one that is long the group of the server's own rank need not await the end
      const double stage_s = 1e-3 * (0.9 + 0.2 * random.uniform()) / kStages;
      for (int stage = 0; stage < kStages; ++stage) {
        workers.transport().work(stage_s);
        session.serve(Server::Progress::kMessagesAndUpdates);
      }
      for (const std::int64_t layer : {1, 0}) {
        pushed_s[static_cast<std::size_t>(layer)][static_cast<std::size_t>(report.done)] = workers.transport().now_s();
        session.push(layer * kElements, report.done, 0.1F, nullptr, nullptr);
      }
      for (const std::int64_t layer : {1, 0}) session.wait(layer * kElements);
      exchange();
    }
  };
  on_ranks(world, layout, serving, work, &server);
  ASSERT_EQ(events.size(), 10000U);
  EXPECT_GT(world.now_s(), 5);
  EXPECT_LE(world.most_unexpected_bytes(), kGroups * 2 * kElements * sizeof(float) + (1 << 20));
  std::vector<int> served(kGroups);
  int most_overtaken = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    served[static_cast<std::size_t>(event.group)] += 1;
    const std::vector<double>& times = pushed_s[event.layer];
    int overtaken = 0;
    for (std::size_t j = i > 200 ? i - 200 : 0; j < i; ++j) {
      const bool later =
          times[static_cast<std::size_t>(events[j].ticket)] > times[static_cast<std::size_t>(event.ticket)];
      overtaken += events[j].layer == event.layer && later ? 1 : 0;
    }
    most_overtaken = std::max(most_overtaken, overtaken);
  }
  EXPECT_LE(most_overtaken, kGroups - 1);
  const auto [least, most] = std::ranges::minmax(served);
  EXPECT_LE(most - least, 0.05 * most) << least << " and " << most;
}

INSTANTIATE_TEST_SUITE_P(Servers, Placements, testing::Bool(),
                         [](const auto& test) { return test.param ? "InsideWorkers" : "OnRanksOfTheirOwn"; });

TEST(Servers, InsideWorkersAreSpreadOverGroupsAndLeadersComeLast) {
  for (const auto& [members, groups] : {std::pair(1, 1), std::pair(1, 5), std::pair(4, 3), std::pair(3, 2)}) {
    for (int servers = 1; servers <= members * groups; ++servers) {
      const ServerLayout layout{members * groups, groups, servers, false, true};
      EXPECT_EQ(layout.ranks(), members * groups);
      std::vector<int> of_rank(static_cast<std::size_t>(layout.ranks()), -1),
          of_group(static_cast<std::size_t>(groups));
      for (int server = 0; server < servers; ++server) {
        const int rank = layout.rank_of(server);
        EXPECT_TRUE(layout.works(rank));
        of_rank.at(static_cast<std::size_t>(rank)) = server;
        of_group[static_cast<std::size_t>(layout.group_of(rank))] += 1;
        EXPECT_TRUE(rank % members != 0 || servers > (members - 1) * groups) << "a leader";
      }
      for (int rank = 0; rank < layout.ranks(); ++rank) {
        EXPECT_EQ(layout.server_at(rank).value_or(-1), of_rank[static_cast<std::size_t>(rank)]);
      }
      const auto [least, most] = std::ranges::minmax(of_group);
      EXPECT_LE(most - least, 1);
    }
  }
  const ServerLayout apart{6, 3, 2};
  EXPECT_EQ(apart.ranks(), 8);
  EXPECT_EQ(apart.server_at(5), std::nullopt);
  EXPECT_EQ(apart.server_at(7), 1);
}

// While its worker computes, a server answers where that lets it.
TEST(Servers, InsideAWorkerAnswerWhileItComputes) {
  constexpr int kStages = 10;
  constexpr double kStageS = 0.1;
  const ServerLayout layout{2, 2, 1, false, true};
  const int host = layout.rank_of(0);
  std::vector<Parameter> parameters(1);
  parameters[0].name = "layer0/weight";
  parameters[0].spec.dims = {4};
  testing_support::UniformNetwork network(1e-5, 1e-10);
  const auto world = world_of(layout, network, 3);
  OptimizerOptions sgd;
  sgd.name = "sgd";
  std::int64_t steps_of_other = 0;
  on_ranks(*world, layout, {optimized_layers(sgd, layout.groups), {}},
           [&](Communicator& workers, Communicator&, ServerSession& session) {
             session.connect(parameters);
             workers.barrier();
             std::vector<float> gradient(4), weights(4);
             TicketReport report{.from = 0, .until = 6};
             ServerSession::Lease lease = session.report(report);
             const double start_s = workers.transport().now_s();
             while (!lease.settled) {
               if (lease.ticket) {
                 report.done = *lease.ticket;
                 for (int stage = 0; workers.rank() == host && stage < kStages; ++stage) {
                   workers.transport().work(kStageS);
                   session.serve(Server::Progress::kMessagesAndUpdates);
                 }
                 session.push(0, report.done, 0.1F, gradient.data(), weights.data());
                 session.wait(0);
                 if (workers.transport().now_s() - start_s < kStages * kStageS) steps_of_other += 1;
               }
               lease = session.report(report);
             }
           });
  EXPECT_GE(steps_of_other, 4);  // each takes two stages of the other's, that of the push and that of the next ticket
}

// Gradients of others come faster than a server inside a worker takes them: that worker gets on nevertheless.
TEST(Servers, InsideAWorkerLetItGetOnWhereTheyAlwaysHaveWork) {
  constexpr int kGroups = 5;
  constexpr std::int64_t kSteps = 500;
  const ServerLayout layout{kGroups, kGroups, 1, false, true};
  testing_support::UniformNetwork network(1e-5, 1e-10);
  const auto world = world_of(layout, network, 3);
  Transport* server = nullptr;
  ServeOptions serving;
  serving.make_layer = [&](std::span<const ServedParameter> parameters) {
    return scaling::timed_layers(*server, [](std::int64_t) { return 1e-3; })(parameters);
  };
  std::vector<int> served(kGroups);
  serving.updated = [&](std::size_t, int group, const LayerHeader&) {
    served.at(static_cast<std::size_t>(group)) += 1;
  };
  const auto work = [&](Communicator& workers, Communicator&, ServerSession& session) {
    session.connect(std::array{ServedParameter{0, 1, 0, 0}}, {"conv1"});
    workers.barrier();
    TicketReport report{.from = 0, .until = kSteps};
    ServerSession::Lease lease = session.report(report);
    while (!lease.settled) {
      report.done = lease.ticket.value();
      workers.transport().work(1e-4);
      session.push(0, report.done, 0, nullptr, nullptr);
      session.wait(0);
      lease = session.report(report);
    }
  };
  on_ranks(*world, layout, serving, work, &server);
  const auto [least, most] = std::ranges::minmax(served);
  EXPECT_GE(least, kSteps / kGroups / 2) << "of " << most;
}

}  // namespace
}  // namespace petaflow
