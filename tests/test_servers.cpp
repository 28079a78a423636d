// Groups of workers and parameter servers on virtual ranks: against synchronous training and against a serial replay of
// what the servers recorded.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "kept_checkpoints.hpp"
#include "servers/optimized_layer.hpp"
#include "tiny_training.hpp"
#include "train/trainer.hpp"
#include "update/rule.hpp"
#include "virtual_servers.hpp"

namespace petaflow {
namespace {

using testing_support::expect_same;
using testing_support::Keeper;
using virtual_servers::Event;
using virtual_servers::Noisy;
using virtual_servers::on_ranks;
using virtual_servers::world_of;

struct Result {
  std::vector<std::pair<std::int64_t, Checkpoint>> saved;  // by rank 0
  std::vector<float> weights;                              // the same on all workers
  std::vector<Event> events;                               // of all servers, in the order of time
  FitResult fit;                                           // of rank 0
  std::vector<std::string> errors;                         // of each worker
};

constexpr std::size_t kLayers = 3, kParts = 6;  // of tiny::network(), cut for four servers

struct Servers {
  ServerLayout layout;
  std::uint64_t seed = 1;
  const Dataset* data = nullptr;  // null: tiny::Data
  bool by_arrival = false;        // although train.deterministic, whose sums within a group are of shards
};

Result train(const CommonOptions& given, const Servers& servers, const Checkpoint* from = nullptr) {
  const ServerLayout& layout = servers.layout;
  CommonOptions options = given;
  options.update.groups = layout.groups;
  options.update.servers = layout.servers;
  options.update.cut_layers = layout.cut_layers;
  options.update.colocate_servers = layout.colocated;
  Noisy network(servers.seed);
  const auto world = world_of(layout, network, servers.seed);
  Result result;
  result.errors.resize(static_cast<std::size_t>(layout.workers));
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(layout.workers));
  ServeOptions serving{optimized_layers(options.optimizer, layout.groups), serving_order(options)};
  if (servers.by_arrival) serving.order.order = UpdateOrder::kArrival;
  serving.updated = [&](std::size_t layer, int group, const LayerHeader& header) {
    result.events.push_back({layer, group, header.ticket, header.version, header.staleness});
  };
  on_ranks(*world, layout, serving, [&](Communicator& workers, Communicator& group, ServerSession& session) {
    const auto rank = static_cast<std::size_t>(workers.rank());
    tiny::Training training(group, options, 91, 0.5F, true);
    const Dataset& data = servers.data != nullptr ? *servers.data : training.data;
    Trainer trainer(trainer_options(options, "loss"), workers, Context(), training.step, data,
                    DetectorAugment(data.sample_dims(), AugmentOptions{}), nullptr);
    if (from != nullptr) trainer.restore(*from, "the checkpoint");
    Keeper keeper;
    bool failed = false;
    try {
      trainer.connect(session);
      const FitResult fit = trainer.fit(keeper);
      if (rank == 0) result.fit = fit;
    } catch (const AgreedError& error) {
      result.errors[rank] = error.what();
      failed = true;
    }
    if (rank == 0) result.saved = std::move(keeper.saved);
    if (!failed) weights[rank] = training.weights();
  });
  for (const std::vector<float>& theirs : weights) EXPECT_EQ(theirs, weights[0]);
  result.weights = weights[0];
  return result;
}

/// 12 steps of 8 samples per group and epoch, of 91 samples.
CommonOptions options_of(int groups) {
  CommonOptions options;
  options.train.batch = 8 * groups;
  options.train.shards = 4;
  options.train.seed = 5;
  options.train.steps = 30;
  options.optimizer.lr = 0.01;
  options.comm.fixed_order = true;
  options.checkpoint.interval = 7;
  options.log.interval = 1000;
  return options;
}

/// Without servers.
std::vector<std::pair<std::int64_t, Checkpoint>> train_synchronously(const CommonOptions& options) {
  Communicator alone;
  tiny::Training training(alone, options, 91, 0.5F, true);
  Trainer trainer(trainer_options(options, "loss"), alone, Context(), training.step, training.data,
                  DetectorAugment(training.data.sample_dims(), AugmentOptions{}), nullptr);
  Keeper keeper;
  trainer.fit(keeper);
  return std::move(keeper.saved);
}

TEST(Servers, OneGroupIsSynchronousTrainingForEveryRule) {
  for (const std::string& rule : rule_names()) {
    if (rule == "yellowfin") continue;  // of layers by themselves it is another one
    for (const double larc : {0.0, 0.02}) {
      CommonOptions options = options_of(1);
      options.train.deterministic = true;
      options.optimizer.name = rule;
      options.optimizer.larc = larc;
      options.optimizer.weight_decay = 0.01;
      options.optimizer.decay_scope = larc > 0 ? ArrayScope::kAll : ArrayScope::kWeights;
      options.optimizer.trust_scope = larc > 0 ? ArrayScope::kWeights : ArrayScope::kAll;
      const auto expected = train_synchronously(options);
      for (const auto& [workers, servers] : {std::pair(1, 1), std::pair(2, 1), std::pair(3, 2), std::pair(4, 3)}) {
        SCOPED_TRACE(fmt::format("{} larc {}, {} workers, {} servers", rule, larc, workers, servers));
        for (const bool colocated : {false, true}) {
          if (colocated && larc > 0 && workers != 3) continue;
          const Result result = train(options, {{workers, 1, servers, false, colocated}});
          ASSERT_EQ(result.saved.size(), expected.size());
          for (std::size_t i = 0; i < expected.size(); ++i) expect_same(result.saved[i].second, expected[i].second);
        }
      }
    }
  }
}

TEST(Servers, LayersAreCutWhereTheyAreLargerThanTheMean) {
  std::vector<Parameter> parameters;
  for (const auto& [layer, elements] : {std::pair(0, 10), std::pair(1, 200), std::pair(1, 30), std::pair(2, 61)}) {
    Parameter parameter;
    parameter.layer = static_cast<std::size_t>(layer);
    parameter.spec.dims = {elements};
    parameter.offset = parameters.empty() ? 0 : parameters.back().offset + parameters.back().spec.elements();
    parameters.push_back(parameter);
  }
  const auto ends = [&](int servers) {
    std::vector<std::int64_t> all;
    for (const Slice& part : layers_of(parameters, {.servers = servers, .cut_layers = true})) all.push_back(part.end);
    return all;
  };
  using Ends = std::vector<std::int64_t>;
  EXPECT_EQ(ends(1), (Ends{10, 240, 301}));
  EXPECT_EQ(ends(2), (Ends{10, 125, 240, 301}));
  EXPECT_EQ(ends(5), (Ends{10, 67, 125, 182, 240, 270, 301}));
  EXPECT_EQ(ends(301).size(), 301U);
  for (int servers = 1; servers <= 301; ++servers) {
    const auto parts = layers_of(parameters, {.servers = servers, .cut_layers = true});
    EXPECT_GE(std::ssize(parts), servers);
    for (const Slice& part : parts) EXPECT_LT((part.size() - 1) * servers, 301) << servers;
  }
}

TEST(Servers, CutLayersOfOneGroupAreSynchronousTraining) {
  for (const char* rule : {"adam", "sgd"}) {
    CommonOptions options = options_of(1);
    options.train.deterministic = true;
    options.optimizer.name = rule;
    options.optimizer.weight_decay = 0.01;
    const auto expected = train_synchronously(options);
    for (const auto& [workers, servers] : {std::pair(1, 2), std::pair(4, 5)}) {
      SCOPED_TRACE(fmt::format("{}, {} workers, {} servers", rule, workers, servers));
      const Result result = train(options, {{workers, 1, servers, true}});
      ASSERT_EQ(result.saved.size(), expected.size());
      for (std::size_t i = 0; i < expected.size(); ++i) expect_same(result.saved[i].second, expected[i].second);
      std::set<std::size_t> parts;
      for (const Event& event : result.events) parts.insert(event.layer);
      EXPECT_GT(parts.size(), kLayers);
    }
  }
}

TEST(Servers, ByTicketTheOrderOfEventsChangesNoBit) {
  CommonOptions options = options_of(3);
  options.update.order = UpdateOrder::kTicket;
  const Result expected = train(options, {{6, 3, 2}, 0});
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Result result = train(options, {{6, 3, 2, false, seed % 2 == 0}, seed});  // some inside workers
    EXPECT_EQ(result.weights, expected.weights);
    ASSERT_EQ(result.saved.size(), expected.saved.size());
    for (std::size_t i = 0; i < expected.saved.size(); ++i) {
      expect_same(result.saved[i].second, expected.saved[i].second);
    }
  }
  for (const Event& event : expected.events) {
    EXPECT_EQ(event.version, event.ticket + 1);
    EXPECT_EQ(event.group, event.ticket % 3);
    EXPECT_LE(event.staleness, 2);
  }
  // With shards neither the size of groups nor the number of servers counts.
  options.train.deterministic = true;
  options.update.order = UpdateOrder::kArrival;
  const Result small = train(options, {{3, 3, 1}, 4}), large = train(options, {{12, 3, 3}, 5});
  EXPECT_EQ(small.weights, large.weights);
}

