// Times of computation that a model says instead of the clock: runs on virtual time that can be repeated, and real
// ranks on fewer cores than they stand for.
#pragma once

#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "comm/transport.hpp"

namespace petaflow::perf {

/// A step of a rank, piece by piece: what it says by Transport::work() between two messages.
struct StepModel {
  std::vector<double> pieces_s;
  double noise = 0;    // sigma of a log-normal factor of each step of each rank; its mean is 1
  int slow_rank = -1;  // takes slow_factor times as long
  double slow_factor = 1;
  std::uint64_t seed = 1;
};

/// The seconds of a rank's pieces, one after the other.
class StepClock {
 public:
  StepClock(StepModel model, int rank)
      : model_(std::move(model)),
        random_(random_stream(model_.seed, RandomPurpose::kGenerate, 2), static_cast<std::uint64_t>(rank)),
        slowness_(rank == model_.slow_rank ? model_.slow_factor : 1) {}

  double next() {
    if (piece_ == 0) factor_ = slowness_ * std::exp(model_.noise * (random_.normal() - model_.noise / 2));
    const double seconds = factor_ * model_.pieces_s[piece_];
    piece_ = (piece_ + 1) % model_.pieces_s.size();
    return seconds;
  }

 private:
  StepModel model_;
  RandomSequence random_;
  double slowness_, factor_ = 1;
  std::size_t piece_ = 0;
};

/// What all communicators of a rank share.
struct Pace {
  std::function<double(double passed_s)> rest_s;  // still to pass after a piece that took so many
  bool sleeps = false;                            // instead of waiting with an eye on messages
  double late_s = 0;                              // that the last pieces took too long, made up for by the next
};

/// Messages of another transport, whose sums it makes of these; work() waits as long as a pace says.
class PacedTransport final : public Transport {
 public:
  PacedTransport(std::unique_ptr<Transport> inner, std::shared_ptr<Pace> pace)
      : inner_(std::move(inner)), pace_(std::move(pace)) {}

  std::string name() const override { return inner_->name() + ", paced"; }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  const Nodes& nodes() const override { return inner_->nodes(); }
  Message send(std::span<const std::byte> bytes, int to, Tag tag) override { return inner_->send(bytes, to, tag); }
  Message receive(std::span<std::byte> bytes, int from, Tag tag) override { return inner_->receive(bytes, from, tag); }
  bool done(Message& message) override { return inner_->done(message); }
  void wait(const std::function<bool()>& over, const char* call, double until_s) override {
    inner_->wait(over, call, until_s);
  }
  double now_s() const override { return inner_->now_s(); }
  void work(double passed_s) override {
    const double until_s = now_s() + pace_->rest_s(passed_s) - pace_->late_s;
    if (pace_->sleeps) {
      std::this_thread::sleep_for(std::chrono::duration<double>(until_s - now_s()));
    } else if (until_s > now_s()) {
      wait([] { return false; }, "computing", until_s);
    }
    pace_->late_s = now_s() - until_s;
  }
  void begin_collective() override { inner_->begin_collective(); }
  void watch_hangs(HangOptions options) override { inner_->watch_hangs(std::move(options)); }
  std::unique_ptr<Transport> split(int group) override {
    return std::make_unique<PacedTransport>(inner_->split(group), pace_);
  }
  [[noreturn]] void abort(int exit_code) override {
    inner_->abort(exit_code);
    std::abort();
  }

 private:
  std::unique_ptr<Transport> inner_;
  std::shared_ptr<Pace> pace_;
};

inline std::unique_ptr<Transport> paced(std::unique_ptr<Transport> inner, std::function<double(double)> rest_s,
                                        bool sleeps = false) {
  return std::make_unique<PacedTransport>(std::move(inner), std::make_shared<Pace>(std::move(rest_s), sleeps));
}

/// Computation as long as the model says, on virtual time, where what it really takes does not pass, or on real time,
/// where it does and the rank sleeps for the rest.
inline std::unique_ptr<Transport> with_model(std::unique_ptr<Transport> inner, const StepModel& model,
                                             bool virtual_time) {
  const auto clock = std::make_shared<StepClock>(model, inner->rank());
  const auto rest_s = [=](double passed_s) { return clock->next() - (virtual_time ? 0 : passed_s); };
  return paced(std::move(inner), rest_s, !virtual_time);
}

}  // namespace petaflow::perf
