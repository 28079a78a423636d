// A random training on virtual ranks, whose messages and computation take random times, by the trainer: what it did,
// and what is wrong with that.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "device_memory.hpp"
#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/dense.hpp"
#include "random_schedule.hpp"
#include "servers/optimized_layer.hpp"
#include "servers/served_rank.hpp"
#include "simulate/virtual_world.hpp"
#include "train/trainer.hpp"
#include "uniform_network.hpp"
#include "virtual_servers.hpp"

namespace petaflow::schedules {

/// A mistake that is put into a run, to see that it is found.
enum class Plant {
  kNone,
  kTicketTwice,  // the coordinator deals a ticket out that another group has, in the place of the next one
  kOutOfTurn,    // servers that should apply gradients by ticket apply and answer them as they come
  kWrongTag      // a message is received by a tag that it does not have
};

/// What ranks of a run share: what it did, and the mistake in it.
struct Record {
  std::vector<int> read;                                     // by sample
  std::vector<int> taken;                                    // by step: workers that took it
  std::map<std::size_t, std::vector<std::int64_t>> applied;  // by layer of servers: tickets
  std::size_t served_layers = 0;
  std::vector<std::vector<float>> weights;  // by worker
  std::int64_t left = 0;                    // messages that nobody received
  Plant plant = Plant::kNone;
  int plant_after = 0;                  // so many places where it could be
  std::int64_t leased = -1, real = -1;  // kTicketTwice
};

/// Numbers, of which each is read as often as it is asked for.
class CountedData final : public Dataset {
 public:
  explicit CountedData(Record& record) : record_(record) {}
  std::int64_t size() const override { return std::ssize(record_.read); }
  std::array<std::int64_t, 4> sample_dims() const override { return {2, 1, 1, 1}; }
  std::vector<TargetSpec> targets() const override { return {TargetSpec::label("class", 2)}; }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    record_.read[static_cast<std::size_t>(index)] += 1;
    RandomSequence random(random_stream(3, RandomPurpose::kGenerate), static_cast<std::uint64_t>(index));
    for (float& x : numbers<float>(sample.input)) x = static_cast<float>(random.normal());
    sample.target<std::int32_t>(0).front() = static_cast<std::int32_t>(random.below(2));
    return 1;
  }

 private:
  Record& record_;
};

class CountedSteps final : public TrainingListener {
 public:
  explicit CountedSteps(Record& record) : record_(record) {}
  void begin_step(std::int64_t step) override {
    if (std::cmp_greater_equal(step, record_.taken.size())) record_.taken.resize(static_cast<std::size_t>(step) + 1);
    record_.taken[static_cast<std::size_t>(step)] += 1;
  }

 private:
  Record& record_;
};

