#include "simulate/virtual_world.hpp"

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include "base/activity.hpp"
#include "base/error.hpp"
#include "base/random.hpp"

namespace petaflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Messages between two ranks of a group with one tag, to be received in their order.
struct Channel {
  int group = 0, from = 0, tag = 0;
  bool operator==(const Channel&) const = default;
};
struct HashOfChannel {
  std::size_t operator()(const Channel& c) const {
    std::uint64_t word = (std::uint64_t(std::uint32_t(c.from)) << 32) ^ (std::uint64_t(std::uint32_t(c.group)) << 16) ^
                         std::uint64_t(std::uint32_t(c.tag));
    word *= 0x9E3779B97F4A7C15U;
    return word ^ word >> 29;
  }
};

}  // namespace

struct VirtualWorld::State {
  /// Started and not over, or over and not asked for.
  struct Request {
    double over_s = kNever;
    bool used = false;
  };
  struct Sent {
    const std::byte* bytes = nullptr;  // null: of a message without content
    std::size_t size = 0;
    double arrival_s = kNever;      // known where it was eager
    std::vector<std::byte> copy;    // where it was eager
    Transport::Message sender = 0;  // to be told, where it was not
    int from = 0;
  };
  struct Expected {
    std::byte* bytes = nullptr;
    std::size_t size = 0;
    Transport::Message receiver = 0;
  };
  struct Queue {
    std::deque<Sent> sent;
    std::deque<Expected> expected;
  };
  struct Rank {
    boost::context::fiber fiber, scheduler;
    std::unordered_map<Channel, Queue, HashOfChannel> queues;
    std::size_t unexpected_bytes = 0;
    const char* waits_in = nullptr;  // null: it does not wait
    bool finished = false;
    Activity::Current activity;
  };
  /// All ranks, or a part of them.
  struct Group {
    int number = 0;
    std::vector<int> members, nodes;       // by rank in the group: rank of all, node
    std::vector<std::vector<int>> splits;  // who goes where, by number of the split; -1: not yet known
  };
  struct Event {
    double time_s;
    std::uint64_t order;
    int rank;
    bool operator>(const Event& o) const { return std::tie(time_s, order) > std::tie(o.time_s, o.order); }
  };

  State(int count, NetworkModel& network_model, const VirtualOptions& virtual_options)
      : network(network_model),
        options(virtual_options),
        random(random_stream(virtual_options.seed, RandomPurpose::kGenerate), 0),
        ranks(static_cast<std::size_t>(count)) {
    std::vector<int> all;
    for (int rank = 0; rank < count; ++rank) all.push_back(rank);
    group_of({0, 0, 0}, all);
  }

  /// The group that a split of another one made, made by the first who asks.
  Group& group_of(const std::tuple<int, int, int>& origin, const std::vector<int>& members) {
    std::unique_ptr<Group>& group = groups[origin];
    if (group) return *group;
    group = std::make_unique<Group>();
    group->number = static_cast<int>(groups.size()) - 1;
    group->members = members;
    std::map<int, int> numbers;
    for (const int member : members) {
      group->nodes.push_back(
          numbers.try_emplace(member / options.ranks_per_node, static_cast<int>(numbers.size())).first->second);
    }
    return *group;
  }

  void wake(int rank, double time_s) {
    events.push({time_s, std::uint64_t{random.bits()} << 32 | random.bits(), rank});
  }
  Transport::Message new_request() {
    std::size_t number = requests.size();
    if (free.empty()) {
      requests.emplace_back();
    } else {
      number = free.back();
      free.pop_back();
    }
    requests[number] = {kNever, true};
    return static_cast<Transport::Message>(number + 1);
  }
  void end(Transport::Message message, int rank, double time_s) {
    requests[message - 1].over_s = time_s;
    wake(rank, time_s);
  }
  void deliver(const Sent& sent, const Expected& expected, int to) {
    PETAFLOW_REQUIRE(sent.size == expected.size, "rank {} sends {} bytes, rank {} expects {}", sent.from, sent.size, to,
                     expected.size);
    const std::byte* from = sent.copy.empty() ? sent.bytes : sent.copy.data();
    if (from != nullptr && expected.bytes != nullptr) std::memcpy(expected.bytes, from, sent.size);
    const bool eager = sent.sender == Transport::kNone;
    const double arrival_s =
        eager ? std::max(now_s, sent.arrival_s) : network.arrival_s(sent.from, to, sent.size, now_s);
    end(expected.receiver, to, arrival_s);
    if (!eager) end(sent.sender, sent.from, arrival_s);
  }
  void sleep(int rank, const char* call) {
    PETAFLOW_REQUIRE(rank == running, "rank {} waits by the transport of rank {}", running, rank);
    Rank& me = ranks[static_cast<std::size_t>(rank)];
    me.waits_in = call;
    me.activity = Activity::current();
    me.scheduler = std::move(me.scheduler).resume();
    Activity::current() = me.activity;
    me.waits_in = nullptr;
  }

