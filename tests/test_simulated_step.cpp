// The simulator's ranks send what a training sends: the messages of perf/scaling's worker beside those of TrainStep and
// Trainer with the same layers, one by one.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "scaling/worker.hpp"
#include "servers/optimized_layer.hpp"
#include "servers/served_rank.hpp"
#include "simulate/virtual_world.hpp"
#include "tiny_training.hpp"
#include "train/trainer.hpp"

namespace petaflow {
namespace {

/// A message that a rank sends or begins to expect.
struct Post {
  bool sends = false;
  int among = 0;  // which ranks: all, or those of a split
  int peer = 0, tag = 0;
  std::size_t bytes = 0;
  bool pushes = false;  // a gradient follows
  bool operator==(const Post&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Post& post) {
  return out << (post.sends ? "send to " : "receive from ") << post.peer << " of " << post.among << ", tag " << post.tag
             << ", " << post.bytes << " bytes" << (post.pushes ? ", a push" : "");
}

struct Posts {
  std::vector<Post> all;
  int splits = 0;
};

/// Writes down what goes through; computation takes no time, so that the order of messages is that of the calls.
class Recorded final : public Transport {
 public:
  Recorded(std::unique_ptr<Transport> inner, Posts& posts, int among = 0)
      : inner_(std::move(inner)), posts_(posts), among_(among) {}

  std::string name() const override { return inner_->name(); }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const Nodes& nodes() const override { return inner_->nodes(); }
  Message send(std::span<const std::byte> bytes, int to, Tag tag) override {
    if (!is_around(bytes, tag)) {
      posts_.all.push_back({true, among_, to, tag.number(), bytes.size(), pushes(bytes)});
    }
    return inner_->send(bytes, to, tag);
  }
  Message receive(std::span<std::byte> bytes, int from, Tag tag) override {
    posts_.all.push_back({false, among_, from, tag.number(), bytes.size()});
    return inner_->receive(bytes, from, tag);
  }
  bool done(Message& message) override { return inner_->done(message); }
  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    inner_->wait(over, call, until_s);
  }
  double now_s() const override { return inner_->now_s(); }
  std::unique_ptr<Transport> split(int group) override {
    return std::make_unique<Recorded>(inner_->split(group), posts_, ++posts_.splits);
  }
  [[noreturn]] void abort(int exit_code) override {
    inner_->abort(exit_code);
    std::abort();
  }

 private:
  static constexpr int kAll = 1;  // what ServedRank splits first: messages between workers and servers
  template <class Struct>
  const Struct* as(std::span<const std::byte> bytes) const {
    const bool is_one = among_ == kAll && bytes.size() == sizeof(Struct);
    return is_one ? reinterpret_cast<const Struct*>(bytes.data()) : nullptr;
  }
  bool pushes(std::span<const std::byte> bytes) const {
    const auto* header = as<LayerHeader>(bytes);
    return header != nullptr && header->kind == LayerHeader::Kind::kPush;
  }
  /// Connects with servers or takes leave of them.
  bool is_around(std::span<const std::byte> bytes, Tag tag) const {
    const auto* header = as<LayerHeader>(bytes);
    const auto* report = as<TicketReport>(bytes);
    return (among_ == kAll && tag == kControlTag) || (header != nullptr && header->kind == LayerHeader::Kind::kEnd) ||
           (report != nullptr && report->last != 0);
  }

  std::unique_ptr<Transport> inner_;
  Posts& posts_;
  int among_;
};

/// No two ranks send equally fast, so that nothing comes at the same time.
class Uneven final : public FixedArrivals {
 public:
  double arrival_s(int from, int to, std::size_t bytes, double start_s) override {
    return start_s + 1e-4 * (1 + 0.37 * from + 0.0531 * to) + 1e-9 * static_cast<double>(bytes);
  }
};

constexpr std::int64_t kSteps = 6;

struct Case {
  const char* name;
  int ranks;
  UpdateOptions update;
  CommOptions comm;
};

CommonOptions options_of(const Case& c) {
  CommonOptions options = tiny::options();
  options.update = c.update;
  options.comm = c.comm;
  options.train.batch = 12 * c.update.groups;
  options.train.steps = kSteps;
  options.checkpoint.interval = 0;
  options.log.interval = 1000;
  return options;
}

class Begin final : public TrainingListener {
 public:
  explicit Begin(Posts& posts) : posts_(posts) {}
  void begin() override { posts_.all.clear(); }