// The definition, in the order that the servers recorded: a gradient is that of the weights that the group got last,
// and each layer's optimizer counts for itself.
void expect_replay(const CommonOptions& options, const ServerLayout& layout, const Result& result) {
  Communicator alone;
  CommonOptions source_options = options;
  source_options.train.batch /= 3;
  source_options.optimizer.name = "sgd";  // at a rate of 0
  source_options.optimizer.weight_decay = 0;
  tiny::Training source(alone, source_options, 91, 0.5F, true);
  const std::vector<Parameter>& parameters = source.step.network().parameters();
  const std::vector<Slice> layers = layers_of(parameters, layout);
  ASSERT_EQ(layers.size(), layout.cut_layers ? kParts : kLayers);
  Optimizer optimizer =
      layout.cut_layers ? Optimizer(options.optimizer, parameters, layers) : Optimizer(options.optimizer, parameters);
  const testing_support::DeviceArray<float> weights(source.weights());
  testing_support::DeviceState device_state;
  Context context;
  context.step = device_state.data();
  struct Group {
    std::vector<float> weights, gradient;
    std::int64_t ticket = -1;
  };
  std::vector<Group> groups(3, {source.weights(), {}, -1});
  std::vector<std::int64_t> pushes(layers.size());
  const std::int64_t per_epoch = source.loader.steps_per_epoch();
  std::int64_t stale = 0;
  for (const Event& event : result.events) {
    Group& group = groups[static_cast<std::size_t>(event.group)];
    if (group.ticket != event.ticket) {
      group.ticket = event.ticket;
      source.loader.start_epoch(event.ticket / per_epoch, event.ticket % per_epoch);
      source.set_weights(group.weights);
      source.step.run(source.loader, 0);
      group.gradient = source.gradient();
    }
    StepState state;
    state.step = pushes[event.layer]++;
    state.learning_rate = static_cast<float>(options.optimizer.lr);
    device_state.set(state);
    const testing_support::DeviceArray<float> gradient(group.gradient);
    const Slice& layer = layers[event.layer];
    optimizer.step(context, layer.begin, layer.end, gradient.data(), weights.data());
    const std::vector<float> now = weights.get();
    std::copy(now.begin() + layer.begin, now.begin() + layer.end, group.weights.begin() + layer.begin);
    EXPECT_EQ(event.version, pushes[event.layer]);
    stale += event.staleness;
    // All settle at the end of an epoch and at a checkpoint.
    const bool all_there = std::ranges::all_of(pushes, [&](std::int64_t count) { return count == pushes[0]; });
    if (all_there && (pushes[0] % per_epoch == 0 || pushes[0] % options.checkpoint.interval == 0)) {
      for (Group& other : groups) other.weights = now;
    }
  }
  EXPECT_EQ(result.weights, weights.get());
  EXPECT_GT(stale, 0);
}

