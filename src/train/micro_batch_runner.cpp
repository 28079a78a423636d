#include "train/micro_batch_runner.hpp"

#include "base/activity.hpp"
#include "base/error.hpp"
#include "io/progress.hpp"

namespace petaflow {

MicroBatchRunner::MicroBatchRunner(Communicator& comm, const Context& context, const TrainOptions& train,
                                   const CommOptions& options, NetworkOptions network, const Graph& graph,
                                   const Objective& objective, ConvTuning* tuning)
    : comm_(comm),
      context_(context),
      share_(share_of_batch(train, comm.rank(), comm.size())),
      // Before anything can fail on one rank alone.
      norm_group_(comm.size() > 1 && options.norm_ranks > 0
                      ? comm.split(static_cast<int>(comm.rank() / options.norm_ranks))
                      : nullptr),
      losses_(objective, output_shapes(graph, share_.micro_batch)),
      inputs_(share_.micro_batch, losses_.targets()) {
  context_.training = true;
  context_.step = inputs_.state();
  network.batch = share_.micro_batch;
  network_ = std::make_unique<Network>(graph, network, context_, tuning);
  network_->initialise(context_, static_cast<std::uint64_t>(train.seed));
  rank_sums_ = network_->rank_sums();
  if (!rank_sums_.empty() && train.deterministic && train.shards > comm.size()) {
    user_error(
        "the model has batch norm over ranks, but train.deterministic works through it in {} shards on {} ranks; take "
        "the statistics over shards, set train.shards to {}, or train.deterministic to false",
        train.shards, comm.size(), comm.size());
  }
  if (comm.size() > 1) {
    sum_over_ranks_ = [this](std::span<double> values) { sum_over_ranks(values); };
    context_.sum_over_ranks = &sum_over_ranks_;
  } else {
    rank_sums_.clear();  // there is nobody to sum with
  }
  for (std::size_t i = 0; i < network_->outputs(); ++i) {
    outputs_.push_back(network_->output(i));
    output_gradients_.push_back(network_->output_gradient(i));
  }
}

// Sums over ranks for layers, during a micro-batch.
void MicroBatchRunner::sum_over_ranks(std::span<double> values) {
  const TimedRegion watch("petaflow::communication"_label, context_, *clock_, &StepTimes::communication);
  const Activity activity("summing statistics of the batch");
  PETAFLOW_REQUIRE(rank_sums_done_ < rank_sums_.size() &&
                       rank_sums_[rank_sums_done_].values == static_cast<std::int64_t>(values.size()),
                   "sum {} of a micro-batch has {} values", rank_sums_done_, values.size());
  rank_sums_done_ += 1;
  exchange_->start_ready();
  (norm_group_ ? *norm_group_ : comm_).all_reduce_sum(values);
}

void MicroBatchRunner::finish_rank_sums(GradientExchange& exchange, StepClock& clock) {
  exchange_ = &exchange;
  clock_ = &clock;
  if (!ran_) {
    network_->end_step();
    exchange.give_up();
  }
  ran_ = false;
  while (rank_sums_done_ < rank_sums_.size()) {
    const Network::RankSum& next = rank_sums_[rank_sums_done_];
    exchange.ready_from(next.final_from);
    std::vector<double> nothing(static_cast<std::size_t>(next.values), 0.0);
    sum_over_ranks(nothing);
  }
  rank_sums_done_ = 0;
}

void MicroBatchRunner::load(const Batch& batch, std::int64_t micro_batch, const StepState& state, StepClock& clock) {
  const TimedRegion watch("petaflow::input"_label, context_, clock, &StepTimes::input);
  inputs_.load(context_, batch, micro_batch * share_.micro_batch, network_->input(), state);
}

double MicroBatchRunner::run(GradientExchange& exchange, Replay* replay, Loader* loader, StepClock& clock) {
  exchange_ = &exchange;
  clock_ = &clock;
  if (replay != nullptr) {
    const auto passes = [&] {
      run_passes(exchange, clock);
      const TimedRegion watch("petaflow::communication"_label, context_, clock, &StepTimes::communication);
      exchange.join();
    };
    try {
      replay->run(context_, std::ref(passes));  // a reference fits into std::function without memory
    } catch (const std::exception& error) {
      if (comm_.size() == 1) throw;
      throw CommError(error.what());  // others may wait for sums that were recorded, but will not run
    }
    exchange.replayed();
  } else {
    run_passes(exchange, clock);
  }
  if (loader != nullptr) inputs_.load_ahead(context_, loader->peek(), network_->input());
  exchange.wait();  // the only one of a micro-batch
  collect_times();
  ran_ = true;
  double loss = 0;
  for (const double sample : losses_.losses()) loss += sample;
  return loss;
}

void MicroBatchRunner::run_passes(GradientExchange& exchange, StepClock& clock) {
  Kokkos::Timer lap;  // since the last piece of computation that the transport was told of
  const auto tell = [&] { comm_.transport().work(lap.seconds()); };
  {
    const TimedRegion watch("petaflow::forward"_label, context_, clock, &StepTimes::forward);
    network_->forward(context_);
    losses_.run(context_, inputs_.targets(), outputs_, {}, output_gradients_);
    tell();
  }
  const TimedRegion watch("petaflow::backward"_label, context_, clock, &StepTimes::backward);
  lap.reset();
  const auto ready = [&](std::int64_t begin, std::int64_t) {
    tell();
    {
      const TimedRegion inner("petaflow::communication"_label, context_, clock, &StepTimes::communication);
      exchange.ready_from(begin);
    }
    lap.reset();
  };
  network_->backward(context_, exchange.gradient(), std::ref(ready));
  tell();
}

}  // namespace petaflow
