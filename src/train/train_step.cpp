#include "train/train_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <iterator>
#include <span>
#include <vector>

#include "base/activity.hpp"
#include "base/region.hpp"
#include "comm/agree.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

/// A region that adds the seconds of its life to a sum.
class Stopwatch {
 public:
  Stopwatch(const std::string& region, const Context& context, double& sum)
      : region_(region), context_(context), sum_(sum) {}
  ~Stopwatch() {
    if constexpr (!kOnHost) context_.space.fence();
    sum_ += timer_.seconds();
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  Region region_;
  const Context& context_;
  double& sum_;
  Kokkos::Timer timer_;
};

/// Those that the optimizer keeps a state of.
std::vector<Parameter> trained(const std::vector<Parameter>& all) {
  std::vector<Parameter> trained;
  std::ranges::copy_if(all, std::back_inserter(trained), [](const Parameter& p) { return p.spec.trained(); });
  return trained;
}

std::string optimizer_prefix(const OptimizerState& state) { return fmt::format("optimizer/{}/", state.name); }

}  // namespace

StepTimes mean_times(Communicator& comm, StepTimes times) {
  std::array<double, 5> all = {times.input, times.forward, times.backward, times.communication, times.optimizer};
  comm.all_reduce_sum(std::span<double>(all));
  for (double& value : all) value /= comm.size();
  return {all[0], all[1], all[2], all[3], all[4]};
}

TrainStep::TrainStep(Communicator& comm, const Context& context, const StepOptions& options, const Graph& graph,
                     const Objective& objective, ConvTuning* tuning)
    : comm_(comm),
      context_(context),
      seed_(static_cast<std::uint64_t>(options.train.seed)),
      share_(share_of_batch(options.train, comm.rank(), comm.size())),
      losses_(objective, output_shapes(graph, share_.pass)),
      inputs_(share_.pass, losses_.targets()) {
  context_.training = true;
  context_.step = inputs_.state();
  NetworkOptions network = options.network;
  network.batch = share_.pass;
  network_ = std::make_unique<Network>(graph, network, context_, tuning);
  network_->initialise(context_, seed_);
  optimizer_ = std::make_unique<Optimizer>(options.optimizer, network_->parameters());
  exchange_ = make_gradient_exchange(comm, options.train, options.comm.bucket_mb, network_->parameters());
  rank_sums_ = network_->rank_sums();
  if (!rank_sums_.empty() && options.train.deterministic && options.train.shards > comm.size()) {
    user_error(
        "the model has batch norm over ranks, but train.deterministic works through it in {} shards "
        "on {} ranks; take the statistics over shards, set train.shards to {}, or train.deterministic to false",
        options.train.shards, comm.size(), comm.size());
  }
  if (comm.size() > 1) {
    if (const std::int64_t group = options.comm.norm_ranks; group > 0 && !rank_sums_.empty()) {
      norm_group_ = comm.split(static_cast<int>(comm.rank() / group));
    }
    sum_over_ranks_ = [this](std::span<double> values) { sum_over_ranks(values); };
    context_.sum_over_ranks = &sum_over_ranks_;
  } else {
    rank_sums_.clear();  // there is nobody to sum with
  }
  for (std::size_t i = 0; i < network_->outputs(); ++i) {
    outputs_.push_back(network_->output(i));
    output_gradients_.push_back(network_->output_gradient(i));
  }
  parts_.resize(static_cast<std::size_t>(share_.parts + 3));
}

void TrainStep::reset_times() {
  times_ = {};
  network_->reset_times();
}

// Sums over ranks for layers, during a pass.
void TrainStep::sum_over_ranks(std::span<double> values) {
  const Stopwatch watch("petaflow::communication"_label, context_, times_.communication);
  const Activity activity("summing statistics of the batch");
  PETAFLOW_REQUIRE(rank_sums_done_ < rank_sums_.size() &&
                       rank_sums_[rank_sums_done_].values == static_cast<std::int64_t>(values.size()),
                   "sum {} of a pass has {} values", rank_sums_done_, values.size());
  rank_sums_done_ += 1;
  (norm_group_ ? *norm_group_ : comm_).all_reduce_sum(values);
}

// On a rank whose pass failed: what the others go on to sum, and in between what they find ready to be exchanged, all
// in their order.
void TrainStep::finish_rank_sums() {
  while (rank_sums_done_ < rank_sums_.size()) {
    const Network::RankSum& next = rank_sums_[rank_sums_done_];
    exchange_->ready_from(next.final_from);
    std::vector<double> nothing(static_cast<std::size_t>(next.values), 0.0);
    sum_over_ranks(nothing);
  }
  rank_sums_done_ = 0;
}

// Forward and backward of one pass; the sum of its losses.
double TrainStep::run_pass(const Batch& batch, std::int64_t pass, StepState state) {
  {
    const Stopwatch watch("petaflow::input"_label, context_, times_.input);
    inputs_.load(context_, batch, pass * share_.pass, network_->input(), state);
  }
  double loss = 0;
  double communicated = times_.communication;
  {
    const Stopwatch watch("petaflow::forward"_label, context_, times_.forward);
    network_->forward(context_);
    for (const double slot : losses_.run(context_, inputs_.targets(), outputs_, {}, output_gradients_)) loss += slot;
  }
  times_.forward -= times_.communication - communicated;
  communicated = times_.communication;
  {
    const Stopwatch watch("petaflow::backward"_label, context_, times_.backward);
    network_->backward(context_, exchange_->gradient(), [this](std::int64_t begin, std::int64_t) {
      const Stopwatch inner("petaflow::communication"_label, context_, times_.communication);
      exchange_->ready_from(begin);
    });
  }
  times_.backward -= times_.communication - communicated;
  return loss;
}

