#include "simulate/virtual_world.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <exception>
#include <limits>
#include <map>
#include <optional>
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
#include "comm/numbered.hpp"
#include "simulate/waiting_messages.hpp"

namespace petaflow {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

struct VirtualWorld::State {
  /// Started and not over, or over and not asked for.
  struct Request {
    bool over = false, used = false;
    std::uint64_t look = 0;  // at which it ended at once, or was last asked for in vain; 0: never
  };
  /// A message in the network, or an eager one that waits for its receive.
  struct Flight {
    int from = 0, to = 0;
    Transport::Message sent = Transport::kNone, expected = Transport::kNone;  // to be told
    bool arrived = false;
  };
  struct Rank {
    boost::context::fiber fiber, scheduler;
    std::uint64_t look = 0;  // its last one
    bool has_news = false;   // a message that it asked for at its last look, or never, has ended
    double wakes_s = kNever;
    std::uint32_t turn = 0;  // of its event
    std::size_t unexpected_bytes = 0;
    const char* waits_in = nullptr;   // null: it does not wait
    bool for_messages = false;        // it waits for them, too
    double since_s = 0, every_s = 0;  // it sees them at multiples; 0: at once
    bool finished = false;
    Activity::Current activity;

    /// When it looks at what has come.
    double sees_at(double time_s) const {
      return every_s > 0 ? since_s + (std::floor((time_s - since_s) / every_s) + 1) * every_s : time_s;
    }
  };
  struct Group;
  struct Split {
    std::vector<int> parts, ranks;  // by rank: where it goes, its number there
    std::size_t missing = 0;        // ranks that have not come yet
    std::map<int, Group*> groups;
  };
  /// All ranks, or a part of them.
  struct Group {
    Group(int group, std::vector<int> of, Nodes apart)
        : number(group), members(std::move(of)), nodes(std::move(apart)) {}

    int number;
    std::vector<int> members;  // by rank in the group: rank of all
    Nodes nodes;
    std::deque<Split> splits;
  };
  /// A rank wakes up; not where its turn is another one.
  struct Event {
    double time_s;
    std::uint64_t order;
    int rank;
    std::uint32_t turn;
    bool operator>(const Event& o) const { return std::tie(time_s, order) > std::tie(o.time_s, o.order); }
  };

  State(int count, NetworkModel& network_model, const VirtualOptions& virtual_options)
      : network(network_model),
        options(virtual_options),
        random(random_stream(virtual_options.seed.value_or(0), RandomPurpose::kGenerate), 0),
        ranks(static_cast<std::size_t>(count)) {
    std::vector<int> all;
    for (int rank = 0; rank < count; ++rank) all.push_back(rank);
    add_group(std::move(all));
  }

  Group& add_group(std::vector<int> members) {
    std::unordered_map<int, int> numbers;
    std::vector<int> nodes;
    for (const int member : members) {
      nodes.push_back(
          numbers.try_emplace(member / options.ranks_per_node, static_cast<int>(numbers.size())).first->second);
    }
    return groups.emplace_back(static_cast<int>(groups.size()), std::move(members), Nodes(std::move(nodes)));
  }

