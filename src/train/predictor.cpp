#include "train/predictor.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "comm/agree.hpp"

namespace petaflow {
namespace {

LoaderOptions loader_options(const Communicator& comm, std::int64_t pass, const DataOptions& options,
                             const Predictor::View& view) {
  LoaderOptions loader;
  loader.global_batch = pass * comm.size();
  loader.begin = pass * comm.rank();
  loader.end = loader.begin + pass;
  loader.shuffle = false;
  loader.threads = options.threads;
  loader.prefetch = options.prefetch;
  if (view) loader.augment = [view](const SampleBytes& sample, RandomSequence&) { view(sample.input); };
  return loader;
}

/// How many numbers of a sample there are to predict.
std::size_t number_targets(const Dataset& data) {
  const std::vector<TargetSpec> targets = data.targets();
  const bool numbers = !targets.empty() && targets.front().kind == TargetKind::kNumbers;
  return numbers ? static_cast<std::size_t>(targets.front().count) : 0;
}

}  // namespace

Predictor::Predictor(Communicator& comm, const Context& context, Network& network, const Objective& objective,
                     const Dataset& data, const DataOptions& options, std::vector<View> views)
    : comm_(comm),
      context_(context),
      network_(network),
      data_(data),
      losses_(objective, std::vector{network.output().shape}),
      inputs_(network.batch(), losses_.targets()),
      scores_("petaflow::scores", static_cast<std::size_t>(network.output().shape.elements())),
      options_(options),
      views_(std::move(views)) {
  check_targets(losses_.targets(), data.targets(), "the data set");
  if (views_.empty()) views_.emplace_back();
  context_.training = false;
  context_.step = inputs_.state();
}

// Adds the outputs and scores of this rank's samples to `rows` (output, score and targets of one sample after the
// other); returns the sum of its losses.
double Predictor::add_view(const View& view, std::vector<std::int64_t>& indices, std::vector<float>& rows) {
  const Tensor output = network_.output();
  const auto channels = static_cast<std::size_t>(output.shape.sample_size());
  const std::size_t targets = number_targets(data_);
  using Device = Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>;
  Loader loader(data_, loader_options(comm_, network_.batch(), options_, view));
  loader.start_epoch(0);
  indices.clear();
  double loss = 0;
  for (std::int64_t step = 0; step < loader.steps_per_epoch() && stop_request() == StopRequest::kNone; ++step) {
    const Batch& batch = loader.next();
    inputs_.load(context_, batch, 0, network_.input(), StepState{});
    network_.forward(context_);
    loss += losses_.run(context_, inputs_.targets(), std::array{output},
                        std::array{Tensor::dense(output.shape, DType::kF32, scores_.data())}, {});
    const Device device(output.as<float>(), static_cast<std::size_t>(output.shape.elements()));
    const auto outputs = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
    const auto scores = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), scores_);
    for (std::size_t slot = 0; slot < batch.indices.size(); ++slot) {
      if (batch.indices[slot] < 0) continue;
      const std::size_t row = (2 * channels + targets) * indices.size();
      indices.push_back(batch.indices[slot]);
      rows.resize(std::max(rows.size(), row + 2 * channels + targets), 0.0F);
      for (std::size_t c = 0; c < channels; ++c) {
        rows[row + c] += outputs(slot * channels + c);
        rows[row + channels + c] += scores(slot * channels + c);
      }
      for (std::size_t t = 0; t < targets; ++t) {
        rows[row + 2 * channels + t] += reinterpret_cast<const float*>(batch.targets[0].data)[slot * targets + t];
      }
    }
  }
  return loss;
}

Predictions Predictor::run() {
  const auto channels = static_cast<std::size_t>(network_.output().shape.sample_size());
  const std::size_t targets = number_targets(data_);
  std::vector<std::int64_t> indices;
  std::vector<float> rows;
  double loss = 0;
  agree(comm_, [&] {
    const auto count = static_cast<float>(views_.size());
    for (const View& view : views_) loss += add_view(view, indices, rows) / static_cast<double>(count);
    for (float& value : rows) value /= count;
  });
  const StopRequest request = stop_request();
  std::array<double, 3> sums = {loss, request == StopRequest::kSignal ? 1.0 : 0.0,
                                request == StopRequest::kWallTime ? 1.0 : 0.0};
  comm_.all_reduce_sum(std::span<double>(sums));

  Predictions predictions;
  if (sums[2] > 0) predictions.stopped = StopRequest::kWallTime;
  if (sums[1] > 0) predictions.stopped = StopRequest::kSignal;
  if (predictions.stopped != StopRequest::kNone) return predictions;
  predictions.count = data_.size();
  predictions.channels = static_cast<std::int64_t>(channels);
  predictions.loss = sums[0] / static_cast<double>(data_.size());
  const auto all_indices = comm_.gather(std::as_bytes(std::span(indices)));
  const auto all_rows = comm_.gather(std::as_bytes(std::span(rows)));
  if (comm_.rank() != 0) return predictions;
  predictions.outputs.resize(static_cast<std::size_t>(data_.size()) * channels);
  predictions.scores.resize(predictions.outputs.size());
  predictions.targets.resize(static_cast<std::size_t>(data_.size()) * targets);
  for (std::size_t rank = 0; rank < all_indices.size(); ++rank) {
    const std::size_t count = all_indices[rank].size() / sizeof(std::int64_t);
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t index = 0;
      std::memcpy(&index, all_indices[rank].data() + i * sizeof index, sizeof index);
      const auto at = static_cast<std::size_t>(index);
      const std::size_t bytes = channels * sizeof(float);
      const std::byte* row = all_rows[rank].data() + i * (2 * channels + targets) * sizeof(float);
      std::memcpy(predictions.outputs.data() + at * channels, row, bytes);
      std::memcpy(predictions.scores.data() + at * channels, row + bytes, bytes);
      if (targets == 0) continue;
      std::memcpy(predictions.targets.data() + at * targets, row + 2 * bytes, targets * sizeof(float));
    }
  }
  return predictions;
}

}  // namespace petaflow