  NetworkModel& network;
  VirtualOptions options;
  RandomSequence random;
  std::vector<Rank> ranks;
  int running = -1;  // rank
  std::vector<Request> requests;
  std::vector<std::size_t> free;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::map<std::tuple<int, int, int>, std::unique_ptr<Group>> groups;  // by group, number of its split, and part
  double now_s = 0;
  std::int64_t messages_left = 0;
  std::size_t most_unexpected_bytes = 0;
  std::exception_ptr error;
};

/// The view of one rank, of all ranks or of a part.
class VirtualTransport final : public Transport {
 public:
  using State = VirtualWorld::State;

  VirtualTransport(State& world, State::Group& group, int rank) : world_(world), group_(group), rank_(rank) {}

  std::string name() const override { return "virtual"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_.members.size()); }
  std::span<const int> nodes() const override { return group_.nodes; }

  Message send(std::span<const std::byte> bytes, int to, int tag) override {
    const int receiver = member(to);
    State::Rank& there = world_.ranks[static_cast<std::size_t>(receiver)];
    State::Queue& queue = there.queues[{group_.number, rank_, tag}];
    const Message message = world_.new_request();
    State::Sent sent{bytes.data(), bytes.size(), kNever, {}, message, member(rank_)};
    if (bytes.size() <= world_.options.eager_bytes) {
      sent.sender = kNone;
      sent.arrival_s = world_.network.arrival_s(sent.from, receiver, bytes.size(), world_.now_s);
      world_.requests[message - 1].over_s = world_.now_s;
    }
    if (!queue.expected.empty()) {
      world_.deliver(sent, queue.expected.front(), receiver);
      queue.expected.pop_front();
      return message;
    }
    if (sent.sender == kNone && sent.bytes != nullptr) sent.copy.assign(bytes.begin(), bytes.end());
    if (sent.sender == kNone) there.unexpected_bytes += bytes.size();
    world_.most_unexpected_bytes = std::max(world_.most_unexpected_bytes, there.unexpected_bytes);
    world_.messages_left += 1;
    queue.sent.push_back(std::move(sent));
    return message;
  }

  Message receive(std::span<std::byte> bytes, int from, int tag) override {
    const int me = member(rank_);
    State::Rank& here = world_.ranks[static_cast<std::size_t>(me)];
    State::Queue& queue = here.queues[{group_.number, from, tag}];
    const Message message = world_.new_request();
    const State::Expected expected{bytes.data(), bytes.size(), message};
    if (queue.sent.empty()) {
      queue.expected.push_back(expected);
      return message;
    }
    world_.deliver(queue.sent.front(), expected, me);
    if (queue.sent.front().sender == kNone) here.unexpected_bytes -= bytes.size();
    world_.messages_left -= 1;
    queue.sent.pop_front();
    return message;
  }

  bool done(Message& message) override {
    if (message == kNone) return true;
    State::Request& request = world_.requests[message - 1];
    PETAFLOW_REQUIRE(request.used, "message {} was over before", message);
    if (request.over_s > world_.now_s) return false;
    request.used = false;
    world_.free.push_back(message - 1);
    message = kNone;
    return true;
  }

  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    if (until_s < kNever) world_.wake(member(rank_), until_s);
    while (!over() && world_.now_s < until_s) world_.sleep(member(rank_), call);
  }
  double now_s() const override { return world_.now_s; }
  void work(double seconds) override {
    wait([] { return false; }, "work", world_.now_s + seconds);
  }

  std::unique_ptr<Transport> split(int group) override {
    const auto number = static_cast<std::size_t>(splits_++);
    if (group_.splits.size() <= number) group_.splits.resize(number + 1, std::vector<int>(group_.members.size(), -1));
    group_.splits[number][static_cast<std::size_t>(rank_)] = group;
    const auto complete = [&] { return std::ranges::find(group_.splits[number], -1) == group_.splits[number].end(); };
    if (complete()) {
      for (const int other : group_.members) world_.wake(other, world_.now_s);
    }
    wait(complete, "split", kNever);
    const std::vector<int>& parts = group_.splits[number];
    std::vector<int> members;
    int rank = 0;
    for (std::size_t r = 0; r < parts.size(); ++r) {
      if (parts[r] != group) continue;
      if (static_cast<int>(r) == rank_) rank = static_cast<int>(members.size());
      members.push_back(group_.members[r]);
    }
    return std::make_unique<VirtualTransport>(
        world_, world_.group_of({group_.number, static_cast<int>(number) + 1, group}, members), rank);
  }

  [[noreturn]] void abort(int exit_code) override { failure("rank {} ends all with code {}", rank_, exit_code); }

 private:
  int member(int rank) const { return group_.members.at(static_cast<std::size_t>(rank)); }

  State& world_;
  State::Group& group_;
  int rank_;
  int splits_ = 0;
};

