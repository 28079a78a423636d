#include "train/gradient_exchange.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "train/weights.hpp"

namespace petaflow {
namespace {

std::vector<std::int64_t> ends_of(const std::vector<Parameter>& parameters) {
  std::vector<std::int64_t> ends;
  for (const Parameter& parameter : parameters) ends.push_back(parameter.offset + parameter.spec.elements());
  return ends;
}

/// In a fixed order every micro-batch is a shard of the batch.
GradientSum make_sum(Communicator& comm, const TrainOptions& train, const CommOptions& options,
                     const UpdateOptions& update, const std::vector<Parameter>& parameters,
                     std::vector<std::int64_t> cuts) {
  GradientSumOptions sum;
  sum.bucket = std::max<std::int64_t>(1, static_cast<std::int64_t>(options.bucket_mb * (1 << 18)));
  sum.reduction = options.reduction;
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

/// Whether all of host memory is.  By the sum of squares in f64, which squares of f32 do not overflow.
bool is_finite(const float* begin, const float* end) {
  std::array<double, 8> squares{};  // several, so that additions do not wait for each other
  for (; end - begin >= std::ssize(squares); begin += squares.size()) {
    for (std::size_t i = 0; i < squares.size(); ++i) squares[i] += static_cast<double>(begin[i]) * begin[i];
  }
  for (; begin < end; ++begin) squares[0] += static_cast<double>(*begin) * *begin;
  return std::ranges::all_of(squares, [](double sum) { return std::isfinite(sum); });
}

using Flat = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;

template <class From, class To>
void copy(const From& from, const To& to, std::int64_t begin, std::int64_t end) {
  const auto range = std::pair(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
  Kokkos::deep_copy(Kokkos::subview(to, range), Kokkos::subview(from, range));
}

}  // namespace

GradientExchange::GradientExchange(Communicator& comm, const TrainOptions& train, const CommOptions& options,
                                   const UpdateOptions& update, const std::vector<Parameter>& parameters,
                                   std::vector<std::int64_t> cuts)
    : gradient_("petaflow::gradient", static_cast<std::size_t>(elements_of(parameters))),
      host_(Kokkos::create_mirror_view(gradient_)),
      sum_(make_sum(comm, train, options, update, parameters, std::move(cuts))),
      leaves_the_device_(comm.size() > 1 || train.deterministic || train.accumulate > 1 ||
                         !train.batch_epochs.empty() || update.servers > 0),
      spreads_(update.sharded || update.servers > 0) {}

void GradientExchange::measure(const Context& context, const std::vector<Parameter>& parameters) {
  squares_ = std::make_unique<GradientSquares>(context, parameters);
}

void GradientExchange::begin_step(std::int64_t repeats) {
  sum_.begin(host_.data(), repeats);
  ready_ = static_cast<std::int64_t>(gradient_.extent(0));
}

void GradientExchange::ready_from(std::int64_t first) {
  if (!leaves_the_device_) return;
  if (squares_) squares_->add(gradient_.data(), first, ready_);  // before others' are added to it
  copy(gradient_, host_, first, ready_);
  ready_ = first;
  sum_.ready_from(first);
}

void GradientExchange::end_micro_batch() {
  ready_from(0);
  if (squares_) micro_batch_squares_ = squares_->take();
  sum_.end_micro_batch();
  ready_ = static_cast<std::int64_t>(gradient_.extent(0));
}

void GradientExchange::finish(const std::function<void(std::int64_t, std::int64_t)>& summed, float* weights) {
  const bool spreads = spreads_ && weights != nullptr;
  // Weights leave the device through the memory in which their gradients were summed.
  const auto elements = static_cast<std::int64_t>(gradient_.extent(0));
  const bool on_device = spreads && !kOnHost;
  const Flat device(weights, gradient_.extent(0));
  const auto take = [&](std::int64_t begin, std::int64_t end) {
    if (leaves_the_device_) copy(host_, gradient_, begin, end);
    if (squares_) squares_->add(gradient_.data(), begin, end);
    summed(begin, end);
    if (on_device) copy(device, host_, begin, end);
  };
  float* const values = on_device ? host_.data() : weights;
  sum_.finish(std::ref(take), spreads ? values : nullptr);  // a reference fits into std::function without memory
  if (squares_) sum_squares_ = squares_->take();
  if (on_device) copy(host_, device, 0, elements);
}

void GradientExchange::finish(ServerSession& servers, std::int64_t ticket, float learning_rate, float* weights,
                              const std::function<void(std::optional<std::int64_t>)>& check) {
  float* const gradient = host_.data();
  float* const values = kOnHost ? weights : gradient;
  sum_squares_ = 0;
  std::optional<std::int64_t> spoilt;
  const auto look = [&](std::int64_t begin, std::int64_t end) {
    if (!spoilt && !is_finite(gradient + begin, gradient + end)) spoilt = begin;
    if (squares_) {
      copy(host_, gradient_, begin, end);
      squares_->add(gradient_.data(), begin, end);
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
  if constexpr (!kOnHost) copy(host_, Flat(weights, gradient_.extent(0)), 0, std::int64_t(gradient_.extent(0)));
}

void GradientExchange::spread(float* values) {
  const auto elements = static_cast<std::int64_t>(gradient_.extent(0));
  if constexpr (kOnHost) {
    sum_.spread(values);
  } else {
    const Flat device(values, gradient_.extent(0));
    copy(device, host_, 0, elements);
    sum_.spread(host_.data());
    copy(host_, device, 0, elements);
  }
}

}  // namespace petaflow
