#include "train/predictor.hpp"

#include <array>
#include <cstddef>
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
  if (view) loader.augment = [view](std::span<std::byte> sample, RandomSequence&) { view(sample); };
  return loader;
}

}  // namespace

Predictor::Predictor(Communicator& comm, const Context& context, Network& network, const Loss& loss,
                     const Dataset& data, const DataOptions& options, std::vector<View> views)
    : comm_(comm),
      context_(context),
      network_(network),
      loss_(loss),
      data_(data),
      inputs_(network.batch(), data.targets()),
      scores_("petaflow::scores", static_cast<std::size_t>(network.output().shape.elements())),
      losses_("petaflow::losses", static_cast<std::size_t>(network.batch())),
      options_(options),
      views_(std::move(views)) {
  if (views_.empty()) views_.emplace_back();
  context_.training = false;
  context_.step = inputs_.state();
}

void Predictor::start() {
  loaders_.clear();
  for (const View& view : views_) {
    loaders_.push_back(std::make_unique<Loader>(data_, loader_options(comm_, network_.batch(), options_, view)));
    loaders_.back()->start_epoch(0);
  }
  view_losses_.assign(views_.size(), 0);
  left_ = loaders_.front()->steps_per_epoch();
}

const PredictedBatch* Predictor::next() {
  if (left_ == 0) {
    loaders_.clear();  // and with them the threads that read ahead
    return nullptr;
  }
  --left_;
  batch_ = {};
  batch_.channels = network_.output().shape.sample_size();
  batch_.targets_per_sample = data_.targets();
  for (std::size_t view = 0; view < views_.size(); ++view) add_view(view);
  const auto count = static_cast<float>(views_.size());
  for (std::vector<float>* rows : {&batch_.outputs, &batch_.scores}) {
    for (float& value : *rows) value /= count;
  }
  return &batch_;
}

// Adds its outputs and scores to the batch.
void Predictor::add_view(std::size_t view) {
  const Tensor output = network_.output();
  const auto channels = static_cast<std::size_t>(batch_.channels);
  const auto targets = static_cast<std::size_t>(batch_.targets_per_sample);
  using Device = Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>;
  const Batch& batch = loaders_[view]->next();
  inputs_.load(context_, batch, 0, network_.input(), StepState{});
  network_.forward(context_);
  loss_.run(context_, output, Tensor::dense(output.shape, DType::kF32, scores_.data()), Tensor{}, losses_.data());
  const Device device(output.as<float>(), static_cast<std::size_t>(output.shape.elements()));
  const auto outputs = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
  const auto scores = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), scores_);
  const auto losses = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), losses_);
  std::size_t sample = 0;
  for (std::size_t slot = 0; slot < batch.indices.size(); ++slot) {
    if (batch.indices[slot] < 0) continue;
    if (view == 0) {
      batch_.indices.push_back(batch.indices[slot]);
      batch_.outputs.resize(batch_.outputs.size() + channels, 0.0F);
      batch_.scores.resize(batch_.scores.size() + channels, 0.0F);
      const auto first = batch.targets.begin() + static_cast<std::ptrdiff_t>(slot * targets);
      batch_.targets.insert(batch_.targets.end(), first, first + static_cast<std::ptrdiff_t>(targets));
    }
    for (std::size_t c = 0; c < channels; ++c) {
      batch_.outputs[sample * channels + c] += outputs(slot * channels + c);
      batch_.scores[sample * channels + c] += scores(slot * channels + c);
    }
    view_losses_[view] += static_cast<double>(losses(slot));
    ++sample;
  }
}

double Predictor::loss() const {
  double sum = 0;
  for (const double loss : view_losses_) sum += loss / static_cast<double>(views_.size());
  return sum;
}

StopRequest agreed_stop_request(Communicator& comm) {
  const StopRequest request = stop_request();
  std::array<double, 2> asked = {request == StopRequest::kSignal ? 1.0 : 0.0,
                                 request == StopRequest::kWallTime ? 1.0 : 0.0};
  comm.all_reduce_sum(std::span<double>(asked));
  if (asked[0] > 0) return StopRequest::kSignal;
  return asked[1] > 0 ? StopRequest::kWallTime : StopRequest::kNone;
}

EvaluationRun evaluate(Communicator& comm, Predictor& predictor, std::int64_t samples, Evaluator& evaluator) {
  agree(comm, [&] {
    predictor.start();
    while (stop_request() == StopRequest::kNone) {
      const PredictedBatch* batch = predictor.next();
      if (batch == nullptr) break;
      evaluator.add(*batch);
    }
  });
  EvaluationRun run;
  run.stopped = agreed_stop_request(comm);
  if (run.stopped != StopRequest::kNone) return run;
  double loss = predictor.loss();
  comm.all_reduce_sum(std::span<double>(&loss, 1));
  run.loss = loss / static_cast<double>(samples);
  evaluator.merge(comm);
  return run;
}

}  // namespace petaflow
