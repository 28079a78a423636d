// Groups that average their weights, on virtual ranks, against a loop on one rank.
#include <gtest/gtest.h>

#include "comm/agree.hpp"
#include "simulate/virtual_world.hpp"
#include "tiny_training.hpp"
#include "train/trainer.hpp"

namespace petaflow {
namespace {

/// Latencies that a seed decides.
class Noisy final : public NetworkModel {
 public:
  explicit Noisy(std::uint64_t seed) : random_(random_stream(seed, RandomPurpose::kGenerate), 1) {}
  double arrival_s(int, int, std::size_t bytes, double start_s) override {
    return start_s + 1e-3 * random_.uniform() + 1e-9 * static_cast<double>(bytes);
  }

 private:
  RandomSequence random_;
};

class Keeper final : public TrainingListener {
 public:
  std::string save(std::int64_t step, Checkpoint checkpoint) override {
    saved.emplace_back(step, std::move(checkpoint));
    return {};
  }
  std::vector<std::pair<std::int64_t, Checkpoint>> saved;
};

struct Result {
  std::vector<std::pair<std::int64_t, Checkpoint>> saved;  // by rank 0
  std::vector<float> weights;                              // the same on all ranks
};

Result train(const CommonOptions& options, int ranks, std::uint64_t seed, const Checkpoint* from = nullptr) {
  const ServerLayout layout = server_layout(options, ranks);
  Noisy network(seed);
  VirtualOptions virtual_options;
  virtual_options.stack_bytes = 4 << 20;
  virtual_options.seed = seed;
  VirtualWorld world(ranks, network, virtual_options);
  Result result;
  std::vector<std::vector<float>> weights(static_cast<std::size_t>(ranks));
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    const std::unique_ptr<Communicator> group = comm.split(layout.group_of(comm.rank()));
    const std::unique_ptr<Communicator> across = comm.split(comm.rank() % layout.members());
    tiny::Training training(*group, options, 91, 0.5F, true);
    Trainer trainer(trainer_options(options, "loss"), comm, Context(), training.step, training.data,
                    DetectorAugment(training.data.sample_dims(), AugmentOptions{}), nullptr);
    if (from != nullptr) trainer.restore(*from, "the checkpoint");
    trainer.average_over(*across);
    Keeper keeper;
    trainer.fit(keeper);
    if (comm.rank() == 0) result.saved = std::move(keeper.saved);
    weights[static_cast<std::size_t>(comm.rank())] = training.weights();
  });
  EXPECT_EQ(world.messages_left(), 0);
  for (const std::vector<float>& theirs : weights) EXPECT_EQ(theirs, weights[0]);
  result.weights = weights[0];
  return result;
}

/// 12 steps of 8 samples per epoch.
CommonOptions options_of(int groups, int every) {
  CommonOptions options;
  options.update.groups = groups;
  options.update.average_every = every;
  options.train.batch = 8 * groups;
  options.train.shards = 4;
  options.train.seed = 5;
  options.train.steps = 33;
  options.train.deterministic = true;
  options.optimizer.lr = 0.01;
  options.optimizer.weight_decay = 0.01;
  options.checkpoint.interval = 1;
  options.log.interval = 1000;
  return options;
}

/// Added in a fixed tree: the left half are as many as the largest power of two below all.
float tree_sum(const std::vector<std::vector<float>>& values, std::size_t begin, std::size_t end, std::size_t i) {
  if (end - begin == 1) return values[begin][i];
  std::size_t left = 1;
  while (2 * left < end - begin) left *= 2;
  return tree_sum(values, begin, begin + left, i) + tree_sum(values, begin + left, end, i);
}

void average_of(std::vector<std::vector<float>>& values) {
  std::vector<float> mean(values[0].size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = tree_sum(values, 0, values.size(), i) * (1.0F / static_cast<float>(values.size()));
  }
  for (std::vector<float>& group : values) group = mean;
}

