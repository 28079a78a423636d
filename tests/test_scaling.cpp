// Times on virtual ranks against closed forms: sums over ranks of an idle LogGP network, steps with parameter servers,
// and queues.
#include <array>
#include <cmath>
#include <fstream>
#include <map>
#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include "comm/reduction.hpp"
#include "loggp_formulas.hpp"
#include "scaling/inputs.hpp"
#include "scaling/simulation.hpp"
#include "scaling/worker.hpp"
#include "scratch_folder.hpp"
#include "servers/serve.hpp"
#include "servers/session.hpp"
#include "simulate/loggp_network.hpp"
#include "simulate/virtual_world.hpp"

namespace petaflow::scaling {
namespace {

using namespace testing_support;

/// Seconds until the last of the ranks has the sum of vectors without content.
double time_of_sum(const char* name, int ranks, std::int64_t elements, const LogGpOptions& network_options) {
  LogGpNetwork network(ranks, network_options);
  VirtualOptions options;
  options.eager_bytes = network_options.eager_bytes;
  options.ranks_per_node = network_options.ranks_per_node;
  options.byte_added_s = kAdded;
  VirtualWorld world(ranks, network, options);
  world.run([&](std::unique_ptr<Transport> transport) {
    Reduction<float> sum(*transport, find_reduction(name)->plan(*transport, elements), Tag(1));
    sum.start(std::array<float*, 1>{nullptr});
    transport->wait([&] { return sum.advance(); }, "test");
  });
  EXPECT_EQ(world.messages_left(), 0);
  return world.now_s();
}

// The formulas of Thakur, Rabenseifner and Gropp, section 2, with LogGP's time of a message.
TEST(Sums, TakeTheTimeOfTheirFormulas) {
  for (const bool eager : {true, false}) {
    const LogGpOptions network = network_of(eager);
    for (int ranks = 2; ranks <= 64; ++ranks) {
      SCOPED_TRACE(fmt::format("{} ranks, {}", ranks, eager ? "eager" : "with handshakes"));
      const std::int64_t elements = 1024 * ranks;
      const double bytes = 4.0 * static_cast<double>(elements), p = ranks;
      const double ring = (p - 1) * (2 * message_s(bytes / p, eager) + bytes / p * kAdded);
      EXPECT_NEAR(time_of_sum("ring", ranks, elements, network), ring, 0.01 * ring);

      const double levels = std::floor(std::log2(p));
      const bool is_power = std::exp2(levels) == p;
      const double level = message_s(bytes, eager) + bytes * kAdded;
      const double doubling = (levels + (is_power ? 0 : 1)) * level + (is_power ? 0 : message_s(bytes, eager));
      // Eager messages of ranks that need not wait for a fold are under way during it, beside its own.
      if (is_power || !eager) {
        EXPECT_NEAR(time_of_sum("doubling", ranks, elements, network), doubling, 0.01 * doubling);
      }

      if (!is_power) continue;
      const double halving = 2 * levels * message_s(0, eager) + (1 - 1 / p) * bytes * (2 * kByte + kAdded);
      EXPECT_NEAR(time_of_sum("halving", ranks, elements, network), halving, 0.01 * halving);
    }
  }
}

// Within a node a rank copies its shares one after the other; between nodes the ranks sum their shares as "halving"
// does, each over an interface of its own.
TEST(Sums, OnTwoLevelsTakeTheTimeOfTheirFormula) {
  for (const bool eager : {true, false}) {
    for (const int local : {2, 4, 6}) {
      for (const int nodes : {2, 4, 8, 16}) {
        SCOPED_TRACE(fmt::format("{} nodes of {}", nodes, local));
        LogGpOptions network = network_of(eager);
        network.ranks_per_node = network.nics = local;
        const std::int64_t elements = std::int64_t{131072} * nodes * local;
        const double share = 4.0 * static_cast<double>(elements) / local, n = nodes, handshake = eager ? 0 : kHandshake;
        const double within = (local - 1) * (kOverhead + share * kNodeByte) + kNodeLatency + kOverhead + handshake;
        const double between = 2 * std::log2(n) * message_s(0, eager) + (1 - 1 / n) * share * (2 * kByte + kAdded);
        const double expected = 2 * within + (local - 1) * share * kAdded + between;
        EXPECT_NEAR(time_of_sum("two_level", nodes * local, elements, network), expected, 0.01 * expected);
      }
    }
  }
}

// All ranks of a node through one interface.
TEST(Sums, WaitForASharedInterface) {
  LogGpOptions network = network_of(true);
  network.ranks_per_node = 4;
  const double bytes = 4e6, one = time_of_sum("two_level", 8, 1'000'000, network);
  network.nics = 4;
  const double four = time_of_sum("two_level", 8, 1'000'000, network);
  EXPECT_NEAR(one - four, 3 * bytes / 4 * kByte, 0.05 * one);
}

// ---- Steps ----

/// One layer, or several of the same size.
Workload workload_of(int layers, std::int64_t elements, double compute_s) {
  Workload workload;
  for (int layer = 0; layer < layers; ++layer) {
    workload.stages.push_back({fmt::format("conv{}", layer), elements, 0, compute_s / layers});
  }
  return workload;
}

Machine machine_of(std::size_t eager_bytes) {
  Machine machine;
  machine.network = network_of(true);
  machine.network.eager_bytes = eager_bytes;
  machine.byte_added_s = kAdded;
  return machine;
}

// A push and its answer are a header and values each, a report and its answer a message each; the receive of values is
// posted when their header is there.  Sums of two members: one sends its vector to the other, and gets weights.
TEST(Steps, WithServersTakeTheSumOfTheirParts) {
  constexpr std::int64_t kElements = 1'000'000;
  constexpr double kValues = 4.0 * kElements, kCompute = 5e-3, kUpdate = 2e-9;
  for (const int members : {1, 2}) {
    Workload workload = workload_of(1, kElements, kCompute);
    workload.server_element_s = kUpdate;
    Scheme scheme;
    scheme.servers = 1;
    scheme.steps = 20;
    const Outcome outcome = simulate(members + 1, machine_of(4096), workload, scheme);
    const double sum = members == 1 ? 0 : message_s(kValues, false) + kValues * kAdded;
    const double spread = members == 1 ? 0 : message_s(kValues, false);
    const double push = 2 * (message_s(sizeof(LayerHeader), true) + message_s(kValues, false)) + kUpdate * kElements;
    const double tickets = message_s(sizeof(TicketReport), true) + message_s(sizeof(TicketAnswer), true);
    const double expected = kCompute + sum + push + spread + tickets;
    EXPECT_NEAR(outcome.step_s, expected, 0.01 * expected) << members;
    EXPECT_NEAR(outcome.compute_s, kCompute, 1e-9);
  }
}

// A rank with a server inside does the updates of all groups, also while it computes, which takes that much longer.
TEST(Steps, WithAServerInsideAWorkerTakeItsUpdatesToo) {
  constexpr std::int64_t kElements = 1000;
  constexpr double kCompute = 5e-3, kUpdate = 2e-3;
  Workload workload = workload_of(1, kElements, kCompute);
  workload.server_element_s = kUpdate / kElements;
  Scheme scheme;
  scheme.servers = 1;
  scheme.colocate_servers = true;
  scheme.steps = 20;
  const double alone_s = simulate(1, machine_of(4096), workload, scheme).step_s;
  EXPECT_NEAR(alone_s, kCompute + kUpdate, 0.01 * alone_s);
  scheme.groups = 2;
  scheme.steps = 400;
  scheme.poll_s = 10e-6;
  const double other_s = kCompute + kUpdate;  // of the group that has no server, if nothing but its own update is done
  const double host_s = (kCompute + kUpdate) / (1 - kUpdate / other_s);
  const double rate = 1 / host_s + 1 / other_s;
  const double simulated = simulate(2, machine_of(4096), workload, scheme).updates_per_s;
  EXPECT_LT(simulated, rate);
  EXPECT_GT(simulated, 0.88 * rate);  // now and then one's update waits for the other one's
}

// Backward of the first layer hides the messages of the second one's sum, not its additions; nothing hides the sum of
// the first layer, but for the second one's update.
TEST(Steps, HideSumsBehindTheBackwardPass) {
  constexpr std::int64_t kElements = 262144;
  constexpr double kBytes = 4.0 * kElements, kUpdate = 0.5e-3;  // of a layer
  Workload workload = workload_of(2, kElements, 20e-3);
  workload.optimizer_s = 2 * kUpdate;
  Scheme scheme;
  scheme.reduction = "halving";
  scheme.steps = 5;
  scheme.poll_s = 10e-6;
  const double add = kBytes / 2 * kAdded, sum = 2 * message_s(kBytes / 2, true) + add;
  const double overlapped = simulate(2, machine_of(1 << 30), workload, scheme).step_s;
  const double agreement = message_s(sizeof(double) * 4, true);
  EXPECT_NEAR(overlapped, 20e-3 + add + sum + kUpdate, agreement + 2 * scheme.poll_s);
  // At the end of the pass both share the interfaces: their first halves end together, and so would their second ones,
  // of which one starts an addition later.  That hides this addition, and leaves the other sum so much time at the end
  // alone that its update, which is longer, is all that the next one waits for.
  scheme.overlap = false;
  const double after = simulate(2, machine_of(1 << 30), workload, scheme).step_s;
  EXPECT_NEAR(after, 20e-3 + 2 * message_s(kBytes, true) + 2 * kUpdate, agreement + 2 * scheme.poll_s);
}

// Two ranks send each other half of the gradient, update half of the weights each, and send each other these.
TEST(Steps, WithShardedStateTakeTheSumOfTheirParts) {
  constexpr std::int64_t kElements = 1'000'000;
  constexpr double kHalf = 2.0 * kElements, kCompute = 5e-3, kUpdate = 4e-3;
  Workload workload = workload_of(1, kElements, kCompute);
  workload.optimizer_s = kUpdate;
  Scheme scheme;
  scheme.sharded = true;
  const double expected = kCompute + 2 * message_s(kHalf, true) + kHalf * kAdded + kUpdate / 2;
  const double simulated = simulate(2, machine_of(1 << 30), workload, scheme).step_s;
  EXPECT_NEAR(simulated, expected, 0.01 * expected);
  scheme.reduction = "ring";
  EXPECT_THROW(simulate(2, machine_of(1 << 30), workload, scheme), Error);
}

// Four ranks in two groups: sums of gradients within each, and after every third step those of weights and one state
// between them, which are two more sums of two ranks.  Late ones are of the weights alone, and take what they add; the
// last one is as without.
TEST(Steps, WithAveragesTakeTheSumOfTheirParts) {
  constexpr std::int64_t kElements = 1'000'000;
  constexpr double kHalf = 2.0 * kElements, kCompute = 5e-3;
  Scheme scheme;
  scheme.groups = 2;
  scheme.average_every = 3;
  scheme.averaged_arrays = 2;
  scheme.reduction = "halving";
  scheme.steps = 2 * 30;  // of which the first of each group does not count
  const Workload workload = workload_of(1, kElements, kCompute);
  const double added = kHalf * kAdded, sum = 2 * message_s(kHalf, true) + added;
  const double expected = kCompute + sum + 10 * 2 * sum / 29;
  EXPECT_NEAR(simulate(4, machine_of(1 << 30), workload, scheme).step_s, expected, 0.01 * expected);
  scheme.average_late = 1;
  scheme.poll_s = 0.1e-3;
  const double late = kCompute + sum + (9 * added + 2 * sum) / 29;
  EXPECT_NEAR(simulate(4, machine_of(1 << 30), workload, scheme).step_s, late, 0.01 * late);
  scheme.average_late = 4;
  EXPECT_THROW(simulate(4, machine_of(1 << 30), workload, scheme), Error);
}

// ---- Queues ----

/// Updates per second of groups of one that compute for an exponential time, of mean 1, before each push.  The first
/// server keeps a layer whose updates take no time, so that who asks it for a ticket need not wait.
double rate_of(int groups, double update_s, std::int64_t pushes) {
  LogGpNetwork network(groups + 2, {.eager_bytes = 1 << 20});
  VirtualWorld world(groups + 2, network, {.eager_bytes = 1 << 20});
  const ServerLayout layout{groups, groups, 2};
  double last_s = 0;
  world.run([&](std::unique_ptr<Transport> transport) {
    RandomSequence random(random_stream(3, RandomPurpose::kGenerate), static_cast<std::uint64_t>(transport->rank()));
    if (transport->rank() >= groups) {
      const double mean_s = transport->rank() == groups ? 0 : update_s;
      ServeOptions options{
          scaling::timed_layers(*transport, [&](std::int64_t) { return mean_s * random.exponential(); })};
      options.updated = [&](std::size_t, int, const LayerHeader&) { last_s = transport->now_s(); };
      serve(*transport, layout, options);
      return;
    }
    Transport& mine = *transport;
    Communicator group;
    ServerSession session(std::move(transport), layout, group);
    session.connect(std::array{ServedParameter{0, 1, 0, 0}, ServedParameter{1, 1, 0, 0}}, {"conv1", "conv2"});
    TicketReport report{.from = 0, .until = pushes};
    ServerSession::Lease lease = session.report(report);
    std::optional<std::int64_t> ticket = lease.ticket;
    while (!lease.settled) {
      mine.work(random.exponential());
      for (const std::int64_t layer : {1, 0}) session.push(layer, *ticket, 0, nullptr, nullptr);
      for (const std::int64_t layer : {1, 0}) session.wait(layer);
      report.done = *ticket;
      lease = session.report(report);
      ticket = lease.ticket;
    }
    session.end(0);
  });
  return static_cast<double>(pushes) / last_s;
}

// The machine-repair model: K machines that break after a time of mean 1, one who repairs each in a time of mean u.
TEST(Queues, AtAServerAreThoseOfTheMachineRepairModel) {
  for (const auto& [groups, update_s] : {std::pair(1, 0.5), std::pair(2, 0.3), std::pair(4, 0.2), std::pair(8, 0.2)}) {
    double term = 1, sum = 1;
    for (int broken = 1; broken <= groups; ++broken) {
      term *= (groups - broken + 1) * update_s;
      sum += term;
    }
    const double expected = (1 - 1 / sum) / update_s;
    EXPECT_NEAR(rate_of(groups, update_s, 40000), expected, 0.015 * expected) << groups;
  }
}

// With constant times a server is either always busy, or nobody waits for another.
TEST(Queues, OfConstantTimes) {
  for (const int groups : {1, 3, 6, 12}) {
    constexpr std::int64_t kElements = 100'000;
    Workload workload = workload_of(2, kElements, 20e-3);
    workload.stages[0].elements = 1;    // on the server that is asked for tickets, too
    workload.server_element_s = 30e-9;  // 3 ms for the other one
    Scheme scheme;
    scheme.servers = 2;
    scheme.bucket_mb = 0;
    scheme.groups = groups;
    scheme.steps = 40 * groups;
    Machine machine = machine_of(1 << 30);
    machine.network.byte_s = 0;
    const Outcome outcome = simulate(groups + 2, machine, workload, scheme, 1, 10);
    const double expected = std::max(groups * 3e-3, 13e-3 + 10e-3 + 4 * message_s(0, true));
    EXPECT_NEAR(outcome.step_s, expected, 0.01 * expected) << groups;
  }
}

// ---- Inputs ----

/// What a reader of files says to this text; empty: nothing.
template <class Read>
std::string complaint_of(const Read& read, const std::string& text) {
  const test::ScratchFolder folder;
  const std::string path = folder / "input.toml";
  std::ofstream(path) << text;
  try {
    read(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Inputs, SayWhatIsWrongWithAMachine) {
  const auto message_of = [](const std::string& text) { return complaint_of(read_machine, text); };
  const std::string nic = "nic_gb_s = [1, \"measured\", \"here\"]\n";
  EXPECT_EQ(message_of(nic + "latency_us = [1.3, \"measured\", \"here\"]\n"), "");
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {nic + "latency_us = 1.3\n", ":2: latency_us is no list"},
           {nic + "latency = [1.3, \"measured\", \"here\"]\n", ":2: latency is not known"},
           {nic + "latency_us = [-1, \"measured\", \"here\"]\n", ":2: latency_us is -1; set it to 0 or more"},
           {nic + "nics = [0, \"measured\", \"here\"]\n", ":2: nics is 0; set it to 1 to "},
           {nic + "shared_efficiency = [2, \"measured\", \"here\"]\n", "shared_efficiency is 2; set it to 0.001 to 1"},
           {"latency_us = [1.3, \"measured\", \"here\"]\n", "nic_gb_s is missing"},
       }) {
    EXPECT_NE(message_of(text).find(message), std::string::npos) << message_of(text);
  }
}

TEST(Inputs, SayWhatIsWrongWithAWorkload) {
  const auto message_of = [](const std::string& text) { return complaint_of(read_workload, text); };
  const std::string layer = "[stages]\nconv = [100, 1, 2, \"chosen\", \"here\"]\n";
  EXPECT_EQ(message_of(layer), "");
  for (const auto& [text, message] : std::map<std::string, std::string>{
           {"step_ms = [1, \"chosen\", \"here\"]\nother_ms = [1, \"chosen\", \"here\"]\n" + layer,
            "step_ms leaves no time for stages"},
           {layer + "fc = [10, -1, 2, \"chosen\", \"here\"]\n", "stages.fc has a number below 0"},
           {"[stages]\nconv = [0, 1, 2, \"chosen\", \"here\"]\n", "no stage has parameters"},
       }) {
    EXPECT_NE(message_of(text).find(message), std::string::npos) << message_of(text);
  }
}

// What rank 0 does in a step but wait: 100 ms, of which it waits 20, reads for 5, updates for 2 and is in stages, in
// two passes, for 60; the 13 that are left pass between stages of the backward pass.
TEST(Inputs, AreTimesOfARun) {
  const test::ScratchFolder folder;
  std::ofstream(folder / "workload.toml") << R"([stages]
conv1 = [500, 1, 1, "chosen", "here"]
conv2 = [1500, 1, 1, "chosen", "here"]
)";
  const std::string path = folder / "performance.json";
  std::ofstream(path) << R"({"seconds": 1.0, "own_steps": 10, "passes_per_step": 2, "pass": 4, "parameters": 2000,
    "time_of_rank_0": [{"part": "input", "seconds": 0.05}, {"part": "optimizer", "seconds": 0.02}],
    "communication": {"ranks": [
      {"rank": 0, "waited": [{"for": "rank 1", "seconds": 0.15}, {"for": "all", "seconds": 0.05}]},
      {"rank": 1, "waited": [{"for": "rank 0", "seconds": 0.5}]}]},
    "stages": [{"stage": "conv1 + relu", "forward_ms": 4, "backward_ms": 5},
               {"stage": "conv2", "forward_ms": 6, "backward_ms": 15}]})";
  TrustedWorkload workload = read_workload(folder / "workload.toml");
  take_times(workload, path, path);
  const Workload& times = workload.workload;
  EXPECT_DOUBLE_EQ(workload.samples, 8);
  EXPECT_DOUBLE_EQ(times.other_s, 0.005);
  EXPECT_DOUBLE_EQ(times.optimizer_s, 0.002);
  EXPECT_DOUBLE_EQ(times.stages[0].forward_s, 0.008);
  EXPECT_DOUBLE_EQ(times.stages[1].forward_s, 0.012);
  EXPECT_NEAR(times.stages[0].backward_s, 0.01 * (1 + 13.0 / 40), 1e-12);
  EXPECT_NEAR(times.stages[1].backward_s, 0.03 * (1 + 13.0 / 40), 1e-12);
  EXPECT_NEAR(times.step_s(), 0.08, 1e-12);
}

// Schemes that so many ranks cannot train by are refused before anything is sent.
TEST(Inputs, RefuseSchemes) {
  const Machine machine = machine_of(1 << 30);
  const Workload workload = workload_of(2, 1000, 1e-3);
  const auto message_of = [&](int ranks, const Scheme& scheme) -> std::string {
    try {
      simulate(ranks, machine, workload, scheme);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message_of(4, {.groups = 8, .average_every = 2}).find("set --ranks to 8"), std::string::npos);
  EXPECT_NE(message_of(4, {.average_late = 2}).find("set --average-every"), std::string::npos);
  EXPECT_NE(message_of(4, {.groups = 2}).find("set --servers, or --average-every"), std::string::npos);
  EXPECT_NE(message_of(8, {.groups = 2, .servers = 4}).find("set --servers to 2 or less"), std::string::npos);
  try {
    simulate_case(5, machine, {.what = "servers", .groups = 2});
    FAIL() << "three workers in two groups";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("set --ranks to 4"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace petaflow::scaling
