#include "train/gradient_exchange.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/label.hpp"
#include "comm/shared_devices.hpp"
#include "kernels/copy.hpp"
#include "train/weights.hpp"
#include "update/optimizer.hpp"

namespace petaflow {
namespace {

std::vector<std::int64_t> ends_of(const std::vector<Parameter>& parameters) {
  std::vector<std::int64_t> ends;
  for (const Parameter& parameter : parameters) ends.push_back(parameter.offset + parameter.spec.elements());
  return ends;
}

std::int64_t bucket_elements(const CommOptions& options) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(options.bucket_mb * (1 << 18)));
}

constexpr const char* kOnNodes = "nccl_mpi";  // of comm.reduction: by NCCL inside nodes, by MPI between them

bool names_device_sum(const CommOptions& options) {
  return options.reduction == "nccl" || options.reduction == kOnNodes;
}

/// In a fixed order every micro-batch is a shard of the batch.
GradientSum make_sum(Communicator& comm, const TrainOptions& train, const CommOptions& options,
                     const UpdateOptions& update, const std::vector<Parameter>& parameters,
                     std::vector<std::int64_t> cuts) {
  GradientSumOptions sum;
  sum.bucket = bucket_elements(options);
  sum.reduction = names_device_sum(options) ? "auto" : options.reduction;  // that of a rank alone
  sum.wire = options.wire;
  sum.overlap = options.overlap;
  sum.owners = update.sharded || update.servers > 0;
  sum.cuts = std::move(cuts);
  sum.micro_batches = train.accumulate;
  sum.repeats = !train.batch_epochs.empty();
  if (!train.deterministic && !options.fixed_order && options.reduction != "tree" && !sum.owners) {
    return {comm, ends_of(parameters), sum};
  }
  const int count = static_cast<int>(train.deterministic ? train.shards : comm.size() * train.accumulate);
  std::vector<ShardRange> shards;
  for (int rank = 0; rank < comm.size(); ++rank) shards.push_back(shards_of(rank, comm.size(), count));
  if (update.servers == 0) return {comm, ends_of(parameters), sum, shards};
  const ServerLayout group{comm.size(), 1, static_cast<int>(update.servers), update.cut_layers};
  std::vector<std::int64_t> ends;
  for (const Slice& layer : layers_of(parameters, group)) {
    sum.owner_of.push_back(group.owner_of(ends.size()));
    ends.push_back(layer.end);
  }
  return {comm, ends, sum, shards};
}

/// Why gradients are not summed on devices; empty: they may be.
std::string why_no_device_sum(Communicator& comm, const TrainOptions& train, const CommOptions& options,
                              const UpdateOptions& update, const OptimizerOptions& optimizer) {
  if (update.servers > 0) return "update.servers get gradients from the host's memory";
  if (update.sharded && needs_whole_tensors(optimizer))
    return "update.sharded with norms of whole tensors cuts slices for the host's memory";
  if (train.deterministic) return "train.deterministic asks for a fixed order";
  if (options.fixed_order) return "comm.order asks for a fixed order";
  if (train.accumulate > 1) return "train.accumulate adds micro-batches in the host's memory";
  if (!train.batch_epochs.empty()) return "train.batch_epochs adds micro-batches in the host's memory";
  if (options.wire != Wire::kF32) return "comm.wire narrows numbers, which it does not";
  return why_no_device_sum(comm.transport(), options.reduction == kOnNodes);
}

/// Whether all of host memory is.  By the sum of squares in f64, which squares of f32 do not overflow.
bool is_finite(const float* begin, const float* end) {
  std::array<double, 8> squares{};  // several, so that additions do not wait for each other
  for (; end - begin >= std::ssize(squares); begin += squares.size()) {
    for (std::size_t i = 0; i < squares.size(); ++i) squares[i] += static_cast<double>(begin[i]) * begin[i];
  }
  for (; begin < end; ++begin) squares[0] += static_cast<double>(*begin) * *begin;
  return std::ranges::all_of(squares, [](double sum) { return std::isfinite(sum); });
}

