#include "scaling/worker.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "comm/counted_wait.hpp"
#include "servers/served_rank.hpp"

namespace petaflow::scaling {
namespace {

class TimedLayer final : public LayerStore {
 public:
  TimedLayer(Transport& server, std::int64_t elements, std::function<double(std::int64_t)> seconds)
      : server_(server), elements_(elements), seconds_(std::move(seconds)) {}
  std::int64_t elements() const override { return elements_; }
  bool has_values() const override { return false; }
  void update(std::int64_t, std::int64_t, float, float*) override { server_.work(seconds_(elements_)); }
  void read_weights(float*) const override {}
  void set_weights(const float*) override {}
  void read_state(std::int32_t, float*) const override {}
  void set_state(std::int32_t, const float*) override {}

 private:
  Transport& server_;
  std::int64_t elements_;
  std::function<double(std::int64_t)> seconds_;
};

/// The messages of local SGD and of late averages, in the order of Trainer::train_between_averages().
class Averages {
 public:
  Averages(Communicator& all, const Scheme& scheme, std::int64_t elements)
      : all_(all),
        across_(all.split(all.rank() % layout_of(all.size(), scheme).members())),
        scheme_(scheme),
        sum_(across_->transport(), halving_plan(across_->rank(), across_->size(), elements), across_->new_tag()),
        flags_(static_cast<std::size_t>((scheme.average_every + 1) * across_->size())),
        flag_sum_(across_->make_sum(std::ssize(flags_))) {}

  /// After so many steps of every group.
  void after(std::int64_t steps) {
    if (scheme_.average_late > 0 && steps < own_steps()) {
      if (under_way_ && steps % scheme_.average_every == scheme_.average_late % scheme_.average_every) finish();
      const bool is_due = steps % scheme_.average_every == 0;
      if (is_due && steps + scheme_.average_late < own_steps()) start();
    } else if (steps % scheme_.average_every == 0 || steps == own_steps()) {
      average();
    }
  }
  /// Lets a late average move on.
  void progress() {
    if (under_way_) is_over();
  }

 private:
  std::int64_t own_steps() const { return scheme_.steps / scheme_.groups; }

  void start() {
    under_way_ = true;
    sum_.start(std::array<float*, 1>{nullptr});
    flag_sum_->start(std::array{flags_.data()});
  }
  bool is_over() {
    const bool all_flags = flag_sum_->advance();
    return sum_.advance() && all_flags;
  }
  void finish() {
    across_->transport().wait([this] { return is_over(); }, "averaging");
    under_way_ = false;
  }
  void average() {
    if (under_way_) finish();
    std::vector<double> met(static_cast<std::size_t>(across_->size()));
    across_->all_reduce_sum(std::span(met));
    all_.barrier();  // whether a group failed
    std::vector<double> losses(met.size() * static_cast<std::size_t>(scheme_.average_every));
    all_.all_reduce_sum(std::span(losses));
    all_.barrier();  // whether one is to stop
    for (int array = 0; array < scheme_.averaged_arrays; ++array) {
      sum_.start(std::array<float*, 1>{nullptr});
      across_->transport().wait([this] { return sum_.advance(); }, "averaging");
    }
  }

  Communicator& all_;
  std::unique_ptr<Communicator> across_;
  const Scheme& scheme_;
  Reduction<float> sum_;
  std::vector<double> flags_;
  std::unique_ptr<Reduction<double>> flag_sum_;
  bool under_way_ = false;  // a late average
};

/// The step of TrainStep::run(), whose order of calls this is.
class Step {
 public:
  /// @param clock     by which time passes
  /// @param servers   null: updates are this rank's own
  /// @param averages  over groups; null: there are none
  Step(Transport& clock, Communicator& group, ServerSession* servers, Averages* averages, const Workload& workload,
       const Scheme& scheme, const Noise& noise, RandomSequence random)
      : clock_(clock),
        group_(group),
        servers_(servers),
        averages_(averages),
        workload_(workload),
        scheme_(scheme),
        noise_(noise),
        random_(random) {
    std::int64_t end = 0;
    for (const StageTimes& stage : workload.stages) {
      begins_.push_back(end);
      end += stage.elements;
      if (stage.elements > 0) ends_.push_back(end);
    }
    GradientSumOptions options;
    options.bucket = std::max<std::int64_t>(1, static_cast<std::int64_t>(scheme.bucket_mb * (1 << 18)));
    options.reduction = scheme.reduction;
    options.wire = scheme.wire;
    options.overlap = scheme.overlap;
    options.owners = scheme.servers > 0 || scheme.sharded;
    if (scheme.servers > 0) {
      const ServerLayout layout{group.size(), 1, scheme.servers};
      for (std::size_t layer = 0; layer < ends_.size(); ++layer) options.owner_of.push_back(layout.owner_of(layer));
    }
    for (std::int64_t i = 0; i <= scheme.lag; ++i) {
      Flight& flight = flights_.emplace_back();
      flight.sum = options.owners ? std::make_unique<GradientSum>(group, ends_, options, one_shard_each(group.size()))
                                  : std::make_unique<GradientSum>(group, ends_, options);
      // A loss, three counts, and what StepAgreement adds of ranks' times.
      flight.parts.resize(4 + CountedMeeting(group, CountedMeeting::kMostTimed).numbers());
      flight.agreement = group.make_sum(std::ssize(flight.parts));
    }
    failures_ = group.make_sum(1);
    rank_factor_ = factor(noise.rank_sigma);
  }

