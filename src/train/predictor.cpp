#include "train/predictor.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>

#include "comm/agree.hpp"

namespace petaflow {
namespace {

LoaderOptions loader_options(const Communicator& comm, std::int64_t slots, const DataOptions& options,
                             const ImageView& view) {
  LoaderOptions loader;
  loader.global_batch = slots * comm.size();
  loader.begin = slots * comm.rank();
  loader.end = loader.begin + slots;
  loader.shuffle = false;
  loader.threads = options.threads;
  loader.prefetch = options.prefetch;
  if (view) loader.augment = [view](const SampleBytes& sample, RandomSequence&) { view(sample.input); };
  return loader;
}

std::vector<Shape> output_shapes(const Network& network) {
  std::vector<Shape> shapes;
  for (std::size_t i = 0; i < network.outputs(); ++i) shapes.push_back(network.output(i).shape);
  return shapes;
}

/// rows += the first samples of a tensor, each a row.
void add_rows(const Tensor& from, std::size_t samples, std::vector<float>& rows) {
  using Device = Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>;
  const Device device(from.as<float>(), static_cast<std::size_t>(from.shape.elements()));
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
  rows.resize(samples * static_cast<std::size_t>(from.shape.sample_size()), 0.0F);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] += host(i);
}

}  // namespace

Predictor::Predictor(Communicator& comm, const Context& context, Network& network, const Objective& objective,
                     const Dataset& data, const DataOptions& options, std::vector<ImageView> views)
    : comm_(comm),
      context_(context),
      network_(network),
      data_(data),
      losses_(objective, output_shapes(network)),
      inputs_(network.batch(), losses_.targets()),
      options_(options),
      views_(std::move(views)) {
  check_targets(losses_.targets(), data.targets(), "the data set");
  for (std::size_t i = 0; i < network.outputs(); ++i) {
    outputs_.push_back(network.output(i));
    const Shape& shape = outputs_.back().shape;
    score_memory_.emplace_back("petaflow::scores", static_cast<std::size_t>(shape.elements()));
    scores_.push_back(Tensor::dense(shape, DType::kF32, score_memory_.back().data()));
  }
  if (views_.empty()) views_.emplace_back();
  context_.training = false;
  context_.step = inputs_.state();
}

void Predictor::start() {
  loaders_.clear();
  for (const ImageView& view : views_) {
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
  for (const Tensor& output : outputs_) batch_.outputs.push_back({output.shape.with_batch(1), {}, {}});
  for (const TargetSpec& target : data_.targets()) batch_.targets.push_back({target, {}});
  for (std::size_t view = 0; view < views_.size(); ++view) add_view(view);
  const auto count = static_cast<float>(views_.size());
  for (PredictedOutput& output : batch_.outputs) {
    for (std::vector<float>* rows : {&output.values, &output.scores}) {
      for (float& value : *rows) value /= count;
    }
  }
  return &batch_;
}

// Adds its outputs and scores to the batch.
void Predictor::add_view(std::size_t view) {
  const Batch& batch = loaders_[view]->next();
  inputs_.load(context_, batch, 0, network_.input(), StepState{});
  network_.forward(context_);
  losses_.run(context_, inputs_.targets(), outputs_, scores_, {});
  context_.space.fence();
  for (const double loss : losses_.losses()) view_losses_[view] += loss;
  if (view == 0) take_samples(batch);
  const std::size_t samples = batch_.size();
  for (std::size_t i = 0; i < outputs_.size(); ++i) {
    add_rows(outputs_[i], samples, batch_.outputs[i].values);
    add_rows(scores_[i], samples, batch_.outputs[i].scores);
  }
}

// Indices and targets; slots without a sample are behind the others.
void Predictor::take_samples(const Batch& batch) {
  const auto samples = std::ranges::find_if(batch.indices, [](std::int64_t index) { return index < 0; });
  batch_.indices.assign(batch.indices.begin(), samples);
  for (std::size_t t = 0; t < batch.targets.size(); ++t) {
    const std::byte* const from = batch.targets[t].data;
    batch_.targets[t].bytes.assign(from, from + batch_.size() * batch.targets[t].spec.bytes());
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
