#include "servers/served_layer.hpp"

#include "base/error.hpp"

namespace petaflow {
namespace {

using Host = Kokkos::View<float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
using Device = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;

std::int64_t elements_of(const std::vector<Parameter>& parameters) {
  return parameters.back().offset + parameters.back().spec.elements();
}

}  // namespace

ServedLayer::ServedLayer(const OptimizerOptions& options, const std::vector<Parameter>& parameters, int groups,
                         UpdateOrder order)
    : order_(order),
      elements_(elements_of(parameters)),
      optimizer_(options, parameters),
      weights_("petaflow::server::weights", static_cast<std::size_t>(elements_)),
      gradient_("petaflow::server::gradient", kOnHost ? 0 : static_cast<std::size_t>(elements_)),
      step_("petaflow::server::step"),
      waiting_(static_cast<std::size_t>(groups)),
      seen_(static_cast<std::size_t>(groups)) {
  context_.step = step_.data();
  answered_.reserve(static_cast<std::size_t>(groups));
}

void ServedLayer::read(const Message& message, float* values) const {
  const auto size = static_cast<std::size_t>(elements_);
  Kokkos::deep_copy(Device(values, size), Host(message.values, size));
}

void ServedLayer::answer(int group, const float* values) {
  Message& message = waiting_[static_cast<std::size_t>(group)];
  const auto size = static_cast<std::size_t>(elements_);
  if (values != nullptr) {
    Kokkos::deep_copy(Host(message.values, size),
                      Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>(values, size));
  }
  message.header->version = version_;
  message = {};
  answered_.push_back(group);
}

// Adam counts the pushes of a layer, as every layer's solver did in the work cited in protocol.hpp.
void ServedLayer::apply(int group) {
  const Message& message = waiting_[static_cast<std::size_t>(group)];
  std::int64_t& seen = seen_[static_cast<std::size_t>(group)];
  message.header->staleness = version_ - seen;
  if (!released_) {
    StepState state;
    state.step = version_;
    state.learning_rate = message.header->learning_rate;
    Kokkos::deep_copy(step_, Kokkos::View<const StepState, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&state));
    float* gradient = message.values;
    if constexpr (!kOnHost) {
      gradient = gradient_.data();
      read(message, gradient);
    }
    optimizer_.step(context_, 0, elements_, gradient, weights_.data());
    context_.space.fence();
    version_ += 1;
  }
  seen = version_;
  answer(group, weights_.data());
}

std::span<const int> ServedLayer::take(int group, LayerHeader& header, float* values) {
  answered_.clear();
  Message& mine = waiting_.at(static_cast<std::size_t>(group));
  PETAFLOW_REQUIRE(mine.header == nullptr, "group {} sends a message before the last one is answered", group);
  mine = {&header, values};
  switch (header.kind) {
    case LayerHeader::Kind::kPush:
      if (order_ == UpdateOrder::kArrival || released_) {
        apply(group);
        break;
      }
      PETAFLOW_REQUIRE(header.ticket >= version_, "ticket {} comes after {}", header.ticket, version_);
      while (true) {
        const auto next = static_cast<std::size_t>(version_) % waiting_.size();
        const LayerHeader* due = waiting_[next].header;
        if (due == nullptr || due->kind != LayerHeader::Kind::kPush || due->ticket != version_) break;
        apply(static_cast<int>(next));
      }
      break;
    case LayerHeader::Kind::kWeights:
      seen_[static_cast<std::size_t>(group)] = version_;
      answer(group, weights_.data());
      break;
    case LayerHeader::Kind::kState:
      answer(group, optimizer_.states().at(static_cast<std::size_t>(header.state)).values);
      break;
    case LayerHeader::Kind::kSetWeights:
      read(mine, weights_.data());
      version_ = header.version;
      seen_.assign(seen_.size(), version_);
      answer(group, nullptr);
      break;
    case LayerHeader::Kind::kSetState:
      read(mine, optimizer_.states().at(static_cast<std::size_t>(header.state)).values);
      answer(group, nullptr);
      break;
    case LayerHeader::Kind::kRelease:
      released_ = true;
      for (std::size_t g = 0; g < waiting_.size(); ++g) {
        if (waiting_[g].header != nullptr && static_cast<int>(g) != group) apply(static_cast<int>(g));
      }
      answer(group, nullptr);
      break;
    case LayerHeader::Kind::kEnd:
      mine = {};
      break;
  }
  return answered_;
}

}  // namespace petaflow