  void run(std::int64_t ticket) {
    computed_s_ = 0;
    factor_ = rank_factor_ * factor(noise_.step_sigma);
    Flight& flight = flight_of(step_);
    flight.sum->begin(nullptr);
    compute(workload_.other_s + pauses());
    for (const StageTimes& stage : workload_.stages) {
      compute(stage.forward_s);
      progress_between_stages();
    }
    for (std::size_t s = workload_.stages.size(); s-- > 0;) {
      compute(workload_.stages[s].backward_s);
      flight.sum->ready_from(begins_[s]);
      progress_between_stages();
    }
    flight.sum->end_micro_batch();
    std::ranges::fill(flight.parts, 0.0);
    flight.agreement->start(std::array{flight.parts.data()});
    step_ += 1;
    if (step_ <= scheme_.lag) return;
    Flight& due = flight_of(step_ - 1 - scheme_.lag);
    agree_on(due);
    const double element_s = workload_.optimizer_s / static_cast<double>(workload_.elements());
    if (servers_ == nullptr) {
      due.sum->finish(
          [&](std::int64_t begin, std::int64_t end) { compute(element_s * static_cast<double>(end - begin)); });
      return;
    }
    const auto push = [&] {
      failures_->start(std::array{&failed_});
      group_.transport().wait([&] { return failures_->advance(); }, "all-reduce");
      for (const Slice& layer : due.sum->own()) servers_->push(layer.begin, ticket, 1e-3F, nullptr, nullptr);
    };
    due.sum->finish([](std::int64_t, std::int64_t) {}, nullptr,
                    [&](std::int64_t begin, std::int64_t) { servers_->wait(begin, [&] { due.sum->advance(); }); },
                    push);
  }

  /// Gradients that are under way are summed to their end.
  void settle() {
    for (std::int64_t step = std::max<std::int64_t>(0, step_ - scheme_.lag); step < step_; ++step) {
      agree_on(flight_of(step));
      flight_of(step).sum->finish([](std::int64_t, std::int64_t) {});
    }
  }

  double computed_s() const { return computed_s_; }  // in the last step

  std::vector<ServedParameter> parameters() const {
    std::vector<ServedParameter> parameters;
    for (const std::int64_t end : ends_) {
      const std::int64_t begin = parameters.empty() ? 0 : ends_[parameters.size() - 1];
      parameters.push_back({std::ssize(parameters), end - begin, 0, 0});
    }
    return parameters;
  }

 private:
  struct Flight {
    std::unique_ptr<GradientSum> sum;
    std::unique_ptr<Reduction<double>> agreement;
    std::vector<double> parts;
  };
  Flight& flight_of(std::int64_t step) { return flights_[static_cast<std::size_t>(step) % flights_.size()]; }

  double factor(double sigma) { return sigma > 0 ? std::exp(sigma * random_.normal() - sigma * sigma / 2) : 1; }
  /// Their number has a Poisson distribution.
  double pauses() {
    double sum_s = 0;
    for (double at = random_.exponential(); at < noise_.pauses; at += random_.exponential()) {
      sum_s += noise_.pause_s * random_.exponential();
    }
    return sum_s / factor_;
  }
  void progress() {
    for (Flight& flight : flights_) {
      flight.sum->advance();
      flight.agreement->advance();
    }
    if (servers_ != nullptr) servers_->serve(Server::Progress::kMessagesAndUpdates);
    if (averages_ != nullptr) averages_->progress();
  }
  void progress_between_stages() {
    if (flights_.size() > 1 || scheme_.colocate_servers || scheme_.average_late > 0) progress();
  }
  /// Computes, and looks after the sums at the beginning and at every multiple of poll_s.
  void compute(double seconds) {
    seconds *= factor_;
    computed_s_ += seconds;
    if (scheme_.poll_s > 0) {
      clock_.work_and_look(seconds, scheme_.poll_s, [this] { progress(); });
    } else {
      clock_.work(seconds);
    }
  }
  void agree_on(Flight& flight) {
    const auto over = [&] {
      for (Flight& each : flights_) each.sum->advance();
      return flight.agreement->advance();
    };
    group_.transport().wait(over, "all-reduce");
  }