TEST(Servers, RunsByArrivalAreReplayedToTheBit) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    CommonOptions options = options_of(3);
    options.train.steps = 200;
    options.train.deterministic = true;
    options.checkpoint.interval = 50;
    options.optimizer.name = seed % 2 == 0 ? "adam" : "sgd";
    options.optimizer.larc = seed > 2 ? 0.02 : 0;
    options.optimizer.weight_decay = 0.01;
    const ServerLayout layout{6, 3, seed == 2 ? 4 : 2, seed == 2, seed > 4};
    const std::size_t layers = layout.cut_layers ? kParts : kLayers;
    const Result result = train(options, {layout, seed, nullptr, true});
    expect_replay(options, layout, result);
    std::set<std::pair<std::size_t, std::int64_t>> applied;
    std::vector<std::int64_t> shares(3);
    for (const Event& event : result.events) {
      EXPECT_TRUE(applied.emplace(event.layer, event.ticket).second);
      shares[static_cast<std::size_t>(event.group)] += 1;
    }
    EXPECT_EQ(applied.size(), 200U * layers);
    EXPECT_EQ(result.events.size(), 200U * layers);
    EXPECT_EQ(result.fit.steps, 200);
  }
}

/// Messages of another transport; knows when this rank waits for them, and computes for as long as a test wants.
class Watched final : public Transport {
 public:
  Watched(std::unique_ptr<Transport> inner, int& waits) : inner_(std::move(inner)), waits_(waits) {}
  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const Nodes& nodes() const override { return inner_->nodes(); }
  Message send(std::span<const std::byte> bytes, int to, Tag tag) override { return inner_->send(bytes, to, tag); }
  Message receive(std::span<std::byte> bytes, int from, Tag tag) override { return inner_->receive(bytes, from, tag); }
  bool done(Message& message) override { return inner_->done(message); }
  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    waits_ += 1;
    inner_->wait(over, call, until_s);
    waits_ -= 1;
  }
  double now_s() const override { return inner_->now_s(); }
  void work(double) override { inner_->work(0.05); }
  std::unique_ptr<Transport> split(int group) override {
    return std::make_unique<Watched>(inner_->split(group), waits_);
  }
  [[noreturn]] void abort(int exit_code) override {
    inner_->abort(exit_code);
    std::abort();
  }

 private:
  std::unique_ptr<Transport> inner_;
  int& waits_;
};