/// The definition: optimizers, weights and gradients of each group in one loop.
std::vector<float> serial(const CommonOptions& options) {
  const auto groups = static_cast<std::size_t>(options.update.groups);
  CommonOptions source_options = options;
  source_options.train.batch /= options.update.groups;
  source_options.update = {};
  source_options.optimizer = {};
  source_options.optimizer.name = "sgd";  // at a rate of 0
  Communicator alone;
  tiny::Training source(alone, source_options, 91, 0.5F, true);
  const std::int64_t per_epoch = source.loader.steps_per_epoch();
  testing_support::DeviceState device_state;
  Context context;
  context.step = device_state.data();
  std::vector<std::vector<float>> weights(groups, source.weights());
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (std::size_t g = 0; g < groups; ++g) {
    optimizers.push_back(std::make_unique<Optimizer>(options.optimizer, source.step.network().parameters()));
  }
  const std::int64_t elements = source.step.network().parameter_elements();
  for (std::int64_t step = 0; step < options.train.steps; ++step) {
    const auto g = static_cast<std::size_t>(step) % groups;
    source.loader.start_epoch(step / per_epoch, step % per_epoch);
    source.set_weights(weights[g]);
    source.step.run(source.loader, 0);
    const testing_support::DeviceArray<float> gradient(source.gradient()), now(weights[g]);
    StepState state;
    state.step = step / options.update.groups;
    state.learning_rate = 0.01F;
    device_state.set(state);
    optimizers[g]->step(context, 0, elements, gradient.data(), now.data());
    weights[g] = now.get();
    const std::int64_t in_epoch = step % per_epoch + 1;
    const bool averages = in_epoch % (options.update.groups * options.update.average_every) == 0;
    if (!averages && in_epoch != per_epoch && step + 1 != options.train.steps) continue;
    average_of(weights);
    for (std::size_t s = 0; s < optimizers[0]->states().size(); ++s) {
      std::vector<std::vector<float>> states;
      for (const auto& optimizer : optimizers) {
        states.push_back(testing_support::to_host(static_cast<const float*>(optimizer->states()[s].values), elements));
      }
      average_of(states);
      for (const auto& optimizer : optimizers) testing_support::to_device(states[0], optimizer->states()[s].values);
    }
  }
  return weights[0];
}

TEST(Averaging, IsALoopOverGroups) {
  for (const char* rule : {"adam", "sgd", "lamb"}) {
    for (const auto& [groups, every] : {std::pair(2, 1), std::pair(2, 3), std::pair(3, 2), std::pair(4, 5)}) {
      CommonOptions options = options_of(groups, every);
      options.optimizer.name = rule;
      options.optimizer.clip_norm = 0.5;
      const std::vector<float> expected = serial(options);
      for (const int members : {1, 2, 3}) {
        for (const bool sharded : {false, true}) {
          SCOPED_TRACE(
              fmt::format("{}: {} groups of {}, every {} steps, sharded {}", rule, groups, members, every, sharded));
          options.update.sharded = sharded;
          EXPECT_EQ(train(options, groups * members, 7).weights, expected);
        }
      }
    }
  }
}

TEST(Averaging, CheckpointsAreAtAveragesAndGoOnWithTheSameBits) {
  const CommonOptions options = options_of(3, 2);
  const Result whole = train(options, 6, 1);
  std::vector<std::int64_t> steps;
  for (const auto& [step, checkpoint] : whole.saved) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{6, 12, 18, 24, 30, 33}));
  for (const auto& [step, checkpoint] : whole.saved) {
    if (step == 33) continue;
    const Result rest = train(options, 3, 2, &checkpoint);
    EXPECT_EQ(rest.weights, whole.weights) << "from step " << step;
    EXPECT_EQ(rest.saved.back().second.training, whole.saved.back().second.training);
  }
}

}  // namespace
}  // namespace petaflow
