// A small data set and network for tests of the trainer.
#pragma once

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/random.hpp"
#include "data/augment.hpp"
#include "data/dataset.hpp"
#include "data/loader.hpp"
#include "device_memory.hpp"
#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/dense.hpp"
#include "nn/layers/dropout.hpp"
#include "nn/layers/pool.hpp"
#include "program/options.hpp"
#include "train/train_step.hpp"

namespace petaflow::tiny {

inline const Shape kSample{1, 2, 1, 8, 12};

/// Noise, brighter for label 1; weights between 0.5 and 1.5.
class Data final : public Dataset {
 public:
  explicit Data(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::array<std::int64_t, 4> sample_dims() const override { return {kSample.c, kSample.d, kSample.h, kSample.w}; }
  std::vector<TargetSpec> targets() const override { return {TargetSpec::label("class", 2)}; }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    const auto pixels = numbers<float>(sample.input);
    RandomSequence random(random_stream(3, RandomPurpose::kGenerate), static_cast<std::uint64_t>(index));
    const std::int32_t label = random.below(2) == 1;
    for (float& pixel : pixels) pixel = static_cast<float>(random.normal() + 0.5 * label);
    sample.target<std::int32_t>(0).front() = label;
    return static_cast<float>(0.5 + random.uniform());
  }

 private:
  std::int64_t size_;
};

/// Data of which one sample cannot be read.
class BadData final : public Dataset {
 public:
  explicit BadData(std::int64_t size) : good_(size) {}
  std::int64_t size() const override { return good_.size(); }
  std::array<std::int64_t, 4> sample_dims() const override { return good_.sample_dims(); }
  std::vector<TargetSpec> targets() const override { return good_.targets(); }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    if (index == 17) user_error("sample 17 is broken");
    return good_.read(index, sample);
  }

 private:
  Data good_;
};

/// Batches of 12 in four shards.
inline CommonOptions options() {
  CommonOptions options;
  options.train.batch = 12;
  options.train.shards = 4;
  options.train.seed = 5;
  return options;
}

using Norm = std::optional<BatchNormScope>;

/// @param norm  batch norms behind the convolutions
inline Graph network(float dropout, const Norm& norm = {}) {
  Graph graph(kSample);
  graph.add<Conv>("conv1", ConvOptions::same_2d(6, 3));
  if (norm) graph.add<BatchNorm>("norm1", BatchNormOptions{.scope = *norm});
  graph.add<Relu>("relu1");
  graph.add<Pool>("pool1", Pool::square(PoolKind::kMax, 2)).add<Dropout>("dropout1", dropout);
  graph.add<Conv>("conv2", ConvOptions::same_2d(5, 3));
  if (norm) graph.add<BatchNorm>("norm2", BatchNormOptions{.scope = *norm});
  graph.add<Relu>("relu2").add<GlobalPool>("pool2", PoolKind::kAverage);
  graph.add<Dense>("fc", 2);
  return graph;
}

/// Data, network and loader of a rank, ready to step.
struct Training {
  Training(Communicator& comm, const CommonOptions& options, std::int64_t samples, float dropout, bool augment,
           const Norm& norm = {})
      : data(samples),
        step(comm, Context(), step_options(options), network(dropout, norm), loss),
        loader(data, loader_options(options, augment)) {}

  LoaderOptions loader_options(const CommonOptions& options, bool augment) const {
    LoaderOptions loader_options;
    loader_options.global_batch = options.train.batch;
    loader_options.begin = step.share().begin;
    loader_options.end = step.share().end;
    loader_options.shuffle = options.data.shuffle;
    loader_options.seed = static_cast<std::uint64_t>(options.train.seed);
    if (augment) loader_options.augment = DetectorAugment(data.sample_dims(), AugmentOptions{});
    return loader_options;
  }

  /// Steps on, from epoch to epoch; the losses, -1 where none is known.
  std::vector<double> run(std::int64_t steps) {
    std::vector<double> losses;
    for (std::int64_t s = 0; s < steps; ++s) {
      if (s % loader.steps_per_epoch() == 0) loader.start_epoch(s / loader.steps_per_epoch());
      losses.push_back(step.run(loader, 0.01F).loss.value_or(-1));
    }
    return losses;
  }

  std::vector<float> weights() const {
    return testing_support::to_host<float>(step.network().weights(), step.network().parameter_elements());
  }
  void set_weights(const std::vector<float>& weights) {
    testing_support::to_device(weights, step.network().weights());
    step.network().refresh(Context());
  }
  std::vector<float> gradient() const {
    return testing_support::to_host(step.gradient(), step.network().parameter_elements());
  }

  Data data;
  Objective loss{"class", std::make_shared<SoftmaxLoss>()};
  TrainStep step;
  Loader loader;
};

}  // namespace petaflow::tiny