  Rank& at(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  void wake(int rank, double time_s) {
    Rank& sleeper = at(rank);
    sleeper.wakes_s = time_s;
    sleeper.turn += 1;
    const std::uint64_t order =
        options.seed ? std::uint64_t{random.bits()} << 32 | random.bits() : static_cast<std::uint64_t>(rank);
    events.push({time_s, order, rank, sleeper.turn});
  }
  Transport::Message new_request() { return static_cast<Transport::Message>(requests.add({false, true, 0}) + 1); }
  Flight& launch(int from, int to, std::size_t bytes, NetworkModel::Number& number) {
    number = static_cast<NetworkModel::Number>(flights.add({from, to}));
    network.send(number, from, to, bytes, now_s);
    return flights[number];
  }
  /// At this time.
  void end(Transport::Message message, int rank) {
    Request& request = requests[message - 1];
    request.over = true;
    if (rank == running) {
      request.look = look;
      unseen += 1;
      return;
    }
    Rank& waiter = at(rank);
    if (request.look != 0 && request.look != waiter.look) return;
    waiter.has_news = true;
    if (waiter.waits_in == nullptr || !waiter.for_messages) return;
    const double seen_s = waiter.sees_at(now_s);
    if (seen_s < waiter.wakes_s) wake(rank, seen_s);
  }
  void deliver(const Side& sent, const Side& expected) {
    PETAFLOW_REQUIRE(sent.size == expected.size, "rank {} sends {} bytes, rank {} expects {}", sent.rank, sent.size,
                     expected.rank, expected.size);
    const std::byte* from = sent.copy ? sent.copy.get() : sent.bytes;
    if (from != nullptr && expected.bytes != nullptr) std::memcpy(expected.bytes, from, sent.size);
    if (sent.message != Transport::kNone) {
      NetworkModel::Number number = 0;
      Flight& flight = launch(sent.rank, expected.rank, sent.size, number);
      flight.sent = sent.message;
      flight.expected = expected.message;
    } else if (flights[sent.flight].arrived) {
      flights.remove(sent.flight);
      end(expected.message, expected.rank);
    } else {
      flights[sent.flight].expected = expected.message;
    }
  }
  /// The network's next event.
  void advance_network() {
    now_s = network.next_s();
    running = -1;
    const std::optional<NetworkModel::Number> number = network.advance();
    if (!number) return;
    Flight& flight = flights[*number];
    flight.arrived = true;
    if (flight.expected == Transport::kNone) return;
    end(flight.expected, flight.to);
    if (flight.sent != Transport::kNone) end(flight.sent, flight.from);
    flights.remove(*number);
  }
  /// The running rank asks for its messages: those that have ended by now are seen.
  void look_at_messages() {
    look += 1;
    at(running).has_news = false;
    at(running).look = look;
    unseen = 0;
  }
  /// Ranks that are left when a run has failed end by this exception where they wait, or would send or receive.
  void go_on() const {
    if (over) throw CommError("other ranks have failed");
  }
  /// Until then, until a message of the rank ends, or until somebody wakes it.
  void sleep(int rank, const char* call, double until_s, bool for_messages) {
    go_on();
    PETAFLOW_REQUIRE(rank == running, "rank {} waits by the transport of rank {}", running, rank);
    Rank& me = at(rank);
    if (unseen > 0) me.has_news = true;
    const double next_s = for_messages && me.has_news ? std::min(me.sees_at(now_s), until_s) : until_s;
    me.wakes_s = kNever;
    if (next_s < kNever) wake(rank, next_s);
    me.waits_in = call;
    me.for_messages = for_messages;
    me.activity = Activity::current();
    me.scheduler = std::move(me.scheduler).resume();
    Activity::current() = me.activity;
    me.waits_in = nullptr;
    go_on();
  }

  NetworkModel& network;
  VirtualOptions options;
  RandomSequence random;
  std::vector<Rank> ranks;
  int running = -1;            // rank
  std::uint64_t look = 1;      // number of look_at_messages()
  int unseen = 0;              // messages of the running rank that ended at once since then, and were not asked for
  Numbered<Request> requests;  // of message number + 1
  Numbered<Flight> flights;    // by number of the network's
  Waiting waiting;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::deque<Group> groups;  // the first: all ranks
  double now_s = 0;
  std::int64_t messages = 0, messages_left = 0;
  std::size_t most_unexpected_bytes = 0;
  std::exception_ptr error;
  bool over = false;  // the run has failed, and its fibers end
  bool failed = false;
};

/// The view of one rank, of all ranks or of a part.
class VirtualTransport final : public Transport {
 public:
  using State = VirtualWorld::State;

  VirtualTransport(State& world, State::Group& group, int rank) : world_(world), group_(group), rank_(rank) {}

  std::string name() const override { return "virtual"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_.members.size()); }
  const Nodes& nodes() const override { return group_.nodes; }