  Transport& clock_;
  Communicator& group_;
  ServerSession* servers_;
  Averages* averages_;
  const Workload& workload_;
  const Scheme& scheme_;
  const Noise& noise_;
  RandomSequence random_;
  double rank_factor_ = 1, factor_ = 1, computed_s_ = 0;
  std::vector<std::int64_t> begins_, ends_;      // of stages; of those with parameters
  std::deque<Flight> flights_;                   // whose numbers in `parts` stay where they are
  std::unique_ptr<Reduction<double>> failures_;  // ServedUpdater's
  double failed_ = 0;
  std::int64_t step_ = 0;
};

/// Trainer::train_with_servers().
void run_with_servers(Communicator& workers, ServerSession& session, const Scheme& scheme, Step& step,
                      RankTimes& times) {
  std::vector<std::string> names;
  const std::vector<ServedParameter> parameters = step.parameters();
  for (std::size_t layer = 0; layer < parameters.size(); ++layer) names.push_back(fmt::format("layer {}", layer));
  session.connect(parameters, std::move(names));
  workers.barrier();
  times.start_s = workers.transport().now_s();
  TicketReport report{.from = 0, .until = scheme.steps};
  std::deque<std::int64_t> tickets;
  ServerSession::Lease lease;
  const auto exchange = [&] {
    lease = session.report(report);
    if (lease.ticket) tickets.push_back(*lease.ticket);
  };
  exchange();
  if (lease.ticket) exchange();
  while (!lease.settled) {
    report.done = tickets.front();
    tickets.pop_front();
    step.run(report.done);
    exchange();
    if (lease.settled) break;  // that waited for the other groups
    times.end_s.push_back(workers.transport().now_s());
    times.compute_s.push_back(step.computed_s());
  }
  session.end(0);
}

}  // namespace

std::int64_t Workload::elements() const {
  std::int64_t sum = 0;
  for (const StageTimes& stage : stages) sum += stage.elements;
  return sum;
}

double Workload::step_s() const {
  double sum_s = other_s + optimizer_s;
  for (const StageTimes& stage : stages) sum_s += stage.forward_s + stage.backward_s;
  return sum_s;
}

MakeLayerStore timed_layers(Transport& server, std::function<double(std::int64_t)> seconds) {
  return [&server,
          seconds = std::move(seconds)](std::span<const ServedParameter> parameters) -> std::unique_ptr<LayerStore> {
    std::int64_t elements = 0;
    for (const ServedParameter& parameter : parameters) elements += parameter.elements;
    return std::make_unique<TimedLayer>(server, elements, seconds);
  };
}

ServerLayout layout_of(int ranks, const Scheme& scheme) {
  return {scheme.colocate_servers ? ranks : ranks - scheme.servers, scheme.groups, scheme.servers, false,
          scheme.colocate_servers};
}

RankTimes run_rank(Communicator& all, const Workload& workload, const Scheme& scheme, const Noise& noise,
                   std::uint64_t seed) {
  RankTimes times;
  const RandomSequence random(random_stream(seed, RandomPurpose::kGenerate, 1), static_cast<std::uint64_t>(all.rank()));
  if (scheme.servers == 0) {
    const bool averages = scheme.average_every > 0;
    const std::unique_ptr<Communicator> own =
        averages ? all.split(all.rank() / layout_of(all.size(), scheme).members()) : nullptr;
    std::optional<Averages> average;
    if (averages) average.emplace(all, scheme, workload.elements());
    Step step(all.transport(), averages ? *own : all, nullptr, average ? &*average : nullptr, workload, scheme, noise,
              random);
    all.barrier();
    times.start_s = all.transport().now_s();
    for (std::int64_t s = 0; s < scheme.steps / scheme.groups; ++s) {
      step.run(s);
      if (average) average->after(s + 1);
      times.end_s.push_back(all.transport().now_s());
      times.compute_s.push_back(step.computed_s());
    }
    step.settle();
    return times;
  }
  const auto seconds = [&](std::int64_t elements) { return workload.server_element_s * static_cast<double>(elements); };
  ServedRank rank(all, layout_of(all.size(), scheme), {timed_layers(all.transport(), seconds), {scheme.order}});
  if (!rank.works()) {
    rank.serve();
    return times;
  }
  Step step(all.transport(), rank.group(), &rank.session(), nullptr, workload, scheme, noise, random);
  run_with_servers(rank.workers(), rank.session(), scheme, step, times);
  return times;
}

}  // namespace petaflow::scaling
