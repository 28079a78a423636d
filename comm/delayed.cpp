#include "comm/delayed.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <deque>
#include <limits>
#include <utility>

#include "base/random.hpp"
#include "comm/numbered.hpp"

namespace petaflow {
namespace {

/// What all communicators of a rank share.
struct Link {
  Link(const DelayOptions& given, int number)
      : options(given),
        rank(number),
        random(random_stream(static_cast<std::uint64_t>(given.seed), RandomPurpose::kGenerate),
               static_cast<std::uint64_t>(number)) {}
  /// A factor whose median (latency) or mean (time of computation) is 1.
  double factor(double sigma, bool of_mean) {
    return sigma == 0 ? 1 : std::exp(sigma * random.normal() - (of_mean ? sigma * sigma / 2 : 0));
  }

  DelayOptions options;
  int rank;
  RandomSequence random;
  double free_s = 0;   // the last message has left then
  double start_s = 0;  // of the run
};

class DelayedTransport final : public Transport {
 public:
  DelayedTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Link> link)
      : inner_(std::move(inner)), link_(std::move(link)) {}

  std::string name() const override { return inner_->name() + ", delayed"; }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const Nodes& nodes() const override { return inner_->nodes(); }

  Message send(std::span<const std::byte> bytes, int to, Tag tag) override {
    const auto [number, pending] = add();
    pending->arrival_s = to == rank() ? now_s() : arrival_s(bytes.size());
    pending->arrival = inner_->send(bytes_of(pending->arrival_s), to, tag);
    pending->content = inner_->send(bytes, to, tag);
    return number;
  }

  Message receive(std::span<std::byte> bytes, int from, Tag tag) override {
    const auto [number, pending] = add();
    pending->receives = true;
    pending->arrival = inner_->receive(bytes_of(pending->arrival_s), from, tag);
    pending->content = inner_->receive(bytes, from, tag);
    return number;
  }

  bool done(Message& message) override {
    if (message == kNone) return true;
    Pending& pending = pending_[message - 1];
    const bool here = inner_->done(pending.arrival) && inner_->done(pending.content);
    if (!here || (pending.receives && now_s() < pending.arrival_s)) return false;
    pending_.remove(message - 1);
    message = kNone;
    return true;
  }

  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    const auto look = [&] {  // servers wait once, and answer in here
      die_in_time();
      return over();
    };
    inner_->wait(look, call, until_s);
  }
  double now_s() const override { return inner_->now_s(); }

  void work(double seconds) override {
    die_in_time();
    const DelayOptions& options = link_->options;
    double factor = link_->factor(options.straggle, true);
    if (link_->rank == options.slow_rank) factor *= options.slow_factor;
    if (factor > 1) wait([] { return false; }, "being slow", now_s() + (factor - 1) * seconds);
  }

  void begin_collective() override { inner_->begin_collective(); }
  void watch_hangs(HangOptions options) override { inner_->watch_hangs(std::move(options)); }
  std::unique_ptr<Transport> split(int group) override {
    return std::make_unique<DelayedTransport>(inner_->split(group), link_);
  }
  [[noreturn]] void abort(int exit_code) override {
    inner_->abort(exit_code);
    std::abort();  // compilers do not take a virtual function's word that it does not return
  }

 private:
  /// A message as two: when it arrives, and its content.
  struct Pending {
    double arrival_s = 0;
    Message arrival = kNone, content = kNone;
    bool receives = false;
  };

  void die_in_time() const {
    const DelayOptions& options = link_->options;
    if (link_->rank == options.kill_rank && now_s() - link_->start_s >= options.kill_s) std::raise(SIGKILL);
  }

  /// Of a message that is sent now; infinite where it is lost.  It takes its place among those of its tag all the same.
  double arrival_s(std::size_t bytes) {
    const DelayOptions& options = link_->options;
    const double transfer_s =
        options.bandwidth_mb_s > 0 ? static_cast<double>(bytes) / (1e6 * options.bandwidth_mb_s) : 0;
    link_->free_s = std::max(link_->free_s, now_s()) + transfer_s;
    if (options.drop > 0 && link_->random.uniform() < options.drop) return std::numeric_limits<double>::infinity();
    return link_->free_s + 1e-3 * options.latency_ms * link_->factor(options.jitter, false);
  }

  static std::span<std::byte> bytes_of(double& value) { return std::as_writable_bytes(std::span(&value, 1)); }

  std::pair<Message, Pending*> add() {
    const std::size_t number = pending_.add();
    return {static_cast<Message>(number + 1), &pending_[number]};
  }

  std::unique_ptr<Transport> inner_;
  std::shared_ptr<Link> link_;
  Numbered<Pending, std::deque<Pending>> pending_;  // of message number + 1; the content comes there
};

}  // namespace

std::unique_ptr<Transport> make_delayed_transport(std::unique_ptr<Transport> inner, const DelayOptions& options) {
  if (inner->nodes().count() > 1) {
    user_error("[inject] delays messages by the clock of one machine; run on one, or set all of [inject] to 0");
  }
  const auto link = std::make_shared<Link>(options, inner->rank());
  link->start_s = inner->now_s();
  return std::make_unique<DelayedTransport>(std::move(inner), link);
}

}  // namespace petaflow