/// A rank that computes for random times where a step tells of its computation; makes the mistake.
class RandomWork final : public Transport {
 public:
  /// @param random  of this rank; null: computation takes no time
  RandomWork(std::unique_ptr<Transport> inner, std::shared_ptr<RandomSequence> random, Record& record)
      : inner_(std::move(inner)), random_(std::move(random)), record_(record) {}

  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const Nodes& nodes() const override { return inner_->nodes(); }
  Message send(std::span<const std::byte> bytes, int to, Tag tag) override {
    if (record_.plant == Plant::kTicketTwice && bytes.size() == sizeof(TicketAnswer)) return lease(bytes, to, tag);
    if (record_.plant == Plant::kTicketTwice && bytes.size() == sizeof(TicketReport)) tell(bytes);
    return inner_->send(bytes, to, tag);
  }
  Message receive(std::span<std::byte> bytes, int from, Tag tag) override {
    const bool wrong = record_.plant == Plant::kWrongTag && record_.plant_after-- == 0;
    return inner_->receive(bytes, from, wrong ? tag + 1 : tag);
  }
  bool done(Message& message) override { return inner_->done(message); }
  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    inner_->wait(over, call, until_s);
  }
  double now_s() const override { return inner_->now_s(); }
  /// The real time, which is not the same in every run, does not count.
  void work(double /*seconds*/) override {
    if (random_ && random_->below(4) != 0) inner_->work(mean_s() * random_->exponential());
  }
  std::unique_ptr<Transport> split(int group) override {
    return std::make_unique<RandomWork>(inner_->split(group), random_, record_);
  }
  [[noreturn]] void abort(int exit_code) override {
    inner_->abort(exit_code);
    std::abort();
  }

 private:
  double mean_s() { return random_->below(8) == 0 ? 2e-2 : 1e-3; }
  // The two structs stay as long as the message takes.
  Message lease(std::span<const std::byte> bytes, int to, Tag tag) {
    auto& answer = *reinterpret_cast<TicketAnswer*>(const_cast<std::byte*>(bytes.data()));
    if (answer.ticket > 0 && record_.plant_after-- == 0) {
      record_.real = answer.ticket;
      record_.leased = --answer.ticket;
    }
    return inner_->send(bytes, to, tag);
  }
  // So that the coordinator itself notices nothing.
  void tell(std::span<const std::byte> bytes) {
    auto& report = *reinterpret_cast<TicketReport*>(const_cast<std::byte*>(bytes.data()));
    if (report.done < 0 || report.done != record_.leased) return;
    report.done = std::exchange(record_.real, record_.leased);
  }

  std::unique_ptr<Transport> inner_;
  std::shared_ptr<RandomSequence> random_;
  Record& record_;
};

inline Graph network(std::int64_t layers) {
  Graph graph({1, 2, 1, 1, 1});
  for (std::int64_t layer = 0; layer + 1 < layers; ++layer) {
    graph.add<Dense>(fmt::format("fc{}", layer), 2 + layer).add<Relu>(fmt::format("relu{}", layer));
  }
  graph.add<Dense>("last", 2);
  return graph;
}

/// Trains; throws where all wait for messages that nobody sends, and where the trainer fails.
inline void run(const Schedule& s, Record& record) {
  const CommonOptions& options = s.options;
  record.read.assign(static_cast<std::size_t>(s.samples), 0);
  record.weights.resize(static_cast<std::size_t>(s.workers));
  const int apart = options.update.colocate_servers ? 0 : static_cast<int>(options.update.servers);
  const ServerLayout layout = server_layout(options, s.workers + apart);
  virtual_servers::Noisy noisy(s.seed);
  testing_support::UniformNetwork uniform;
  VirtualOptions world_options{s.eager_bytes, s.ranks_per_node, s.seed, 256 << 10};
  VirtualWorld world(layout.ranks(), s.calm ? static_cast<NetworkModel&>(uniform) : noisy, world_options);
  const CountedData data(record);
  const Graph graph = network(s.layers);
  world.run([&](std::unique_ptr<Transport> transport) {
    const auto number = s.seed * 16 + static_cast<std::uint64_t>(transport->rank());
    const auto random =
        s.calm ? nullptr : std::make_shared<RandomSequence>(random_stream(8, RandomPurpose::kGenerate), number);
    Communicator comm(std::make_unique<RandomWork>(std::move(transport), random, record));
    ServeOptions serving{optimized_layers(options.optimizer, layout.groups), serving_order(options)};
    if (record.plant == Plant::kOutOfTurn) serving.order.order = UpdateOrder::kArrival;
    serving.updated = [&](std::size_t layer, int, const LayerHeader& header) {
      record.applied[layer].push_back(header.ticket);
      comm.transport().work(0);
    };
    ServedRank rank(comm, layout, serving);
    if (!rank.works()) {
      rank.serve();
      return;
    }
    const std::unique_ptr<Communicator> across = rank.workers().split(comm.rank() % layout.members());
    const Objective loss("class", std::make_shared<SoftmaxLoss>());
    StepOptions step_options = petaflow::step_options(options);
    step_options.network.runs = false;  // 2 MiB of memory, of which it needs some pages, need not be touched
    TrainStep step(rank.group(), Context(), step_options, graph, loss);
    Trainer trainer(trainer_options(options, "loss"), rank.workers(), Context(), step, data, {}, nullptr);
    if (layout.servers > 0) trainer.connect(rank.session());
    if (options.update.average_every > 0) trainer.average_over(*across);
    CountedSteps counted(record);
    trainer.fit(counted);
    record.weights[static_cast<std::size_t>(comm.rank())] =
        testing_support::to_host<float>(step.network().weights(), step.network().parameter_elements());
    if (layout.servers == 0) return;
    record.served_layers = layers_of(step.network().parameters(), layout).size();
    rank.session().end(0);
  });
  record.left = world.messages_left();
}