 private:
  Posts& posts_;
};

void train(const Case& c, std::unique_ptr<Transport> transport, Posts& posts) {
  const CommonOptions options = options_of(c);
  Communicator comm(std::move(transport));
  if (c.update.servers == 0) {
    tiny::Training training(comm, options, 91, 0.5F, false);
    posts.all.clear();
    comm.barrier();
    training.run(kSteps);
    training.step.settle();
    return;
  }
  const ServerLayout layout = server_layout(options, c.ranks);
  ServedRank rank(comm, layout, {optimized_layers(options.optimizer, layout.groups), serving_order(options)});
  if (!rank.works()) {
    rank.serve();
    return;
  }
  tiny::Training training(rank.group(), options, 91, 0.5F, false);
  Trainer trainer(trainer_options(options, "loss"), rank.workers(), Context(), training.step, training.data, {},
                  nullptr);
  trainer.connect(rank.session());
  Begin begin(posts);
  trainer.fit(begin);
  rank.session().end(0);
}

scaling::Workload workload() {
  scaling::Workload workload;
  std::vector<Parameter> parameters = Network(tiny::network(0), NetworkOptions(), Context()).parameters();
  for (const Slice& layer : layers_of(parameters)) workload.stages.push_back({"layer", layer.size()});
  return workload;
}

void simulate(const Case& c, std::unique_ptr<Transport> transport) {
  scaling::Scheme scheme;
  scheme.steps = kSteps;
  scheme.groups = static_cast<int>(c.update.groups);
  scheme.servers = static_cast<int>(c.update.servers);
  scheme.colocate_servers = c.update.colocate_servers;
  scheme.order = c.update.order;
  scheme.lag = c.update.lag;
  scheme.bucket_mb = c.comm.bucket_mb;
  scheme.reduction = c.comm.reduction;
  scheme.wire = c.comm.wire;
  scheme.overlap = c.comm.overlap;
  Communicator comm(std::move(transport));
  scaling::run_rank(comm, workload(), scheme, {}, 1);
}

std::vector<Posts> posts_of(const Case& c, const std::function<void(std::unique_ptr<Transport>, Posts&)>& run) {
  Uneven network;
  VirtualOptions options;
  options.stack_bytes = 4 << 20;
  VirtualWorld world(c.ranks, network, options);
  std::vector<Posts> posts(static_cast<std::size_t>(c.ranks));
  world.run([&](std::unique_ptr<Transport> transport) {
    Posts& mine = posts[static_cast<std::size_t>(transport->rank())];
    run(std::make_unique<Recorded>(std::move(transport), mine), mine);
  });
  return posts;
}

TEST(SimulatedStep, SumsTheBucketsThatATrainingSums) {
  EXPECT_EQ(scaling::Scheme().bucket_mb, CommOptions().bucket_mb);
}

TEST(SimulatedStep, SendsWhatATrainingSends) {
  CommOptions plain;
  plain.bucket_mb = 8.0 / (1 << 18);  // that a layer fills, and no bias
  CommOptions two_buckets = plain, together = plain, ring = plain, narrow = plain;
  two_buckets.bucket_mb = 100.0 / (1 << 18);
  together.overlap = false;
  ring.reduction = "ring";
  narrow.wire = Wire::kBf16;
  for (const Case& c :
       std::vector<Case>{{"overlapped", 4, {}, plain},
                         {"in two buckets", 3, {}, two_buckets},
                         {"behind backward", 4, {}, together},
                         {"ring", 4, {}, ring},
                         {"bf16", 4, {}, narrow},
                         {"lag 1", 4, {.lag = 1}, plain},
                         {"lag 2", 3, {.lag = 2}, two_buckets},
                         {"one group", 3, {.servers = 1}, plain},
                         {"hybrid", 6, {.groups = 2, .servers = 2, .order = UpdateOrder::kTicket}, plain},
                         {"asynchronous", 5, {.groups = 4, .servers = 1, .order = UpdateOrder::kTicket}, plain},
                         {"a server inside",
                          4,
                          {.groups = 2, .servers = 1, .colocate_servers = true, .order = UpdateOrder::kTicket},
                          plain}}) {
    SCOPED_TRACE(c.name);
    const std::vector<Posts> real =
        posts_of(c, [&](std::unique_ptr<Transport> transport, Posts& posts) { train(c, std::move(transport), posts); });
    const std::vector<Posts> simulated =
        posts_of(c, [&](std::unique_ptr<Transport> transport, Posts&) { simulate(c, std::move(transport)); });
    const ServerLayout layout = server_layout(options_of(c), c.ranks);
    for (std::size_t rank = 0; rank < real.size(); ++rank) {
      if (layout.servers > 0 && layout.server_at(static_cast<int>(rank))) continue;  // the same object answers
      std::vector<Post> expected = simulated[rank].all, sent = real[rank].all;
      if (c.update.colocate_servers) {  // when the coordinator's answers are asked for depends on polls
        const auto answer = [](const Post& post) { return !post.sends && post.tag == kAnswerTag.number(); };
        for (std::vector<Post>* posts : {&expected, &sent}) std::erase_if(*posts, answer);
      }
      if (c.update.servers > 0) {  // in the end a training gets weights and states from the servers
        const auto steps_end = sent.begin() + std::min(std::ssize(sent), std::ssize(expected));
        EXPECT_TRUE(std::none_of(steps_end, sent.end(), [](const Post& post) { return post.pushes; }));
        sent.erase(steps_end, sent.end());
      }
      const auto differ = std::ranges::mismatch(expected, sent);
      const auto rest = [](auto begin, auto end) {
        return std::vector<Post>(begin, begin + std::min<std::ptrdiff_t>(6, end - begin));
      };
      EXPECT_EQ(rest(differ.in1, expected.end()), rest(differ.in2, sent.end()))
          << "rank " << rank << ", from message " << differ.in1 - expected.begin() << " on";
    }
  }
}

}  // namespace
}  // namespace petaflow
