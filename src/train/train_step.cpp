#include "train/train_step.hpp"

#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "base/activity.hpp"
#include "base/region.hpp"
#include "comm/agree.hpp"
#include "io/progress.hpp"
#include "train/other_optimizer.hpp"
#include "train/scheme_checks.hpp"
#include "train/weights.hpp"

namespace petaflow {
namespace {

/// How gradients go between ranks, behind the buckets.
std::string describe(const CommOptions& options) {
  return fmt::format(", sent as {}, {}", name_of(options.wire),
                     options.overlap ? "while backward goes on" : "after backward");
}

/// Real ones in the slots of a micro-batch.
std::int64_t samples_in(const Batch& batch, std::int64_t micro_batch, const BatchShare& share) {
  const auto slots = std::span(batch.indices);
  const auto begin = std::min(static_cast<std::size_t>(micro_batch * share.micro_batch), slots.size());
  const auto end = std::min(begin + static_cast<std::size_t>(share.micro_batch), slots.size());
  return std::ranges::count_if(slots.subspan(begin, end - begin), [](std::int64_t index) { return index >= 0; });
}

NetworkOptions network_of(const StepOptions& options, const Communicator& comm) {
  NetworkOptions network = options.network;
  const BatchShare share = share_of_batch(options.train, comm.rank(), comm.size());
  network.plans_gradient = gradient_ends_with_step(share, options.train, options.update);
  return network;
}

}  // namespace

TrainStep::TrainStep(Communicator& comm, const Context& context, const StepOptions& options, const Graph& graph,
                     const Objective& objective, ConvTuning* tuning)
    : comm_(comm),
      grouped_(options.update.servers > 0 || options.update.groups > 1),
      updates_every_(options.update.servers > 0 ? 1 : options.update.groups),
      seed_(static_cast<std::uint64_t>(options.train.seed)),
      measures_noise_(options.noise_scale),
      exchange_text_(describe(options.comm)),
      devices_(make_device_sum(comm, context, options.train, options.comm, options.update, options.optimizer,
                               list_parameters(graph))),
      runner_(comm, context, options.train, options.comm, network_of(options, comm), graph, objective, tuning),
      average_(network(), options.optimizer.ema),
      loss_scale_(options.train, options.network.precision) {
  check_scheme(graph, options.optimizer, options.update, options.comm, comm.size());
  const std::vector<Parameter>& parameters = network().parameters();
  for (std::int64_t i = 0; i <= options.update.lag; ++i) {
    Flight& flight = flights_.emplace_back();
    flight.exchange = std::make_unique<GradientExchange>(
        comm, runner_.context(), options.train, options.comm, options.update, parameters,
        optimizer_cuts(options.optimizer, parameters), network().gradient(), devices_.get(), i);
    flight.agreement = std::make_unique<StepAgreement>(comm, share().parts, measures_noise_);
    if (measures_noise_) flight.exchange->measure(parameters);
  }
  const bool sums_by_host = !devices_ || devices_->asks_the_host();
  const bool sums = comm.size() > 1 && ((options.comm.overlap && sums_by_host) || flights_.size() > 1);
  if (sums || options.update.average_late > 0 || options.update.colocate_servers) {
    poll_ = [this](bool in_loop) {
      const TimedPart timed(runner_.context(), clock_, &StepTimes::communication);
      for (Flight& flight : flights_) {
        flight.exchange->progress();
        flight.agreement->progress();
      }
      if (late_) late_->progress();
      if (served_ != nullptr)
        served_->serve(in_loop ? Server::Progress::kMessagesOnly : Server::Progress::kMessagesAndUpdates);
    };
    runner_.poll_by(poll_);
  }
  const GradientExchange& exchange = *flights_.front().exchange;
  if (options.update.servers > 0) {
    auto served = std::make_unique<ServedUpdater>(comm, runner_.context(), network(), exchange, options.optimizer,
                                                  options.update);
    served_ = served.get();
    updater_ = std::move(served);
  } else {
    updater_ =
        std::make_unique<Updater>(comm, runner_.context(), network(), exchange, options.optimizer, options.update);
  }
  const bool asks_the_host = (comm.size() > 1 && sums_by_host) || exchange.leaves_the_device() || poll_ ||
                             runner_.sums_over_ranks() || measures_noise_;
  if (kOnHost || !options.network.kernels.replay || asks_the_host) return;
  for (Flight& flight : flights_) {
    flight.passes = std::make_unique<Replay>();
    if (!updater_->asks_the_host()) flight.update = std::make_unique<Replay>();
  }
}

std::string TrainStep::describe_exchange() const {
  if (comm_.size() == 1 && served_ == nullptr) return "";
  const std::size_t lag = flights_.size() - 1;
  return fmt::format(
      "gradients are summed over {} in {}{}{}{}", grouped_ ? "the ranks of a group" : "ranks",
      flights_.front().exchange->describe(), exchange_text_,
      lag == 0 ? ""
               : fmt::format(", and used {} later (update.lag)", format_count(static_cast<std::int64_t>(lag), "step")),
      updater_->describe());
}

std::vector<BucketTimes> TrainStep::bucket_times() const {
  if (comm_.size() == 1 || devices_) return {};  // NCCL does not say
  std::vector<BucketTimes> all = flights_.front().exchange->sum().times();
  for (std::size_t f = 1; f < flights_.size(); ++f) {
    const std::vector<BucketTimes>& more = flights_[f].exchange->sum().times();
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].sums += more[i].sums;
      all[i].under_way_s += more[i].under_way_s;
      all[i].exposed_s += more[i].exposed_s;
    }
  }
  return all;
}