using OnHost = Kokkos::View<float*, StagingSpace, Kokkos::MemoryUnmanaged>;
using ConstOnHost = Kokkos::View<const float*, StagingSpace, Kokkos::MemoryUnmanaged>;
using OnDevice = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;
using ConstOnDevice = Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>;

}  // namespace

std::unique_ptr<DeviceSum> make_device_sum(Communicator& comm, const Context& context, const TrainOptions& train,
                                           const CommOptions& options, const UpdateOptions& update,
                                           const OptimizerOptions& optimizer,
                                           const std::vector<Parameter>& parameters) {
  const bool asked = names_device_sum(options);
  if (comm.size() == 1 || (!asked && options.reduction != "auto")) return nullptr;
  if (const std::string shared = shared_devices(comm); !shared.empty()) {
    user_error(
        "{}: start at most as many ranks on a node as it has GPUs, of which each rank has its own by "
        "OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID, or else by CUDA_VISIBLE_DEVICES; to let them share one, set "
        "comm.reduction to another than \"{}\"",
        shared, options.reduction);
  }
  if (const std::string reason = why_no_device_sum(comm, train, options, update, optimizer); !reason.empty()) {
    if (asked) {
      user_error("comm.reduction = \"{}\" cannot be used here: {}; set it to \"auto\"", options.reduction, reason);
    }
    return nullptr;
  }
  return make_device_sum(comm, context, ends_of(parameters),
                         {.bucket = bucket_elements(options),
                          .overlap = options.overlap,
                          .steps = update.lag + 1,
                          .owners = update.sharded,
                          .nodes = options.reduction == kOnNodes});
}

GradientExchange::GradientExchange(Communicator& comm, const Context& context, const TrainOptions& train,
                                   const CommOptions& options, const UpdateOptions& update,
                                   const std::vector<Parameter>& parameters, std::vector<std::int64_t> cuts,
                                   float* gradient, DeviceSum* devices, std::int64_t place)
    : context_(context),
      elements_(elements_of(parameters)),
      gradient_("petaflow::gradient", static_cast<std::size_t>(elements_), gradient),
      devices_(devices),
      place_(place),
      sum_(make_sum(comm, train, options, update, parameters, std::move(cuts))),
      leaves_the_device_((comm.size() > 1 && devices == nullptr) || train.deterministic || train.accumulate > 1 ||
                         !train.batch_epochs.empty() || update.servers > 0),
      spreads_(update.sharded || update.servers > 0) {}

// Copies between the same elements of an array on a device and of the gradient's twin, in the order of the space.
void GradientExchange::to_host(const float* values, std::int64_t begin, std::int64_t end) {
  const auto size = static_cast<std::size_t>(end - begin);
  if constexpr (!kOnHost)
    Kokkos::deep_copy(context_.space, OnHost(gradient_.host() + begin, size), ConstOnDevice(values + begin, size));
}

void GradientExchange::to_device(float* values, std::int64_t begin, std::int64_t end) {
  const auto size = static_cast<std::size_t>(end - begin);
  if constexpr (!kOnHost)
    Kokkos::deep_copy(context_.space, OnDevice(values + begin, size), ConstOnHost(gradient_.host() + begin, size));
}

void GradientExchange::measure(const std::vector<Parameter>& parameters) {
  squares_ = std::make_unique<GradientSquares>(context_, parameters);
}

void GradientExchange::begin_step(std::int64_t repeats) {
  sum_.begin(gradient_.host(), repeats);
  if (devices_ != nullptr) devices_->begin(place_, gradient());
  joined_ = false;
  ready_ = elements_;
}

void GradientExchange::ready_from(std::int64_t first) {
  if (!leaves_the_device_ && devices_ == nullptr) return;
  if (squares_) squares_->add(gradient(), first, ready_);  // before others' are added to it
  if (devices_ != nullptr) {
    devices_->ready_from(first);
  } else if constexpr (kOnHost) {
    sum_.ready_from(first);
  } else {
    to_host(gradient(), first, ready_);
    if (left_ == leaving_.size()) leaving_.emplace_back();
    leaving_[left_].first = first;
    leaving_[left_++].arrival.expect(context_);
    sum_what_arrived();
  }
  ready_ = first;
}

