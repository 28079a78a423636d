#include "comm/communicator.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/error.hpp"
#include "comm/mpi.hpp"
#include "comm/reduction.hpp"

namespace petaflow {
namespace {

template <class T, class F>
void for_each_message(std::span<T> bytes, const F& call) {
  for (std::size_t first = 0; first < bytes.size(); first += kLargestMessage) {
    call(bytes.subspan(first, std::min(kLargestMessage, bytes.size() - first)));
  }
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

int Communicator::node_size() const {
  const Nodes& nodes = transport_->nodes();
  return static_cast<int>(nodes.ranks(nodes.of(rank())).size());
}

Tag Communicator::new_tag() {
  PETAFLOW_REQUIRE(tags_ < Tag::kMost, "more than {} operations that go on beside others", Tag::kMost);
  return kWaitingTag + ++tags_;
}

std::unique_ptr<Reduction<double>> Communicator::make_sum(std::int64_t elements) {
  if (transport_->has_all_reduce()) return std::make_unique<Reduction<double>>(*transport_, elements);
  return std::make_unique<Reduction<double>>(*transport_, doubling_plan(rank(), size(), elements), new_tag());
}

void Communicator::all_reduce(std::span<double> values, ReduceOp op) {
  if (size() == 1) return;
  transport_->begin_collective();
  if (transport_->has_all_reduce()) {
    constexpr std::size_t kMost = kLargestMessage / sizeof(double);
    for (std::size_t first = 0; first < values.size(); first += kMost) {
      Transport::Message message =
          transport_->all_reduce(values.data() + first, std::min(kMost, values.size() - first), Element::kF64, op);
      transport_->wait([&] { return transport_->done(message); }, "all-reduce");
    }
    return;
  }
  Reduction<double> reduction(*transport_, doubling_plan(rank(), size(), static_cast<std::int64_t>(values.size())),
                              kWaitingTag, op);
  reduction.start(std::array{values.data()});
  transport_->wait([&] { return reduction.advance(); }, "all-reduce");
}

void Communicator::all_reduce_sum(std::span<double> values) { all_reduce(values, ReduceOp::kSum); }
void Communicator::all_reduce_max(std::span<double> values) { all_reduce(values, ReduceOp::kMax); }

// Along a binomial tree: a rank hears from the one whose number, counted from the root, lacks its lowest bit.
void Communicator::broadcast(std::span<std::byte> bytes, int root) {
  PETAFLOW_REQUIRE(root >= 0 && root < size(), "rank {} of {} broadcasts", root, size());
  if (size() == 1) return;
  transport_->begin_collective();
  const int number = (rank() - root + size()) % size();
  int reach = 1;
  while (reach < size() && number % (2 * reach) == 0) reach *= 2;
  for_each_message(bytes, [&](std::span<std::byte> part) {
    if (number != 0) {
      Transport::Message message = transport_->receive(part, (number - reach + root) % size(), kWaitingTag);
      transport_->wait([&] { return transport_->done(message); }, "broadcast");
    }
    for (int distance = reach / 2; distance > 0; distance /= 2) {
      if (number + distance >= size()) continue;
      Transport::Message message = transport_->send(part, (number + distance + root) % size(), kWaitingTag);
      transport_->wait([&] { return transport_->done(message); }, "broadcast");
    }
  });
}

std::vector<std::vector<std::byte>> Communicator::gather(std::span<const std::byte> bytes) {
  if (size() == 1) return {{bytes.begin(), bytes.end()}};
  transport_->begin_collective();
  const auto wait = [&](Transport::Message message) {
    transport_->wait([&] { return transport_->done(message); }, "gather");
  };
  std::uint64_t length = bytes.size();
  const auto length_bytes = std::as_writable_bytes(std::span(&length, 1));
  if (rank() != 0) {
    wait(transport_->send(length_bytes, 0, kWaitingTag));
    for_each_message(bytes, [&](std::span<const std::byte> part) { wait(transport_->send(part, 0, kWaitingTag)); });
    return {};
  }
  std::vector<std::vector<std::byte>> all(static_cast<std::size_t>(size()));
  all[0].assign(bytes.begin(), bytes.end());
  for (int from = 1; from < size(); ++from) {
    wait(transport_->receive(length_bytes, from, kWaitingTag));
    std::vector<std::byte>& theirs = all[static_cast<std::size_t>(from)];
    theirs.resize(length);
    for_each_message(std::span(theirs),
                     [&](std::span<std::byte> part) { wait(transport_->receive(part, from, kWaitingTag)); });
  }
  return all;
}

std::unique_ptr<Communicator> Communicator::split(int group) {
  return std::make_unique<Communicator>(transport_->split(group));
}

void Communicator::abort(int exit_code) {
  transport_->abort(exit_code);
  std::_Exit(exit_code);  // compilers do not take a virtual function's word that it does not return
}

void Communicator::barrier() {
  double nothing = 0;
  all_reduce_sum(std::span<double>(&nothing, 1));
}

std::vector<std::string> gather_text(Communicator& comm, const std::string& text) {
  std::vector<std::string> texts;
  for (const auto& bytes : comm.gather(std::as_bytes(std::span(text)))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

std::string broadcast_text(Communicator& comm, const std::string& text) {
  std::uint64_t length = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&length, 1)), 0);
  std::string result = text;
  result.resize(length);
  comm.broadcast(std::as_writable_bytes(std::span(result)), 0);
  return result;
}

std::unique_ptr<Communicator> make_communicator() {
  if (mpi_is_running() && mpi_world_size() > 1) return make_mpi_communicator();
  return std::make_unique<Communicator>();
}

}  // namespace petaflow