TEST(Servers, InsideAWorkerUpdateBetweenItsStages) {
  CommonOptions options = options_of(2);
  options.update.groups = 2;
  options.update.servers = 1;
  options.update.colocate_servers = true;
  const ServerLayout layout = server_layout(options, 2);
  Noisy network(3);
  const auto world = world_of(layout, network, 3);
  std::array<int, 2> waits{};
  int in_waits = 0, between_stages = 0;
  world->run([&](std::unique_ptr<Transport> transport) {
    int& mine = waits.at(static_cast<std::size_t>(transport->rank()));
    Communicator all(std::make_unique<Watched>(std::move(transport), mine));
    ServeOptions serving{optimized_layers(options.optimizer, 2), serving_order(options)};
    serving.updated = [&](std::size_t, int, const LayerHeader&) { (mine > 0 ? in_waits : between_stages) += 1; };
    ServedRank rank(all, layout, serving);
    tiny::Training training(rank.group(), options, 91, 0.5F, true);
    Trainer trainer(trainer_options(options, "loss"), rank.workers(), Context(), training.step, training.data,
                    DetectorAugment(training.data.sample_dims(), AugmentOptions{}), nullptr);
    trainer.connect(rank.session());
    Keeper keeper;
    trainer.fit(keeper);
    rank.session().end(0);
  });
  EXPECT_EQ(in_waits + between_stages, 30 * static_cast<int>(kLayers));
  EXPECT_GT(between_stages, 10);
}

TEST(Servers, ResumeAtEveryCheckpointGivesTheSameBits) {
  CommonOptions options = options_of(2);
  options.train.deterministic = true;
  const Result whole = train(options, {{4, 2, 1}, 3});
  ASSERT_EQ(whole.saved.size(), 5U);  // 7, 14, 21, 28, 30: gradients between them are stale
  EXPECT_TRUE(std::ranges::any_of(whole.events, [](const Event& event) { return event.staleness > 0; }));
  for (std::size_t i = 0; i + 1 < whole.saved.size(); ++i) {
    const ServerLayout layout{2, 2, 2, false, i % 2 == 0};  // inside workers at every second one
    const Result rest = train(options, {layout, 5}, &whole.saved[i].second);
    expect_same(rest.saved.back().second, whole.saved.back().second);
  }
}

/// One sample is so bright that gradients of it are more than fp16 holds; its loss is finite.
class BrightData final : public Dataset {
 public:
  std::int64_t size() const override { return good_.size(); }
  std::array<std::int64_t, 4> sample_dims() const override { return good_.sample_dims(); }
  std::vector<TargetSpec> targets() const override { return good_.targets(); }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    const float weight = good_.read(index, sample);
    for (float& pixel : numbers<float>(sample.input)) pixel *= index == 17 ? 1e9F : 1;
    return weight;
  }

 private:
  tiny::Data good_{91};
};

TEST(Servers, GetNothingOfAStepWhoseGradientIsNotFinite) {
  const BrightData bright;
  for (const UpdateOrder order : {UpdateOrder::kTicket, UpdateOrder::kArrival}) {
    for (const bool colocated : {false, true}) {
      CommonOptions options = options_of(2);
      options.update.order = order;
      options.comm.wire = Wire::kFp16;
      const Result result = train(options, {{6, 2, 2, false, colocated}, 3, &bright});
      const std::string& error = result.errors[0];
      EXPECT_TRUE(error.starts_with("group ")) << error;
      EXPECT_NE(error.find(": the gradient of "), std::string::npos) << error;
      EXPECT_NE(error.find(" is not finite; "), std::string::npos) << error;
      for (const std::string& theirs : result.errors) EXPECT_EQ(theirs, error);
      const std::string step = ": step ";
      ASSERT_NE(error.find(step), std::string::npos) << error;
      const std::int64_t ticket = std::stoll(error.substr(error.find(step) + step.size()));
      EXPECT_TRUE(std::ranges::none_of(result.events, [&](const Event& event) { return event.ticket == ticket; }));
    }
  }
}

TEST(Servers, AFailureOfOneGroupEndsAllAndNobodyWaits) {
  const tiny::BadData bad(91);
  for (const UpdateOrder order : {UpdateOrder::kTicket, UpdateOrder::kArrival}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      CommonOptions options = options_of(3);
      options.update.order = order;
      const Result result = train(options, {{6, 3, 2, false, seed > 3}, seed, &bad});
      for (const std::string& error : result.errors) {
        EXPECT_NE(error.find("sample 17 is broken"), std::string::npos) << error;
        EXPECT_TRUE(error.starts_with("group ")) << error;
        EXPECT_EQ(error, result.errors[0]);
      }
    }
  }
}

}  // namespace
}  // namespace petaflow