void GradientExchange::give_up() {
  if (ready_ == 0) return;
  zero_tensor(context_, "petaflow::gradient::zero[kokkos]"_label,
              Tensor::dense(Shape{1, ready_, 1, 1, 1}, DType::kF32, gradient()));
}

void GradientExchange::sum_what_arrived() {
  for (; arrived_ < left_ && leaving_[arrived_].arrival.reached(); ++arrived_)
    sum_.ready_from(leaving_[arrived_].first);
}

void GradientExchange::start_ready() {
  sum_what_arrived();
  if (arrived_ == left_) return;
  context_.space.fence();
  sum_what_arrived();
}

void GradientExchange::progress() {
  if (devices_ != nullptr) devices_->progress();
  sum_what_arrived();
  sum_.advance();
}

void GradientExchange::end_micro_batch() {
  if (ready_ > 0) ready_from(0);
  if (devices_ != nullptr && squares_) wait();
  if (squares_) micro_batch_squares_ = squares_->take();
  if (devices_ != nullptr) return;
  start_ready();
  left_ = arrived_ = 0;
  sum_.end_micro_batch();
  ready_ = elements_;
}

void GradientExchange::join() {
  if (devices_ != nullptr && !joined_) devices_->join(place_);
  joined_ = true;
}

void GradientExchange::replayed() {
  ready_ = 0;
  joined_ = true;
}

void GradientExchange::wait() {
  if (devices_ != nullptr) {
    devices_->wait();
  } else {
    context_.space.fence();
  }
}

void GradientExchange::finish(const std::function<void(std::int64_t, std::int64_t)>& summed, float* weights) {
  const bool spreads = spreads_ && weights != nullptr;
  // Weights leave the device through the memory in which their gradients were summed.
  const bool on_device = spreads && devices_ == nullptr && !kOnHost;
  const auto take = [&](std::int64_t begin, std::int64_t end) {
    if (leaves_the_device_) to_device(gradient(), begin, end);
    if (squares_) squares_->add(gradient(), begin, end);
    summed(begin, end);
    if (on_device) {
      to_host(weights, begin, end);
      context_.space.fence();
    }
  };
  if (devices_ != nullptr) {
    join();
    for (const Slice& slice : own()) take(slice.begin, slice.end);
    if (squares_) sum_squares_ = squares_->take();
    if (spreads) devices_->spread(weights);
    return;
  }
  float* const values = on_device ? gradient_.host() : weights;
  sum_.finish(std::ref(take), spreads ? values : nullptr);  // a reference fits into std::function without memory
  if (squares_) sum_squares_ = squares_->take();
  if (on_device) to_device(weights, 0, elements_);
}

void GradientExchange::finish(ServerSession& servers, std::int64_t ticket, float learning_rate, float* weights,
                              const std::function<void(std::optional<std::int64_t>)>& check) {
  float* const gradient = gradient_.host();
  float* const values = kOnHost ? weights : gradient;
  sum_squares_ = 0;
  std::optional<std::int64_t> spoilt;
  const auto look = [&](std::int64_t begin, std::int64_t end) {
    if (!spoilt && !is_finite(gradient + begin, gradient + end)) spoilt = begin;
    if (squares_) {
      to_device(gradient_.device(), begin, end);
      squares_->add(gradient_.device(), begin, end);
      sum_squares_ += squares_->take();
    }
  };
  const auto push = [&] {
    check(spoilt);
    for (const Slice& slice : own()) {
      servers.push(slice.begin, ticket, learning_rate, gradient + slice.begin, values + slice.begin);
    }
  };
  sum_.finish(
      std::ref(look), values,
      [&](std::int64_t begin, std::int64_t) { servers.wait(begin, [this] { sum_.advance(); }); }, std::ref(push));
  to_device(weights, 0, elements_);  // where they are not there already
}

void GradientExchange::spread(float* values) {
  if (devices_ != nullptr) {
    devices_->spread(values);
  } else if constexpr (kOnHost) {
    sum_.spread(values);
  } else {
    to_host(values, 0, elements_);
    context_.space.fence();
    sum_.spread(gradient_.host());
    to_device(values, 0, elements_);
  }
}

}  // namespace petaflow