std::vector<double> TrainStep::waited_s() const {
  std::vector<double> all(static_cast<std::size_t>(comm_.size()) + 1);
  for (const Flight& flight : flights_) {
    const std::vector<double>& more = flight.exchange->sum().waited_s();
    for (std::size_t i = 0; i < more.size(); ++i) all[i] += more[i];  // none before its first step
  }
  return all;
}

const StepTimes& TrainStep::times() const {
  runner_.context().space.fence();
  collect_times();
  return clock_.times();
}

void TrainStep::reset_times() {
  times();  // what is still to be added
  clock_.reset();
  micro_batches_ = 0;
  network().reset_times();
  for (Flight& flight : flights_) flight.exchange->reset_times();
  std::ranges::fill(waited_across_s_, 0.0);
}

// Forward and backward of the step; its sums are under way afterwards.  After the first failure of this rank it goes on
// communicating, so that all learn of it before the step's gradient would be used.
void TrainStep::start(Flight& flight, Loader& loader, float learning_rate) {
  flight.step = step_;
  flight.summed = false;
  flight.samples = 0;
  flight.scale = loss_scale_.state().scale;
  flight.noise.reset();
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
  StepState state;
  const auto take_batch = [&] {
    const TimedRegion watch("petaflow::input"_label, runner_.context(), clock_, &StepTimes::input);
    batch = &loader.next();
    flight.samples = batch->valid_global;
    state.seed = seed_;
    state.epoch = batch->epoch;
    state.step =
        std::max<std::int64_t>(0, step_ + 1 - std::ssize(flights_)) / updates_every_ - loss_scale_.state().skipped;
    state.learning_rate = learning_rate;
    state.loss_scale = static_cast<float>(flight.scale) / static_cast<float>(batch->valid_global);
  };

  const std::int64_t batches = loader.batches_per_step(), micro_batches = share().micro_batches;
  Loader* const next_of = batches * micro_batches == 1 ? &loader : nullptr;
  flight.agreement->clear();
  flight.exchange->begin_step(batches);
  for (std::int64_t micro_batch = 0; micro_batch < batches * micro_batches; ++micro_batch) {
    if (micro_batch % micro_batches == 0) attempt(take_batch);
    bool loaded = false;
    attempt([&] {
      runner_.load(*batch, micro_batch % micro_batches, state, clock_);
      loaded = true;
    });
    if (loaded) {
      attempt([&] {
        const double loss = runner_.run(*flight.exchange, flight.passes.get(), next_of, clock_);
        flight.agreement->add_loss(share().part_of(micro_batch / batches), loss);
      });
    } else if (flight.passes) {  // what others record, or launch recorded, NCCL wants of all
      runner_.load_nothing();
      runner_.run(*flight.exchange, flight.passes.get(), nullptr, clock_);
    }
    runner_.finish_rank_sums(*flight.exchange, clock_);
    const TimedRegion watch("petaflow::communication"_label, runner_.context(), clock_, &StepTimes::communication);
    flight.exchange->end_micro_batch();
    if (!measures_noise_ || error_) continue;
    if (const std::int64_t samples = samples_in(*batch, micro_batch % micro_batches, share()); samples > 0) {
      flight.agreement->add_squares(
          share().part_of(micro_batch / batches),
          flight.exchange->micro_batch_squares() / (static_cast<double>(samples) * flight.scale * flight.scale));
    }
  }
  micro_batches_ += batches * micro_batches;
  flight.agreement->start(error_);
}

