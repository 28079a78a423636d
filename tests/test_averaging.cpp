// Groups that average their weights, on virtual ranks, against a loop on one rank.
#include <gtest/gtest.h>

#include "comm/agree.hpp"
#include "kept_checkpoints.hpp"
#include "simulate/virtual_world.hpp"
#include "tiny_training.hpp"
#include "train/averaging.hpp"
#include "train/trainer.hpp"
#include "uniform_network.hpp"

namespace petaflow {
namespace {

using testing_support::Keeper;

/// Latencies that a seed decides.
class Noisy final : public FixedArrivals {
 public:
  explicit Noisy(std::uint64_t seed) : random_(random_stream(seed, RandomPurpose::kGenerate), 1) {}
  double arrival_s(int, int, std::size_t bytes, double start_s) override {
    return start_s + 1e-3 * random_.uniform() + 1e-9 * static_cast<double>(bytes);
  }

 private:
  RandomSequence random_;
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

/// Steps of an epoch after which all groups average and wait for it, rising; the epoch has steps [first, end).
std::vector<std::int64_t> settlings(const CommonOptions& options, std::int64_t first, std::int64_t end, bool always) {
  const UpdateOptions& update = options.update;
  const std::int64_t between = update.groups * (always ? 1 : update.average_every);
  std::vector<std::int64_t> all;
  bool due = false;
  for (std::int64_t step = first + 1; step < end; ++step) {
    due = due || always || update.average_late == 0 || step % options.checkpoint.interval == 0;
    if (!due || (step - first) % between != 0) continue;
    all.push_back(step);
    due = false;
  }
  all.push_back(end);
  return all;
}

/// The definition: optimizers, weights and gradients of each group in one loop.
std::vector<float> serial(const CommonOptions& options) {
  const UpdateOptions& update = options.update;
  const auto groups = static_cast<std::size_t>(update.groups);
  CommonOptions source_options = options;
  source_options.train.batch /= update.groups;
  source_options.update = {};
  source_options.optimizer = {};
  source_options.optimizer.name = "sgd";  // at a rate of 0
  Communicator alone;
  tiny::Training source(alone, source_options, 91, 0.5F, true);
  const std::int64_t per_epoch = source.loader.steps_per_epoch();
  const std::int64_t epochs = (options.train.steps + per_epoch - 1) / per_epoch;
  testing_support::DeviceState device_state;
  Context context;
  context.step = device_state.data();
  std::vector<std::vector<float>> weights(groups, source.weights());
  std::vector<std::unique_ptr<Optimizer>> optimizers;
  for (std::size_t g = 0; g < groups; ++g) {
    optimizers.push_back(std::make_unique<Optimizer>(options.optimizer, source.step.network().parameters()));
  }
  const std::int64_t elements = source.step.network().parameter_elements();
  const auto run = [&](std::int64_t step) {
    const auto g = static_cast<std::size_t>(step) % groups;
    source.loader.start_epoch(step / per_epoch, step % per_epoch);
    source.set_weights(weights[g]);
    source.step.run(source.loader, 0);
    const testing_support::DeviceArray<float> gradient(source.gradient()), now(weights[g]);
    StepState state;
    state.step = step / update.groups;
    state.learning_rate = 0.01F;
    device_state.set(state);
    optimizers[g]->step(context, 0, elements, gradient.data(), now.data());
    weights[g] = now.get();
  };
  for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
    const std::int64_t first = epoch * per_epoch, end = std::min(first + per_epoch, options.train.steps);
    const bool always = epoch < update.average_warmup_epochs || epoch >= epochs - update.average_cooldown_epochs;
    const std::int64_t late = always ? 0 : update.average_late * update.groups;
    std::int64_t step = first;
    for (const std::int64_t until : settlings(options, first, end, always)) {
      std::vector<std::vector<float>> sent;
      std::int64_t sent_at = 0;
      while (step < until) {
        run(step++);
        if (!sent.empty() && step == sent_at + late) {
          const auto own = static_cast<float>(2 * update.average_late);
          for (std::vector<float>& values : weights) {
            for (std::size_t i = 0; i < values.size(); ++i) {
              values[i] =
                  std::fma(own, values[i], tree_sum(sent, 0, groups, i)) * (1 / (own + static_cast<float>(groups)));
            }
          }
          sent.clear();
        }
        if (late > 0 && (step - first) % (update.groups * update.average_every) == 0 && step + late < until) {
          sent = weights;
          sent_at = step;
        }
      }
      average_of(weights);
      for (std::size_t s = 0; s < optimizers[0]->states().size(); ++s) {
        std::vector<std::vector<float>> states;
        for (const auto& optimizer : optimizers) {
          states.push_back(
              testing_support::to_host(static_cast<const float*>(optimizer->states()[s].values), elements));
        }
        average_of(states);
        for (const auto& optimizer : optimizers) testing_support::to_device(states[0], optimizer->states()[s].values);
      }
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

TEST(Averaging, LateIsALoopOverGroups) {
  struct Case {
    int groups, every, late, warmup, cooldown, checkpoints;
  };
  for (const Case& c : {Case{2, 2, 1, 0, 0, 1000}, Case{2, 2, 2, 0, 0, 7}, Case{3, 1, 1, 1, 0, 1000},
                        Case{5, 1, 1, 0, 0, 11}, Case{2, 1, 1, 0, 1, 1000}, Case{2, 3, 2, 1, 1, 1000}}) {
    CommonOptions options = options_of(c.groups, c.every);
    options.update.average_late = c.late;
    options.update.average_warmup_epochs = c.warmup;
    options.update.average_cooldown_epochs = c.cooldown;
    options.checkpoint.interval = c.checkpoints;
    const std::vector<float> expected = serial(options);
    for (const int members : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} groups of {}, every {} steps, {} late, warm-up {}, cool-down {}", c.groups, members,
                               c.every, c.late, c.warmup, c.cooldown));
      EXPECT_EQ(train(options, c.groups * members, static_cast<std::uint64_t>(6 + members)).weights, expected);
    }
    options.update.average_late = 0;
    EXPECT_NE(serial(options), expected);
  }
}

TEST(Averaging, LateGoesOnFromCheckpointsWithTheSameBits) {
  CommonOptions options = options_of(2, 1);
  options.update.average_late = 1;
  options.checkpoint.interval = 7;
  const Result whole = train(options, 4, 1);
  std::vector<std::int64_t> steps;
  for (const auto& [step, checkpoint] : whole.saved) steps.push_back(step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{8, 14, 22, 28, 33}));
  for (const auto& [step, checkpoint] : whole.saved) {
    if (step == 33) continue;
    const Result rest = train(options, 2, 2, &checkpoint);
    EXPECT_EQ(rest.weights, whole.weights) << "from step " << step;
    EXPECT_EQ(rest.saved.back().second.training, whole.saved.back().second.training);
  }
}

TEST(Averaging, LateSumsTakeNoTimeWhereStepsTakeLonger) {
  constexpr int kRanks = 4;
  testing_support::UniformNetwork network(1.0, 0);
  VirtualWorld world(kRanks, network, {});
  world.run([&](std::unique_ptr<Transport> transport) {
    Communicator comm(std::move(transport));
    const auto rank = static_cast<float>(comm.rank());
    const testing_support::DeviceArray<float> values(std::vector<float>{rank, 2 * rank, -rank});
    LateAverage average(comm, 3, 1);
    const double start_s = comm.transport().now_s();
    average.start(values.data(), std::array{1.0});
    for (int stage = 0; stage < 100; ++stage) {
      comm.transport().work(1);
      average.progress();
    }
    EXPECT_DOUBLE_EQ(average.finish(Context(), values.data(), 3, [](int, double) {})[0], kRanks);
    EXPECT_DOUBLE_EQ(comm.transport().now_s() - start_s, 100);
    const std::vector<float> mixed = values.get();
    EXPECT_FLOAT_EQ(mixed[1], 2 * mixed[0]);
    EXPECT_FLOAT_EQ(mixed[0], (6 * rank + 6) / 10);
  });
}

}  // namespace
}  // namespace petaflow
