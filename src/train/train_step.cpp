#include "train/train_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <exception>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "base/activity.hpp"
#include "base/region.hpp"
#include "comm/agree.hpp"
#include "io/progress.hpp"
#include "train/averaging.hpp"
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

std::int64_t elements_of(std::span<const Slice> slices) {
  std::int64_t elements = 0;
  for (const Slice& slice : slices) elements += slice.size();
  return elements;
}

std::string optimizer_prefix(const OptimizerState& state) { return fmt::format("optimizer/{}/", state.name); }
std::string lag_prefix(std::int64_t i) { return fmt::format("lag/{}/", i); }

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
      options_(options.comm),
      sharded_(options.update.sharded || options.update.servers > 0),
      served_(options.update.servers > 0),
      updates_every_(served_ ? 1 : options.update.groups),
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
  for (std::int64_t i = 0; i <= options.update.lag; ++i) {
    Flight& flight = flights_.emplace_back();
    flight.exchange =
        std::make_unique<GradientExchange>(comm, options.train, options.comm, options.update, network_->parameters(),
                                           optimizer_cuts(options.optimizer, network_->parameters()));
    flight.parts.resize(static_cast<std::size_t>(share_.parts + 3));
    flight.agreement = comm.make_sum(std::ssize(flight.parts));
  }
  OptimizerOptions optimizer = options.optimizer;
  optimizer.ranks = comm.size();
  optimizer_ = sharded_
                   ? std::make_unique<Optimizer>(optimizer, network_->parameters(), flights_.front().exchange->own())
                   : std::make_unique<Optimizer>(optimizer, network_->parameters());
  if (flights_.size() > 1 && comm.size() > 1) {
    progress_ = [this] {
      for (Flight& flight : flights_) flight.exchange->progress();
    };
  }
  if (const auto layers = layers_of(network_->parameters()).size(); std::cmp_greater(options.update.servers, layers)) {
    user_error(
        "update.servers is {}, but the network has {} with weights, each of which one server keeps; set it to {} "
        "or less",
        options.update.servers, format_count(static_cast<std::int64_t>(layers), "layer"), layers);
  }
  rank_sums_ = network_->rank_sums();
  if (!rank_sums_.empty() && options.update.groups > 1 && options.comm.norm_ranks == 0) {
    user_error(
        "the model has batch norm over all ranks, but update.groups = {} groups of {} work at steps of their own; set "
        "comm.norm_ranks to {}, or update.groups to 1",
        options.update.groups, format_count(comm.size(), "rank"), comm.size());
  }
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
}