StepResult TrainStep::run(Loader& loader, float learning_rate) {
  const Region region("petaflow::step"_label);
  const Activity activity("training", step_);
  Flight& flight = flight_of(step_);
  start(flight, loader, learning_rate);
  step_ += 1;
  const auto lag = static_cast<std::int64_t>(flights_.size()) - 1;
  if (step_ <= lag) return {std::nullopt, flight.samples, StopRequest::kNone};

  Flight& due = flight_of(step_ - 1 - lag);
  const Activity summing("summing gradients", due.step);
  if (!due.summed) {
    const TimedRegion watch("petaflow::communication"_label, runner_.context(), clock_, &StepTimes::communication);
    agree_on(due);
    if (due.update || loss_scale_.scales()) finish_sum(due);
  }
  if (loss_scale_.scales() && !loss_scale_.use(due.step, due.scale, due.finite)) {
    return {due.loss(), flight.samples, due.agreement->stop(), std::nullopt, true};
  }
  const auto work = [&] { update(due, learning_rate); };
  if (due.update) {
    due.update->run(runner_.context(), std::ref(work));
  } else {
    work();
  }
  used_ = index_of(due.step);
  return {due.loss(), flight.samples, due.agreement->stop(), due.noise};
}

// The sum and the weights by it, in one where buckets can go through both.
void TrainStep::update(Flight& due, float learning_rate) {
  {
    const TimedRegion watch("petaflow::communication"_label, runner_.context(), clock_, &StepTimes::communication);
    updater_->update(*due.exchange, due.summed, due.step, learning_rate, clock_);
    if (!due.summed) measure_noise(due);
    due.summed = true;
  }
  const TimedRegion watch("petaflow::optimizer"_label, runner_.context(), clock_, &StepTimes::optimizer);
  average_.update(runner_.context(), network());
  network().refresh(runner_.context());
}

void TrainStep::finish_sum(Flight& flight) {
  flight.exchange->finish([](std::int64_t, std::int64_t) {});
  measure_noise(flight);
  if (loss_scale_.scales()) divide(flight);
  flight.summed = true;
}

void TrainStep::measure_noise(Flight& flight) {
  if (!measures_noise_) return;
  std::array<double, 1> of_batch = {flight.exchange->sum_squares() / (flight.scale * flight.scale)};
  if (flight.exchange->divides()) comm_.all_reduce_sum(std::span<double>(of_batch));
  flight.noise = estimate_noise(flight.agreement->squares(), of_batch[0], flight.samples,
                                flight.agreement->micro_batches_with_squares());
}

// The summed gradient of losses that were multiplied becomes that of the losses.
void TrainStep::divide(Flight& flight) {
  loss_scale_.divide(runner_.context(), flight.exchange->own(), flight.scale, flight.exchange->gradient());
  flight.exchange->wait();
  flight.finite = loss_scale_.finite();
  if (!flight.exchange->divides()) return;  // all ranks have the same sum
  std::array<double, 1> spoilt = {flight.finite ? 0.0 : 1.0};
  comm_.all_reduce_sum(std::span<double>(spoilt));
  flight.finite = spoilt[0] == 0;
}

