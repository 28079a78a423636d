#include "train/predictor.hpp"

#include <cstring>
#include <span>

#include "train/agree.hpp"

namespace petaflow {
namespace {

LoaderOptions loader_options(const Communicator& comm, std::int64_t pass, const DataOptions& options) {
  LoaderOptions loader;
  loader.global_batch = pass * comm.size();
  loader.begin = pass * comm.rank();
  loader.end = loader.begin + pass;
  loader.shuffle = false;
  loader.threads = options.threads;
  loader.prefetch = options.prefetch;
  return loader;
}

}  // namespace

Predictor::Predictor(Communicator& comm, const Context& context, Network& network, const Loss& loss,
                     const Dataset& data, const DataOptions& options)
    : comm_(comm),
      context_(context),
      network_(network),
      loss_(loss),
      data_(data),
      inputs_(network.batch()),
      scores_("petaflow::scores", static_cast<std::size_t>(network.output().shape.elements())),
      losses_("petaflow::losses", static_cast<std::size_t>(network.batch())),
      loader_(data, loader_options(comm, network.batch(), options)) {
  context_.training = false;
  context_.step = inputs_.state();
}

Predictions Predictor::run() {
  const Tensor output = network_.output();
  const auto channels = static_cast<std::size_t>(output.shape.sample_size());
  std::vector<std::int64_t> indices;
  std::vector<float> rows;
  double loss = 0;
  agree(comm_, [&] {
    loader_.start_epoch(runs_++);
    using Device = Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>;
    for (std::int64_t step = 0; step < loader_.steps_per_epoch(); ++step) {
      const Batch& batch = loader_.next();
      StepState state;
      state.epoch = batch.epoch;
      inputs_.load(batch, 0, network_.input(), state);
      network_.forward(context_);
      loss_.run(context_, output, Tensor::dense(output.shape, DType::kF32, scores_.data()), Tensor{}, losses_.data());
      const Device device(output.as<float>(), static_cast<std::size_t>(output.shape.elements()));
      const auto outputs = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
      const auto scores = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), scores_);
      const auto losses = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses_);
      for (std::size_t slot = 0; slot < batch.indices.size(); ++slot) {
        if (batch.indices[slot] < 0) continue;
        indices.push_back(batch.indices[slot]);
        rows.insert(rows.end(), outputs.data() + slot * channels, outputs.data() + (slot + 1) * channels);
        rows.insert(rows.end(), scores.data() + slot * channels, scores.data() + (slot + 1) * channels);
        loss += static_cast<double>(losses(slot));
      }
    }
  });
  comm_.all_reduce_sum(std::span<double>(&loss, 1));

  Predictions predictions;
  predictions.count = data_.size();
  predictions.channels = static_cast<std::int64_t>(channels);
  predictions.loss = loss / static_cast<double>(data_.size());
  const auto all_indices = comm_.gather(std::as_bytes(std::span(indices)));
  const auto all_rows = comm_.gather(std::as_bytes(std::span(rows)));
  if (comm_.rank() != 0) return predictions;
  predictions.outputs.resize(static_cast<std::size_t>(data_.size()) * channels);
  predictions.scores.resize(predictions.outputs.size());
  for (std::size_t rank = 0; rank < all_indices.size(); ++rank) {
    const std::size_t count = all_indices[rank].size() / sizeof(std::int64_t);
    for (std::size_t i = 0; i < count; ++i) {
      std::int64_t index = 0;
      std::memcpy(&index, all_indices[rank].data() + i * sizeof index, sizeof index);
      const std::size_t bytes = channels * sizeof(float);
      const std::byte* row = all_rows[rank].data() + 2 * i * bytes;
      std::memcpy(predictions.outputs.data() + static_cast<std::size_t>(index) * channels, row, bytes);
      std::memcpy(predictions.scores.data() + static_cast<std::size_t>(index) * channels, row + bytes, bytes);
    }
  }
  return predictions;
}

}  // namespace petaflow