std::string TrainStep::describe_exchange() const {
  if (comm_.size() == 1 && !served_) return "";
  constexpr std::array kWires = {"f32", "bf16", "fp16"};  // as Wire lists them
  const std::size_t lag = flights_.size() - 1;
  std::string then;
  if (lag > 0) then = fmt::format(", and used {} later (update.lag)", format_count(std::int64_t(lag), "step"));
  if (served_) {
    then = "; then they go to servers, which update the weights and send them back";
  } else if (sharded_) {
    then += fmt::format("; every rank updates its own weights (update.sharded): rank 0 {} of {}",
                        elements_of(std::span(optimizer_->own())), network_->parameter_elements());
  }
  return fmt::format("gradients are summed over {} in {}, sent as {}, {}{}",
                     grouped() ? "the ranks of a group" : "ranks", flights_.front().exchange->describe(),
                     kWires.at(static_cast<std::size_t>(options_.wire)),
                     options_.overlap ? "while backward goes on" : "after backward", then);
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
void TrainStep::finish_rank_sums(Flight& flight) {
  while (rank_sums_done_ < rank_sums_.size()) {
    const Network::RankSum& next = rank_sums_[rank_sums_done_];
    flight.exchange->ready_from(next.final_from);
    std::vector<double> nothing(static_cast<std::size_t>(next.values), 0.0);
    sum_over_ranks(nothing);
  }
  rank_sums_done_ = 0;
}

// Forward and backward of one pass; the sum of its losses.
double TrainStep::run_pass(Flight& flight, const Batch& batch, std::int64_t pass, StepState state) {
  {
    const Stopwatch watch("petaflow::input"_label, context_, times_.input);
    inputs_.load(context_, batch, pass * share_.pass, network_->input(), state);
  }
  double loss = 0;
  double communicated = times_.communication;
  Kokkos::Timer lap;  // since the last piece of computation that the transport was told of
  const auto tell = [&] { comm_.transport().work(lap.seconds()); };
  {
    const Stopwatch watch("petaflow::forward"_label, context_, times_.forward);
    network_->forward(context_, progress_);
    for (const double slot : losses_.run(context_, inputs_.targets(), outputs_, {}, output_gradients_)) loss += slot;
    tell();
  }
  times_.forward -= times_.communication - communicated;
  communicated = times_.communication;
  {
    const Stopwatch watch("petaflow::backward"_label, context_, times_.backward);
    lap.reset();
    const auto ready = [&](std::int64_t begin, std::int64_t) {
      tell();
      {
        const Stopwatch inner("petaflow::communication"_label, context_, times_.communication);
        flight.exchange->ready_from(begin);
        if (progress_) progress_();
      }
      lap.reset();
    };
    // A reference fits into std::function without memory.
    network_->backward(context_, flight.exchange->gradient(), std::ref(ready));
    tell();
  }
  times_.backward -= times_.communication - communicated;
  return loss;
}

StepResult TrainStep::run(Loader& loader, float learning_rate) {
  const Region region("petaflow::step"_label);
  const Activity activity("training", step_);
  const auto lag = static_cast<std::int64_t>(flights_.size()) - 1;
  Flight& flight = flight_of(step_);
  flight.step = step_;
  flight.summed = false;
  flight.samples = 0;
  flight.mine = 0;
  // After the first failure of this rank it goes on communicating, so that all learn of it before the step's gradient
  // would be used.
  const auto attempt = [&](const auto& work) {
    if (error_) return;
    try {
      work();
    } catch (const CommError&) {
      throw;
    } catch (...) {
      error_ = std::current_exception();
    }
  };

  const Batch* batch = nullptr;
  attempt([&] {
    const Stopwatch watch("petaflow::input"_label, context_, times_.input);
    batch = &loader.next();
  });
  StepState state;
  if (batch != nullptr) {
    flight.samples = batch->valid_global;
    state.seed = seed_;
    state.epoch = batch->epoch;
    state.step = std::max<std::int64_t>(0, step_ - lag) / updates_every_;
    state.learning_rate = learning_rate;
    state.loss_scale = 1.0F / static_cast<float>(batch->valid_global);
  }

  std::ranges::fill(flight.parts, 0.0);
  flight.exchange->begin_step();
  for (std::int64_t pass = 0; pass < share_.passes; ++pass) {
    attempt([&] {
      const double loss = run_pass(flight, *batch, pass, state);
      flight.parts[static_cast<std::size_t>(share_.first_part + pass)] = loss;
      flight.mine += loss;
    });
    finish_rank_sums(flight);
    const Stopwatch watch("petaflow::communication"_label, context_, times_.communication);
    flight.exchange->end_pass();
  }
  start_agreement(flight);
  step_ += 1;
  if (step_ <= lag) return {std::nullopt, flight.samples, StopRequest::kNone};

  if (served_) return finish_on_servers(flight, learning_rate);
  Flight& due = flight_of(step_ - 1 - lag);
  const auto update = [&](std::int64_t begin, std::int64_t end) {
    const Stopwatch watch("petaflow::optimizer"_label, context_, times_.optimizer);
    optimizer_->step(context_, begin, end, due.exchange->gradient(), network_->weights());
  };
  const double updated = times_.optimizer;
  bool by_bucket = false;
  {
    const Stopwatch watch("petaflow::communication"_label, context_, times_.communication);
    const Activity summing("summing gradients", due.step);
    if (!due.summed) {
      agree_on(due);
      by_bucket = !optimizer_->needs_whole_gradient();
      due.exchange->finish(
          [&](std::int64_t begin, std::int64_t end) {
            if (by_bucket) update(begin, end);
          },
          by_bucket ? network_->weights() : nullptr);
      due.summed = true;
    }
  }
  times_.communication -= times_.optimizer - updated;
  if (!by_bucket) update_at_once(due);
  const Stopwatch watch("petaflow::optimizer"_label, context_, times_.optimizer);
  network_->refresh(context_);
  used_ = index_of(due.step);
  return {loss_of(due), flight.samples, stop_of(due)};
}

// The update of a step by servers.
StepResult TrainStep::finish_on_servers(Flight& flight, float learning_rate) {
  {
    const Stopwatch watch("petaflow::communication"_label, context_, times_.communication);
    const Activity summing("summing gradients", flight.step);
    agree_on(flight);
    if (servers_ != nullptr) {
      flight.exchange->finish(*servers_, flight.step, learning_rate, network_->weights());
    } else {
      flight.exchange->finish([](std::int64_t, std::int64_t) {});
    }
    flight.summed = true;
  }
  const Stopwatch watch("petaflow::optimizer"_label, context_, times_.optimizer);
  network_->refresh(context_);
  return {loss_of(flight), flight.samples, stop_of(flight)};
}

StopRequest TrainStep::stop_of(const Flight& flight) {
  const std::span<const double, 3> counts = std::span(flight.parts).last<3>();
  if (counts[1] > 0) return StopRequest::kSignal;
  return counts[2] > 0 ? StopRequest::kWallTime : StopRequest::kNone;
}

// A message to the server of each own layer, with values from and to a flat array in MemorySpace: of the whole network,
// or a state, which holds the own layers one after the other.
void TrainStep::transfer(LayerHeader header, float* values) {
  const bool is_state = header.kind == LayerHeader::Kind::kState || header.kind == LayerHeader::Kind::kSetState;
  std::int64_t place = 0;
  for (const Slice& slice : optimizer_->own()) {
    const auto size = static_cast<std::size_t>(slice.size());
    const Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged> device(values + (is_state ? place : slice.begin),
                                                                            size);
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
    servers_->start(slice.begin, header, host.data(), host.data());
    servers_->wait(slice.begin);
    if (takes_values(header.kind)) Kokkos::deep_copy(device, host);
    place += slice.size();
  }
}

void TrainStep::connect(ServerSession& servers, Communicator& workers) {
  servers_ = &servers;
  servers.connect(network_->parameters());
  if (servers.group() == 0) {
    transfer({.kind = LayerHeader::Kind::kSetWeights, .version = step_}, network_->weights());
    const std::vector<OptimizerState> states = optimizer_->states();
    for (std::size_t i = 0; i < states.size(); ++i) {
      transfer({.kind = LayerHeader::Kind::kSetState, .state = static_cast<std::int32_t>(i)}, states[i].values);
    }
  }
  workers.barrier();
}

// The update by a gradient that is summed as a whole.
void TrainStep::update_at_once(const Flight& flight) {
  const Stopwatch watch("petaflow::optimizer"_label, context_, times_.optimizer);
  float* const weights = network_->weights();
  if (!sharded_) {
    optimizer_->step(context_, 0, network_->parameter_elements(), flight.exchange->gradient(), weights);
    return;
  }
  optimizer_->share_factors(context_, flight.exchange->gradient(), weights,
                            [this](std::span<double> values) { comm_.all_reduce_sum(values); });
  for (const Slice& slice : optimizer_->own()) {
    optimizer_->step(context_, slice.begin, slice.end, flight.exchange->gradient(), weights);
  }
  flight.exchange->spread(weights);
}

double TrainStep::loss_of(const Flight& flight) const {
  double sum = 0;
  for (std::int64_t part = 0; part < share_.parts; ++part) sum += flight.parts[static_cast<std::size_t>(part)];
  return sum / static_cast<double>(flight.samples);
}

// Starts telling the other ranks how this one fared; a few numbers, whose start is not worth a stopwatch.
void TrainStep::start_agreement(Flight& flight) {
  const std::span<double, 3> counts = std::span(flight.parts).last<3>();
  const StopRequest request = stop_request();
  flight.error = error_;
  counts[0] = error_ || !std::isfinite(flight.mine) ? 1 : 0;
  counts[1] = request == StopRequest::kSignal ? 1 : 0;
  counts[2] = request == StopRequest::kWallTime ? 1 : 0;
  if (comm_.size() > 1) flight.agreement->start(std::array{flight.parts.data()});
}

// All ranks know then whether the gradient may be used.  Where it may not, sums that are under way end nevertheless.
void TrainStep::agree_on(Flight& flight) {
  Transport& transport = comm_.transport();
  transport.begin_collective();
  transport.wait([&] { return flight.agreement->advance(); }, "all-reduce");
  if (flight.parts[static_cast<std::size_t>(share_.parts)] == 0) return;
  for (Flight& other : flights_) {
    if (other.step < 0 || other.summed) continue;
    if (&other != &flight) transport.wait([&] { return other.agreement->advance(); }, "all-reduce");
    other.exchange->finish([](std::int64_t, std::int64_t) {});
    other.summed = true;
  }
  std::exception_ptr error = flight.error;
  error_ = nullptr;
  try {
    if (!error && !std::isfinite(flight.mine)) {
      failure("step {}: the loss is {}{}; a smaller optimizer.lr or a warm-up (schedule.warmup_steps) may help",
              flight.step, flight.mine, grouped() ? "" : fmt::format(" on rank {}", comm_.rank()));
    }
  } catch (...) {
    error = std::current_exception();
  }
  throw_agreed(comm_, error);
}

void TrainStep::average_over(Communicator& across) {
  const Stopwatch watch("petaflow::communication"_label, context_, times_.communication);
  const Activity activity("averaging over groups", step_);
  average(across, network_->weights(), network_->parameter_elements());
  for (const OptimizerState& state : optimizer_->states()) {
    average(across, state.values, elements_of(std::span(optimizer_->own())));
  }
  network_->refresh(context_);
}

void TrainStep::settle() {
  const Stopwatch watch("petaflow::communication"_label, context_, times_.communication);
  const Activity summing("summing gradients");
  for (std::int64_t step = first_lagged(); step < step_; ++step) {
    Flight& flight = flight_of(step);
    if (flight.summed) continue;
    agree_on(flight);
    flight.exchange->finish([](std::int64_t, std::int64_t) {});
    flight.summed = true;
  }
  if (servers_ != nullptr) {
    const Activity fetching("fetching weights from servers");
    transfer({.kind = LayerHeader::Kind::kWeights}, network_->weights());
    flights_.front().exchange->spread(network_->weights());
    network_->refresh(context_);
    if (servers_->group() != 0) return;
    const std::vector<OptimizerState> states = optimizer_->states();
    for (std::size_t i = 0; i < states.size(); ++i) {
      transfer({.kind = LayerHeader::Kind::kState, .state = static_cast<std::int32_t>(i)}, states[i].values);
    }
  }
  if (!sharded_) return;
  for (std::int64_t step = first_lagged(); step < step_; ++step) {
    GradientExchange& exchange = *flight_of(step).exchange;
    exchange.spread(exchange.gradient());
  }
  gather_states();
}

// To rank 0, for a checkpoint.
void TrainStep::gather_states() {
  const std::vector<Slice>& own = optimizer_->own();
  const std::vector<std::vector<std::byte>> slices = comm_.gather(std::as_bytes(std::span(own)));
  gathered_.clear();
  for (const OptimizerState& state : optimizer_->states()) {
    const Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged> mine(
        state.values, static_cast<std::size_t>(elements_of(std::span(own))));
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), mine);
    const std::vector<std::vector<std::byte>> all = comm_.gather(std::as_bytes(std::span(host.data(), host.size())));
    if (comm_.rank() != 0) continue;
    std::vector<float>& whole = gathered_.emplace_back(static_cast<std::size_t>(network_->parameter_elements()));
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const std::byte* next = all[rank].data();
      for (std::size_t i = 0; i < slices[rank].size() / sizeof(Slice); ++i) {
        Slice slice;
        std::memcpy(&slice, slices[rank].data() + i * sizeof slice, sizeof slice);
        const std::size_t bytes = static_cast<std::size_t>(slice.size()) * sizeof(float);
        if (bytes > 0) std::memcpy(whole.data() + slice.begin, next, bytes);
        next += bytes;
      }
    }
  }
}

