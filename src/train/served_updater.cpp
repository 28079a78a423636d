#include "train/served_updater.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include <Kokkos_Core.hpp>

#include "base/activity.hpp"
#include "base/error.hpp"
#include "comm/agree.hpp"

namespace petaflow {

ServedUpdater::ServedUpdater(Communicator& comm, const Context& context, Network& network,
                             const GradientExchange& exchange, const OptimizerOptions& optimizer,
                             const UpdateOptions& update)
    : Updater(comm, context, network, exchange, optimizer, update),
      layers_(layers_of(network.parameters(),
                        {.servers = static_cast<int>(update.servers), .cut_layers = update.cut_layers})),
      failures_(comm.make_sum(1)),
      tuner_(layers_.size() * optimizer_->tuner_numbers().size()) {}

std::string ServedUpdater::describe() const {
  return "; then they go to servers, which update the weights and send them back";
}

// A message to the server of each own layer, with values from and to a flat array in MemorySpace: of the whole network,
// or a state, which holds the own layers one after the other.
void ServedUpdater::transfer(LayerHeader header, float* values) {
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

// The numbers of each own layer's tuner; kTuner: then those of all.
void ServedUpdater::transfer_tuner(LayerHeader::Kind kind) {
  const std::size_t each = optimizer_->tuner_numbers().size();
  if (each == 0) return;
  std::vector<double> all(tuner_.size());
  for (const Slice& slice : optimizer_->own()) {
    const auto layer = std::ranges::find(layers_, slice.begin, &Slice::begin);
    const std::size_t place = each * static_cast<std::size_t>(layer - layers_.begin());
    const std::span<float> numbers = std::span(tuner_).subspan(place, each);
    servers_->start(slice.begin, {.kind = kind, .numbers = static_cast<std::int32_t>(each)}, numbers.data(),
                    numbers.data());
    servers_->wait(slice.begin);
    std::ranges::copy(numbers, all.begin() + static_cast<std::ptrdiff_t>(place));
  }
  if (kind != LayerHeader::Kind::kTuner) return;
  comm_.all_reduce_sum(std::span(all));  // a layer is one member's; the others add zero
  std::ranges::transform(all, tuner_.begin(), [](double number) { return static_cast<float>(number); });
}

void ServedUpdater::connect(ServerSession& servers, Communicator& workers, std::int64_t step, double momentum) {
  servers_ = &servers;
  servers.connect(network_.parameters(), momentum);
  if (servers.group() == 0) {
    transfer({.kind = LayerHeader::Kind::kSetWeights, .version = step}, network_.weights());
    const std::vector<OptimizerState> states = optimizer_->states();
    for (std::size_t i = 0; i < states.size(); ++i) {
      transfer({.kind = LayerHeader::Kind::kSetState, .state = static_cast<std::int32_t>(i)}, states[i].values);
    }
    transfer_tuner(LayerHeader::Kind::kSetTuner);
  }
  workers.barrier();
}

void ServedUpdater::serve(Server::Progress progress) {
  if (servers_ != nullptr) servers_->serve(progress);
}

// A sum may be infinite where no loss is: sums of large numbers, and those above 65,504 where they are sent as fp16.
void ServedUpdater::agree_on(std::optional<std::int64_t> spoilt, std::int64_t step) {
  double failed = spoilt ? 1 : 0;
  if (comm_.size() > 1) {
    Transport& transport = comm_.transport();
    failures_->start(std::array{&failed});
    transport.begin_collective();
    transport.wait([this] { return failures_->advance(); }, "all-reduce");
  }
  if (failed == 0) return;
  std::exception_ptr error;
  if (spoilt) {
    error = std::make_exception_ptr(
        AgreedError(ErrorKind::kFailure,
                    fmt::format("step {}: the gradient of {} is not finite; a smaller optimizer.lr or a warm-up "
                                "(schedule.warmup_steps) may help, and comm.wire = \"bf16\" in the place of \"fp16\"",
                                step, servers_->layer_name(*spoilt))));
  }
  throw_agreed(comm_, error);
}

void ServedUpdater::update(GradientExchange& exchange, bool /*summed*/, std::int64_t step, float learning_rate,
                           StepClock& /*clock*/) {
  if (servers_ != nullptr) {
    exchange.finish(*servers_, step, learning_rate, network_.weights(),
                    [this, step](std::optional<std::int64_t> spoilt) { agree_on(spoilt, step); });
  } else {
    exchange.finish([](std::int64_t, std::int64_t) {});
  }
}

void ServedUpdater::settle(GradientExchange& exchange) {
  if (servers_ != nullptr) {
    const Activity fetching("fetching weights from servers");
    transfer({.kind = LayerHeader::Kind::kWeights}, network_.weights());
    exchange.spread(network_.weights());
    network_.refresh(context_);
    if (servers_->group() != 0) return;
    const std::vector<OptimizerState> states = optimizer_->states();
    for (std::size_t i = 0; i < states.size(); ++i) {
      transfer({.kind = LayerHeader::Kind::kState, .state = static_cast<std::int32_t>(i)}, states[i].values);
    }
    transfer_tuner(LayerHeader::Kind::kTuner);
  }
  gather_states();
}

}  // namespace petaflow