  Message send(std::span<const std::byte> bytes, int to, Tag tag) override {
    world_.go_on();
    const Channel channel{group_.number, member(to), rank_, tag};
    const Message message = world_.new_request();
    // What is sent is only read.
    Side sent{const_cast<std::byte*>(bytes.data()), bytes.size(), message, member(rank_), 0, nullptr, 0};
    world_.messages += 1;
    if (bytes.size() <= world_.options.eager_bytes) {
      sent.message = kNone;
      world_.launch(sent.rank, channel.to, bytes.size(), sent.flight);
      world_.requests[message - 1].over = true;
    }
    if (Side* const expected = world_.waiting.first(channel, false)) {
      world_.deliver(sent, *expected);
      world_.waiting.remove_first(channel);
      return message;
    }
    if (sent.message == kNone) {
      if (sent.bytes != nullptr) {
        sent.copy = std::make_unique_for_overwrite<std::byte[]>(bytes.size());
        std::ranges::copy(bytes, sent.copy.get());
      }
      State::Rank& there = world_.at(channel.to);
      there.unexpected_bytes += bytes.size();
      world_.most_unexpected_bytes = std::max(world_.most_unexpected_bytes, there.unexpected_bytes);
    }
    world_.messages_left += 1;
    world_.waiting.add(channel, true, std::move(sent));
    return message;
  }

  Message receive(std::span<std::byte> bytes, int from, Tag tag) override {
    world_.go_on();
    const Channel channel{group_.number, member(rank_), from, tag};
    const Message message = world_.new_request();
    Side expected{bytes.data(), bytes.size(), message, channel.to, 0, nullptr, 0};
    Side* const sent = world_.waiting.first(channel, true);
    if (sent == nullptr) {
      world_.waiting.add(channel, false, std::move(expected));
      return message;
    }
    world_.deliver(*sent, expected);
    if (sent->message == kNone) world_.at(channel.to).unexpected_bytes -= bytes.size();
    world_.messages_left -= 1;
    world_.waiting.remove_first(channel);
    return message;
  }

  bool done(Message& message) override {
    if (message == kNone) return true;
    State::Request& request = world_.requests[message - 1];
    PETAFLOW_REQUIRE(request.used, "message {} was over before", message);
    if (!request.over) {
      request.look = world_.at(world_.running).look;
      return false;
    }
    if (request.look == world_.look) world_.unseen -= 1;
    request.used = false;
    world_.requests.remove(message - 1);
    message = kNone;
    return true;
  }

  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    world_.go_on();
    while (true) {
      world_.look_at_messages();
      if (over() || world_.now_s >= until_s) return;
      world_.sleep(member(rank_), call, until_s, true);
    }
  }
  double now_s() const override { return world_.now_s; }
  void work(double seconds) override {
    const double until_s = world_.now_s + seconds;
    while (world_.now_s < until_s) world_.sleep(member(rank_), "work", until_s, false);
  }
  void work_and_look(double seconds, double every_s, const std::function<void()>& look) override {
    State::Rank& me = world_.at(member(rank_));
    while (seconds > every_s) {
      world_.look_at_messages();
      look();
      me.since_s = world_.now_s;
      me.every_s = every_s;
      world_.sleep(member(rank_), "work", me.since_s + seconds, true);
      me.every_s = 0;
      seconds -= world_.now_s - me.since_s;
    }
    work(seconds);
  }
  void work_on(std::size_t bytes) override { work(static_cast<double>(bytes) * world_.options.byte_added_s); }

