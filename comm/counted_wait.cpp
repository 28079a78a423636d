#include "comm/counted_wait.hpp"

#include <algorithm>

namespace petaflow {

void counted_wait(Transport& transport, const std::function<bool()>& over, const std::function<int()>& peer,
                  const CountWait& count, const char* call) {
  if (over()) return;
  double last_s = transport.now_s();
  const auto poll = [&] {
    const int rank = peer();
    const bool is_over = over();
    const double now_s = transport.now_s();
    count(rank, now_s - last_s);
    last_s = now_s;
    return is_over;
  };
  transport.wait(std::ref(poll), call);  // a reference fits into std::function without memory
}

CountedMeeting::CountedMeeting(Communicator& comm, int most)
    : comm_(comm), numbers_(comm.size() == 1 || comm.size() > most ? 0 : static_cast<std::size_t>(comm.size())) {
  constexpr std::size_t kRounds = 64;  // of a sum, at most: each has another partner
  waits_.reserve(kRounds);
}

void CountedMeeting::arrive(std::span<double> numbers) const {
  std::ranges::fill(numbers, 0.0);
  if (numbers_ == 0 || left_s_ < 0) return;
  numbers[static_cast<std::size_t>(comm_.rank())] = comm_.transport().now_s() - left_s_;
}

void CountedMeeting::wait(Reduction<double>& sum, std::span<const double> numbers,
                          const std::function<void()>& progress, const CountWait& count) {
  Transport& transport = comm_.transport();
  transport.begin_collective();
  const auto over = [&] {
    if (progress) progress();
    return sum.advance();
  };
  const auto peer = [&sum] { return sum.waits_for(); };
  const auto note = [this](int rank, double seconds) {
    if (waits_.empty() || waits_.back().rank != rank) waits_.push_back({rank, 0});
    waits_.back().seconds += seconds;
  };
  waits_.clear();
  counted_wait(transport, std::ref(over), peer, note, "all-reduce");
  left_s_ = transport.now_s();

  double whole_s = 0, late_s = 0;
  for (const Wait& wait : waits_) whole_s += wait.seconds;
  if (!(whole_s > 0)) return;
  if (numbers_ > 0) {
    const auto slowest = std::ranges::max_element(numbers);
    late_s = std::min(whole_s, *slowest - numbers[static_cast<std::size_t>(comm_.rank())]);
    if (late_s > 0) count(static_cast<int>(slowest - numbers.begin()), late_s);
  }
  for (const Wait& wait : waits_) count(wait.rank, wait.seconds * (1 - late_s / whole_s));
}

}  // namespace petaflow