/// The training whose weights this one promises to have, bit by bit, on a quiet network; those that are deterministic
/// on as few ranks as can be: without groups the loop of one rank alone.
inline Schedule reference(Schedule s) {
  s.calm = true;
  s.seed = 0;
  s.eager_bytes = 4096;
  s.options.comm.overlap = false;
  UpdateOptions& update = s.options.update;
  if (!s.options.train.deterministic) return s;
  s.workers = static_cast<int>(update.groups);
  s.ranks_per_node = 1;
  s.options.comm.bucket_mb = 1;
  update.sharded = update.colocate_servers = update.cut_layers = false;
  update.servers = s.serves() && update.groups > 1 ? 1 : 0;
  return s;
}

/// What is wrong with a run; "": nothing.
inline std::string problem_of(const Schedule& s, Record& record) {
  try {
    run(s, record);
  } catch (const std::exception& error) {
    return error.what();
  }
  const CommonOptions& options = s.options;
  if (record.left != 0) return fmt::format("{} messages were never received", record.left);
  for (std::size_t i = 0; i < record.read.size(); ++i) {
    if (record.read[i] != options.train.epochs) return fmt::format("sample {} was taken {} times", i, record.read[i]);
  }
  const std::int64_t per_step = options.train.batch / options.update.groups;
  const std::int64_t steps = (s.samples + per_step - 1) / per_step * options.train.epochs;
  if (std::ssize(record.taken) != steps) return fmt::format("{} steps of {}", record.taken.size(), steps);
  for (std::size_t i = 0; i < record.taken.size(); ++i) {
    if (record.taken[i] != s.workers / options.update.groups) {
      return fmt::format("{} workers took step {}", record.taken[i], i);
    }
  }
  if (record.applied.size() != record.served_layers) return fmt::format("{} layers changed", record.applied.size());
  const bool in_turn = serving_order(options).order == UpdateOrder::kTicket;
  std::vector<std::int64_t> all(static_cast<std::size_t>(steps));
  std::iota(all.begin(), all.end(), 0);
  for (auto& [layer, tickets] : record.applied) {
    if (!in_turn) std::ranges::sort(tickets);
    if (tickets != all) return fmt::format("layer {} was changed by tickets {}", layer, fmt::join(tickets, ", "));
  }
  for (const std::vector<float>& theirs : record.weights) {
    if (theirs != record.weights.front()) return "not all workers have the same weights";
  }
  if (!std::ranges::all_of(record.weights.front(), [](float w) { return std::isfinite(w); }))
    return "weights are not finite";
  const bool promises = !s.serves() || in_turn || options.update.groups == 1;
  if (!promises) return "";
  // Of all that were asked for.
  static std::map<std::string, std::vector<float>> known;
  const Schedule quiet = reference(s);
  std::vector<float>& expected = known[describe(quiet)];
  if (expected.empty()) {
    Record of_quiet;
    run(quiet, of_quiet);
    expected = of_quiet.weights.front();
  }
  return record.weights.front() == expected ? "" : "the weights are not those of " + describe(quiet);
}

}  // namespace petaflow::schedules