void TrainStep::connect(ServerSession& servers, Communicator& workers, double momentum) {
  PETAFLOW_REQUIRE(served_ != nullptr, "servers without update.servers");
  served_->connect(servers, workers, step_, momentum);
}

// All ranks know then whether the gradient may be used.  Where it may not, sums that are under way end nevertheless.
void TrainStep::agree_on(Flight& flight) {
  if (all_agree_on(flight)) return;
  finish_sums();
  error_ = nullptr;
  flight.agreement->raise(flight.step, !grouped_);
}

// Sums go on meanwhile: their next rounds would begin behind those of the agreement otherwise.
bool TrainStep::all_agree_on(Flight& flight) {
  GradientSum& sum = flight.exchange->sum();
  const auto progress = [this] {
    for (Flight& each : flights_) each.exchange->progress();
  };
  const auto count = [&sum](int rank, double seconds) { sum.count_wait(rank, seconds); };
  bool well = true;
  const auto wait = [&] { well = flight.agreement->wait(progress, count); };
  sum.wait_beside(std::ref(wait));  // a reference fits into std::function without memory
  return well;
}

void TrainStep::finish_sums() {
  for (Flight& flight : flights_) {
    if (flight.step < 0 || flight.summed) continue;
    all_agree_on(flight);
    flight.exchange->finish([](std::int64_t, std::int64_t) {});
    flight.exchange->wait();  // nothing is under way where the error ends the run
    flight.summed = true;
  }
}

void TrainStep::meet(Communicator& across, const std::function<void()>& tell) {
  const TimedRegion watch("petaflow::communication"_label, runner_.context(), clock_, &StepTimes::communication);
  const Activity activity("waiting for other groups", step_);
  if (!meeting_) {
    meeting_ = std::make_unique<CountedMeeting>(across, across.size());
    met_.resize(meeting_->numbers());
    met_sum_ = across.make_sum(std::ssize(met_));
  }
  if (!met_.empty()) {
    meeting_->arrive(met_);
    met_sum_->start(std::array{met_.data()});
    meeting_->wait(*met_sum_, met_, {}, count_across(across));
  }
  tell();
}

CountWait TrainStep::count_across(const Communicator& across) {
  waited_across_s_.resize(static_cast<std::size_t>(across.size()) + 1);
  return [this](int group, double seconds) { add_wait(waited_across_s_, group, seconds); };
}

void TrainStep::average_over(Communicator& across) {
  const TimedRegion watch("petaflow::communication"_label, runner_.context(), clock_, &StepTimes::communication);
  const Activity activity("averaging over groups", step_);
  const CountWait count = count_across(across);
  updater_->average_over(across, count);
  average_.average_over(runner_.context(), network(), across, count);
  network().refresh(runner_.context());
}

void TrainStep::start_average(Communicator& across, std::span<const double> flags) {
  const TimedRegion watch("petaflow::communication"_label, runner_.context(), clock_, &StepTimes::communication);
  if (!late_) late_ = std::make_unique<LateAverage>(across, network().parameter_elements(), std::ssize(flags));
  late_->start(network().weights(), flags);
}

std::span<const double> TrainStep::finish_average(std::int64_t steps) {
  const TimedRegion watch("petaflow::communication"_label, runner_.context(), clock_, &StepTimes::communication);
  const Activity activity("averaging over groups", step_);
  const std::span<const double> flags =
      late_->finish(runner_.context(), network().weights(), steps, count_across(late_->across()));
  network().refresh(runner_.context());
  return flags;
}

void TrainStep::settle() {
  const TimedRegion watch("petaflow::communication"_label, runner_.context(), clock_, &StepTimes::communication);
  const Activity summing("summing gradients");
  for (std::int64_t step = first_lagged(); step < step_; ++step) {
    Flight& flight = flight_of(step);
    if (!flight.summed) {
      agree_on(flight);
      finish_sum(flight);
    }
    if (flight.exchange->divides()) flight.exchange->spread(flight.exchange->gradient());
  }
  updater_->settle(*flights_.front().exchange);
}

}  // namespace petaflow