VirtualWorld::VirtualWorld(int ranks, NetworkModel& network, const VirtualOptions& options)
    : state_(std::make_unique<State>(ranks, network, options)) {}
VirtualWorld::~VirtualWorld() = default;

void VirtualWorld::run(const std::function<void(std::unique_ptr<Transport>)>& rank_main) {
  State& world = *state_;
  std::vector<int> all;
  for (std::size_t r = 0; r < world.ranks.size(); ++r) all.push_back(static_cast<int>(r));
  const Activity::Current activity = Activity::current();
  std::size_t running = world.ranks.size();
  for (const int rank : all) {
    State::Rank& me = world.ranks[static_cast<std::size_t>(rank)];
    me.finished = false;
    me.activity = activity;
    me.fiber = boost::context::fiber(
        std::allocator_arg, boost::context::protected_fixedsize_stack(world.options.stack_bytes),
        [&, rank](boost::context::fiber&& scheduler) {
          me.scheduler = std::move(scheduler);
          try {
            rank_main(std::make_unique<VirtualTransport>(world, world.group_of({0, 0, 0}, {}), rank));
          } catch (const boost::context::detail::forced_unwind&) {
            throw;
          } catch (...) {
            if (!world.error) world.error = std::current_exception();
          }
          me.finished = true;
          --running;
          return std::move(me.scheduler);
        });
    world.wake(rank, world.now_s);
  }
  while (running > 0 && !world.events.empty() && !world.error) {
    const State::Event event = world.events.top();
    world.events.pop();
    world.now_s = event.time_s;
    State::Rank& rank = world.ranks[static_cast<std::size_t>(event.rank)];
    world.running = event.rank;
    if (!rank.finished) rank.fiber = std::move(rank.fiber).resume();
  }
  Activity::current() = activity;
  std::string waiting;
  if (running > 0 && !world.error) {
    for (const int rank : all) {
      const State::Rank& me = world.ranks[static_cast<std::size_t>(rank)];
      if (!me.finished) waiting += fmt::format("{}rank {} in {}", waiting.empty() ? "" : ", ", rank, me.waits_in);
    }
  }
  if (running > 0) {
    for (State::Rank& rank : world.ranks) rank.fiber = {};  // unwinds its stack
  }
  while (!world.events.empty()) world.events.pop();
  if (world.error) std::rethrow_exception(std::exchange(world.error, nullptr));
  if (!waiting.empty()) failure("all wait for messages that nobody sends: {}", waiting);
}

double VirtualWorld::now_s() const { return state_->now_s; }
std::int64_t VirtualWorld::messages_left() const { return state_->messages_left; }
std::size_t VirtualWorld::most_unexpected_bytes() const { return state_->most_unexpected_bytes; }

}  // namespace petaflow