  std::unique_ptr<Transport> split(int part) override {
    const auto number = static_cast<std::size_t>(splits_++), me = static_cast<std::size_t>(rank_);
    if (group_.splits.size() <= number) {
      State::Split& opened = group_.splits.emplace_back();
      opened.missing = group_.members.size();
      opened.parts.resize(opened.missing);
      opened.ranks.resize(opened.missing);
    }
    State::Split& split = group_.splits[number];
    split.parts[me] = part;
    split.missing -= 1;
    if (split.missing == 0) {
      std::map<int, std::vector<int>> members;
      for (std::size_t rank = 0; rank < split.parts.size(); ++rank) {
        std::vector<int>& these = members[split.parts[rank]];
        split.ranks[rank] = static_cast<int>(these.size());
        these.push_back(group_.members[rank]);
      }
      for (auto& [of, these] : members) split.groups[of] = &world_.add_group(std::move(these));
      for (const int other : group_.members) {
        if (other != member(rank_)) world_.wake(other, world_.now_s);
      }
    }
    while (split.missing > 0) world_.sleep(member(rank_), "split", kNever, false);
    return std::make_unique<VirtualTransport>(world_, *split.groups.at(part), split.ranks[me]);
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
  PETAFLOW_REQUIRE(!world.failed, "a world whose run failed has messages left and cannot run again");
  while (world.groups.size() > 1) world.groups.pop_back();
  world.groups.front().splits.clear();
  std::vector<int> all;
  for (std::size_t r = 0; r < world.ranks.size(); ++r) all.push_back(static_cast<int>(r));
  const Activity::Current activity = Activity::current();
  std::size_t unfinished = world.ranks.size();
  for (const int rank : all) {
    State::Rank& me = world.at(rank);
    me.finished = false;
    me.activity = activity;
    me.has_news = false;
    me.fiber =
        boost::context::fiber(std::allocator_arg, boost::context::protected_fixedsize_stack(world.options.stack_bytes),
                              [&, rank](boost::context::fiber&& scheduler) {
                                me.scheduler = std::move(scheduler);
                                try {
                                  if (!world.over) {
                                    rank_main(std::make_unique<VirtualTransport>(world, world.groups.front(), rank));
                                  }
                                } catch (...) {
                                  if (!world.error && !world.over) world.error = std::current_exception();
                                }
                                me.finished = true;
                                --unfinished;
                                return std::move(me.scheduler);
                              });
    world.wake(rank, world.now_s);
  }
  while (unfinished > 0 && !world.error) {
    const double wake_s = world.events.empty() ? kNever : world.events.top().time_s;
    const double network_s = world.network.next_s();
    if (std::min(wake_s, network_s) == kNever) break;
    if (network_s <= wake_s) {
      world.advance_network();
      continue;
    }
    const State::Event event = world.events.top();
    world.events.pop();
    State::Rank& rank = world.at(event.rank);
    if (rank.finished || rank.turn != event.turn) continue;
    world.now_s = event.time_s;
    world.running = event.rank;
    world.unseen = 0;
    rank.fiber = std::move(rank.fiber).resume();
  }
  std::string waiting;
  if (unfinished > 0 && !world.error) {
    constexpr std::size_t kNamed = 16;
    std::size_t count = 0;
    for (const int rank : all) {
      const State::Rank& me = world.at(rank);
      if (me.finished || ++count > kNamed) continue;
      waiting += fmt::format("{}rank {} in {}", count == 1 ? "" : ", ", rank, me.waits_in);
    }
    if (count > kNamed) waiting += fmt::format(" and {} more", count - kNamed);
  }
  // Not by boost's exception, which whoever keeps a failure for later would keep, too.
  world.over = true;
  for (const int rank : all) {
    State::Rank& me = world.at(rank);
    world.running = rank;
    if (!me.finished) me.fiber = std::move(me.fiber).resume();
  }
  world.over = false;
  Activity::current() = activity;
  while (!world.events.empty()) world.events.pop();
  world.failed = world.error != nullptr || !waiting.empty();
  if (world.error) std::rethrow_exception(std::exchange(world.error, nullptr));
  if (!waiting.empty()) failure("all wait for messages that nobody sends: {}", waiting);
}

double VirtualWorld::now_s() const { return state_->now_s; }
std::int64_t VirtualWorld::messages() const { return state_->messages; }
std::int64_t VirtualWorld::messages_left() const { return state_->messages_left; }
std::size_t VirtualWorld::most_unexpected_bytes() const { return state_->most_unexpected_bytes; }

}  // namespace petaflow