// The steps whose gradients are still to be used: the last `lag`, or as many as there were.
std::vector<NamedArray> TrainStep::arrays() const {
  std::vector<NamedArray> all;
  const std::vector<OptimizerState> states = optimizer_->states();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const std::vector<Parameter> parameters = trained(network_->parameters());
    const std::string prefix = optimizer_prefix(states[i]);
    std::ranges::move(sharded_ ? host_arrays_of(parameters, gathered_.at(i), prefix)
                               : arrays_of(parameters, states[i].values, prefix),
                      std::back_inserter(all));
  }
  for (std::int64_t step = first_lagged(); step < step_; ++step) {
    const Flight& flight = flight_of(step);
    PETAFLOW_REQUIRE(flight.summed, "the gradient of step {} is under way", step);
    std::ranges::move(arrays_of(network_->parameters(), flight.exchange->gradient(), lag_prefix(step - first_lagged())),
                      std::back_inserter(all));
  }
  return all;
}

std::vector<LaggedStep> TrainStep::lagged() const {
  std::vector<LaggedStep> lagged;
  for (std::int64_t step = first_lagged(); step < step_; ++step) lagged.push_back({loss_of(flight_of(step))});
  return lagged;
}

void TrainStep::restore(std::int64_t step, const std::vector<NamedArray>& arrays, const std::vector<LaggedStep>& lagged,
                        const std::string& path) {
  step_ = step;
  std::size_t used = 0;
  const auto take = [&](const std::vector<Parameter>& parameters, const std::string& prefix, float* values) {
    std::vector<NamedArray> these;
    std::ranges::copy_if(arrays, std::back_inserter(these),
                         [&](const NamedArray& array) { return array.name.starts_with(prefix); });
    if (these.empty()) return false;
    set_from_arrays(parameters, these, prefix, path, values);
    used += these.size();
    return true;
  };
  for (const OptimizerState& state : optimizer_->states()) {
    const std::string prefix = optimizer_prefix(state);
    // Arrays of all parameters, of which the own slices are kept.
    const Kokkos::View<float*, MemorySpace> whole("petaflow::optimizer::restored",
                                                  static_cast<std::size_t>(network_->parameter_elements()));
    if (!take(trained(network_->parameters()), prefix, whole.data())) {
      user_error("{} has no {}: it is of a run with another optimizer", path, prefix);
    }
    float* to = state.values;
    for (const Slice& slice : optimizer_->own()) {
      const auto size = static_cast<std::size_t>(slice.size());
      using Part = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;
      Kokkos::deep_copy(Part(to, size), Part(whole.data() + slice.begin, size));
      to += size;
    }
  }
  const auto wanted = static_cast<std::size_t>(step_ - first_lagged());
  const auto other_lag = [&] {
    user_error("{} keeps {} still to be used; go on with update.lag = {}", path,
               format_count(std::ssize(lagged), "gradient"), lagged.size());
  };
  if (lagged.size() != wanted) other_lag();
  for (std::int64_t i = 0; i < std::ssize(lagged); ++i) {
    Flight& flight = flight_of(first_lagged() + i);
    if (!take(network_->parameters(), lag_prefix(i), flight.exchange->gradient())) other_lag();
    std::ranges::fill(flight.parts, 0.0);
    flight.parts[0] = lagged[static_cast<std::size_t>(i)].loss;
    flight.samples = 1;
    flight.step = first_lagged() + i;
    flight.summed = true;
  }
  if (used != arrays.size()) user_error("{} is of a run with another optimizer", path);
}

}  // namespace petaflow
