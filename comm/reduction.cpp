#include "comm/reduction.hpp"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "base/dtype.hpp"

namespace petaflow {
namespace {

template <class Narrow>
void narrow(float* values, std::size_t count, std::byte* to) {
  auto* out = reinterpret_cast<Narrow*>(to);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = Narrow(values[i]);
    values[i] = static_cast<float>(out[i]);
  }
}

template <class Narrow>
void widen(const std::byte* from, std::size_t count, float* values) {
  const auto* in = reinterpret_cast<const Narrow*>(from);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<float>(in[i]);
}

template <class T, class From>
void combine(T* values, const From* other, std::size_t count, ReduceOp operation) {
  if (operation == ReduceOp::kSum) {
    for (std::size_t i = 0; i < count; ++i) values[i] += static_cast<T>(other[i]);
  } else {
    for (std::size_t i = 0; i < count; ++i) values[i] = std::max(values[i], static_cast<T>(other[i]));
  }
}

/// Steps whose messages are not larger than a medium takes.
ReductionPlan in_messages(const ReductionPlan& plan, std::size_t bytes_of_element) {
  const auto most = static_cast<std::int64_t>(kLargestMessage / bytes_of_element);
  ReductionPlan pieces;
  for (const Step& step : plan) {
    for (std::int64_t begin = step.slice.begin; begin < step.slice.end; begin += most) {
      Step piece = step;
      piece.slice = {begin, std::min(begin + most, step.slice.end)};
      pieces.push_back(piece);
    }
  }
  return pieces;
}

std::string always(const Transport&, Wire) { return ""; }

ReductionPlan ring(const Transport& t, std::int64_t elements) { return ring_plan(t.rank(), t.size(), elements); }
ReductionPlan doubling(const Transport& t, std::int64_t elements) {
  return doubling_plan(t.rank(), t.size(), elements);
}
ReductionPlan halving(const Transport& t, std::int64_t elements) { return halving_plan(t.rank(), t.size(), elements); }
ReductionPlan two_level(const Transport& t, std::int64_t elements) {
  return two_level_plan(t.rank(), t.nodes(), elements);
}

const ReductionImpl kMpi = {"mpi",
                            [](const Transport& transport, Wire wire) -> std::string {
                              if (!transport.has_all_reduce()) {
                                return fmt::format("messages of this kind ({}) have no sums of their own",
                                                   transport.name());
                              }
                              return wire == Wire::kF32 ? "" : "MPI sums no numbers as narrow as comm.wire";
                            },
                            nullptr};
const ReductionImpl kRing = {
    "ring",
    [](const Transport&, Wire wire) -> std::string {
      return wire == Wire::kF32 ? "" : "with narrow numbers (comm.wire) it would round every sum once for each rank";
    },
    ring};
const ReductionImpl kDoubling = {"doubling", always, doubling};
const ReductionImpl kHalving = {"halving", always, halving};
const ReductionImpl kTwoLevel = {"two_level",
                                 [](const Transport& transport, Wire) -> std::string {
                                   const Nodes& nodes = transport.nodes();
                                   std::size_t least = nodes.ranks(0).size(), most = least;
                                   for (int node = 1; node < nodes.count(); ++node) {
                                     least = std::min(least, nodes.ranks(node).size());
                                     most = std::max(most, nodes.ranks(node).size());
                                   }
                                   if (least == most) return "";
                                   return fmt::format("nodes have {} to {} ranks", least, most);
                                 },
                                 two_level};

}  // namespace

std::span<const ReductionImpl* const> reduction_impls() {
  static constexpr std::array kAll = {&kMpi, &kRing, &kDoubling, &kHalving, &kTwoLevel};
  return kAll;
}

const ReductionImpl* find_reduction(const std::string& name) {
  for (const ReductionImpl* impl : reduction_impls()) {
    if (impl->name == name) return impl;
  }
  return nullptr;
}