StepResult TrainStep::run(Loader& loader, float learning_rate) {
  const Region region("petaflow::step"_label);
  const Activity activity("training", step_);
  // The first failure of this rank; it goes on communicating, so that all learn of it at the end of the step.
  std::exception_ptr error;
  const auto attempt = [&](const auto& work) {
    if (error) return;
    try {
      work();
    } catch (const CommError&) {
      throw;
    } catch (...) {
      error = std::current_exception();
    }
  };

  const Batch* batch = nullptr;
  attempt([&] {
    const Stopwatch watch("petaflow::input"_label, context_, times_.input);
    batch = &loader.next();
  });
  StepState state;
  if (batch != nullptr) {
    state.seed = seed_;
    state.epoch = batch->epoch;
    state.step = step_;
    state.learning_rate = learning_rate;
    state.loss_scale = 1.0F / static_cast<float>(batch->valid_global);
  }

  std::ranges::fill(parts_, 0.0);
  const std::span<double, 3> counts = std::span(parts_).last<3>();
  double mine = 0;
  exchange_->begin_step();
  for (std::int64_t pass = 0; pass < share_.passes; ++pass) {
    attempt([&] {
      const double loss = run_pass(*batch, pass, state);
      parts_[static_cast<std::size_t>(share_.first_part + pass)] = loss;
      mine += loss;
    });
    finish_rank_sums();
    const Stopwatch watch("petaflow::communication"_label, context_, times_.communication);
    exchange_->end_pass();
  }
  const auto update = [this](std::int64_t begin, std::int64_t end) {
    const Stopwatch watch("petaflow::optimizer"_label, context_, times_.optimizer);
    optimizer_->step(context_, begin, end, exchange_->gradient(), network_->weights());
  };
  bool by_bucket = false;
  const double updated = times_.optimizer;
  {
    const Stopwatch watch("petaflow::communication"_label, context_, times_.communication);
    const Activity summing("summing gradients");
    const StopRequest request = stop_request();
    counts[0] = error || !std::isfinite(mine) ? 1 : 0;
    counts[1] = request == StopRequest::kSignal ? 1 : 0;
    counts[2] = request == StopRequest::kWallTime ? 1 : 0;
    comm_.all_reduce_sum(std::span<double>(parts_));
    // All ranks know now whether weights may change.  Sums that are under way end in any case.
    by_bucket = counts[0] == 0 && !optimizer_->needs_whole_gradient();
    exchange_->finish([&](std::int64_t begin, std::int64_t end) {
      if (by_bucket) update(begin, end);
    });
  }
  times_.communication -= times_.optimizer - updated;
  if (counts[0] > 0) {
    attempt([&] {
      if (!std::isfinite(mine)) {
        failure(
            "step {}: the loss is {} on rank {}; a smaller optimizer.lr or a warm-up (schedule.warmup_steps) may help",
            step_, mine, comm_.rank());
      }
    });
    throw_agreed(comm_, error);
  }

  if (!by_bucket) update(0, network_->parameter_elements());
  const Stopwatch watch("petaflow::optimizer"_label, context_, times_.optimizer);
  network_->refresh(context_);
  ++step_;
  double sum = 0;
  for (std::int64_t part = 0; part < share_.parts; ++part) sum += parts_[static_cast<std::size_t>(part)];
  StopRequest stop = counts[2] > 0 ? StopRequest::kWallTime : StopRequest::kNone;
  if (counts[1] > 0) stop = StopRequest::kSignal;
  return {sum / static_cast<double>(batch->valid_global), batch->valid_global, stop};
}

std::vector<NamedArray> TrainStep::optimizer_arrays() const {
  std::vector<NamedArray> all;
  for (const OptimizerState& state : optimizer_->states()) {
    std::ranges::move(arrays_of(trained(network_->parameters()), state.values, optimizer_prefix(state)),
                      std::back_inserter(all));
  }
  return all;
}

void TrainStep::restore(std::int64_t step, const std::vector<NamedArray>& optimizer_arrays, const std::string& path) {
  std::size_t used = 0;
  for (const OptimizerState& state : optimizer_->states()) {
    const std::string prefix = optimizer_prefix(state);
    std::vector<NamedArray> arrays;
    std::ranges::copy_if(optimizer_arrays, std::back_inserter(arrays),
                         [&](const NamedArray& array) { return array.name.starts_with(prefix); });
    if (arrays.empty()) user_error("{} has no {}: it is of a run with another optimizer", path, prefix);
    set_from_arrays(trained(network_->parameters()), arrays, prefix, path, state.values);
    used += arrays.size();
  }
  if (used != optimizer_arrays.size()) user_error("{} is of a run with another optimizer", path);
  step_ = step;
}

}  // namespace petaflow