template <class T>
Reduction<T>::Reduction(Transport& transport, const ReductionPlan& plan, Tag tag, ReduceOp operation, Wire wire)
    : transport_(transport), plan_(in_messages(plan, sizeof(T))), tag_(tag), operation_(operation), wire_(wire) {
  PETAFLOW_REQUIRE(wire == Wire::kF32 || (std::is_same_v<T, float> && operation == ReduceOp::kSum),
                   "only sums of f32 have narrow messages");
  // Memory for the largest round, so that no step allocates.
  std::size_t messages = 0, most = 0;
  for (std::size_t begin = 0; begin < plan_.size();) {
    std::size_t end = begin, bytes = 0;
    for (; end < plan_.size() && plan_[end].round == plan_[begin].round; ++end) {
      const bool received = plan_[end].kind == Step::Kind::kCombine;
      if (received || narrows(plan_[end])) bytes += padded(wire_bytes(plan_[end]));
      messages = std::max(messages, end - begin + 1);
    }
    most = std::max(most, bytes);
    begin = end;
  }
  staging_bytes_ = most;
  pending_.reserve(messages);
}

template <class T>
Reduction<T>::Reduction(Transport& transport, std::int64_t elements, ReduceOp operation)
    : transport_(transport), operation_(operation), native_(true), elements_(static_cast<std::size_t>(elements)) {
  pending_.reserve(1 + elements_ * sizeof(T) / kLargestMessage);
}

template <class T>
std::size_t Reduction<T>::wire_bytes(const Step& step) const {
  return static_cast<std::size_t>(step.slice.size()) * (narrows(step) ? 2 : sizeof(T));
}

template <class T>
T* Reduction<T>::at(int piece, const Step& step) const {
  T* const values = pieces_[static_cast<std::size_t>(piece)];
  return values == nullptr ? nullptr : values + step.slice.begin;
}

template <class T>
std::byte* Reduction<T>::stage(std::size_t bytes) {
  if (pieces_[0] == nullptr) return nullptr;
  std::byte* const at = staging_.data() + staged_;
  staged_ += padded(bytes);
  return at;
}

template <class T>
void Reduction<T>::start(std::span<T* const> pieces) {
  PETAFLOW_REQUIRE(!running_, "a reduction is started while it goes on");
  pieces_.assign(pieces.begin(), pieces.end());
  if (pieces_[0] != nullptr) staging_.resize(staging_bytes_);
  begin_ = end_ = 0;
  posted_ = false;
  running_ = true;
  if (native_) {
    constexpr std::size_t kMost = kLargestMessage / sizeof(T);
    for (std::size_t first = 0; first < elements_; first += kMost) {
      pending_.push_back({transport_.all_reduce(pieces_[0] + first, std::min(kMost, elements_ - first),
                                                std::is_same_v<T, float> ? Element::kF32 : Element::kF64, operation_),
                          0, 0});
    }
    open_ = pending_.size();
    return;
  }
  advance();
}

// Receives are posted first: a message that finds its receive is not copied.
template <class T>
void Reduction<T>::post_round() {
  staged_ = 0;
  begin_ = end_;
  while (end_ < plan_.size() && plan_[end_].round == plan_[begin_].round) ++end_;
  for (std::size_t i = begin_; i < end_; ++i) {
    const Step& step = plan_[i];
    const bool combines = step.kind == Step::Kind::kCombine;
    if (!combines && step.kind != Step::Kind::kReceive) continue;
    std::byte* const to =
        combines || narrows(step) ? stage(wire_bytes(step)) : reinterpret_cast<std::byte*>(at(step.piece, step));
    const bool staged = to != nullptr && (combines || narrows(step));
    const auto offset = static_cast<std::size_t>(staged ? to - staging_.data() : 0);
    pending_.push_back({transport_.receive({to, wire_bytes(step)}, step.peer, tag_), i, offset});
  }
  for (std::size_t i = begin_; i < end_; ++i) {
    const Step& step = plan_[i];
    const bool sends = step.kind == Step::Kind::kSend;
    if (!sends && step.kind != Step::Kind::kRound) continue;
    T* const values = at(step.piece, step);
    auto* bytes = reinterpret_cast<std::byte*>(values);
    if constexpr (std::is_same_v<T, float>) {
      // The sender's own numbers become those that it sends: all ranks are to have the same.
      const auto count = values == nullptr ? 0 : static_cast<std::size_t>(step.slice.size());
      if (narrows(step)) {
        bytes = stage(wire_bytes(step));
        wire_ == Wire::kBf16 ? narrow<Bf16>(values, count, bytes) : narrow<Fp16>(values, count, bytes);
      }
    }
    if (sends) pending_.push_back({transport_.send({bytes, wire_bytes(step)}, step.peer, tag_), i, 0});
  }
  open_ = pending_.size();
  // From here on the last is asked for alone, and its end is all that is news to a wait.
  for (Pending& pending : pending_) transport_.done(pending.message);
}

// The additions and copies of a round without content.
template <class T>
void Reduction<T>::pass_time() {
  std::size_t bytes = 0;
  for (std::size_t i = begin_; i < end_; ++i) {
    const Step::Kind kind = plan_[i].kind;
    const bool works = kind == Step::Kind::kAdd || kind == Step::Kind::kCopy || kind == Step::Kind::kCombine;
    if (works) bytes += static_cast<std::size_t>(plan_[i].slice.size()) * sizeof(T);
  }
  pending_.clear();
  if (bytes > 0) transport_.work_on(bytes);
}

template <class T>
void Reduction<T>::finish_round() {
  if (pieces_[0] == nullptr) {
    pass_time();
    return;
  }
  std::size_t received = 0;  // receives were posted in the order of their steps
  for (std::size_t i = begin_; i < end_; ++i) {
    const Step& step = plan_[i];
    T* const values = at(step.piece, step);
    const T* const other = at(step.other, step);
    const auto count = static_cast<std::size_t>(step.slice.size());
    switch (step.kind) {
      case Step::Kind::kSend:
      case Step::Kind::kRound:
        break;
      case Step::Kind::kAdd:
        combine(values, other, count, operation_);
        break;
      case Step::Kind::kCopy:
        std::copy_n(other, count, values);
        break;
      case Step::Kind::kCombine:
      case Step::Kind::kReceive: {
        const std::byte* const from = staging_.data() + pending_[received++].offset;
        const bool combines = step.kind == Step::Kind::kCombine;
        if constexpr (std::is_same_v<T, float>) {
          if (narrows(step) && wire_ == Wire::kBf16) {
            combines ? combine(values, reinterpret_cast<const Bf16*>(from), count, operation_)
                     : widen<Bf16>(from, count, values);
            break;
          }
          if (narrows(step)) {
            combines ? combine(values, reinterpret_cast<const Fp16*>(from), count, operation_)
                     : widen<Fp16>(from, count, values);
            break;
          }
        }
        if (combines) combine(values, reinterpret_cast<const T*>(from), count, operation_);
        break;
      }
    }
  }
  pending_.clear();
}

template <class T>
bool Reduction<T>::advance() {
  if (!running_) return true;
  while (true) {
    while (open_ > 0 && transport_.done(pending_[open_ - 1].message)) --open_;
    if (open_ > 0) return false;
    if (native_) break;
    if (posted_) finish_round();
    if (end_ == plan_.size()) break;
    post_round();
    posted_ = true;
  }
  pending_.clear();
  running_ = false;
  return true;
}

template <class T>
int Reduction<T>::waits_for() const {
  return native_ || open_ == 0 ? -1 : plan_[pending_[open_ - 1].step].peer;
}

template <class T>
double Reduction<T>::sent_bytes() const {
  double bytes = 0;
  for (const Step& step : plan_) {
    if (step.kind == Step::Kind::kSend) bytes += static_cast<double>(wire_bytes(step));
  }
  return bytes;
}

template class Reduction<float>;
template class Reduction<double>;

}  // namespace petaflow
