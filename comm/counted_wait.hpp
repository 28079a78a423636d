// How long a rank does nothing but wait, and for whom.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/reduction.hpp"
#include "comm/transport.hpp"

namespace petaflow {

/// Takes seconds in which this rank waited for another one; negative: the medium does not say for whom.
using CountWait = std::function<void(int rank, double seconds)>;

/// Waits until over(), and counts all the time that passes until then.
/// @param peer  the rank whose message over() needs to go on; negative: the medium does not say
/// @param call  as in Transport::wait()
void counted_wait(Transport& transport, const std::function<bool()>& over, const std::function<int()>& peer,
                  const CountWait& count, const char* call);

/// Adds to seconds by rank, behind which are those where the medium does not say for whom.
inline void add_wait(std::span<double> waited_s, int rank, double seconds) {
  waited_s[rank < 0 ? waited_s.size() - 1 : static_cast<std::size_t>(rank)] += seconds;
}

/// Waits, again and again, for sums in which ranks tell each other how long they took from the end of one wait to the
/// start of the next sum.  So all know for whom they waited in the end: a message may be late because its sender waits
/// for another rank, and MPI's own sums name nobody.  Ranks end a wait at nearly the same time, whatever their clocks
/// say.
class CountedMeeting {
 public:
  static constexpr int kMostTimed = 64;  // ranks of a group, so that a step's sum stays small

  /// @param most  of more ranks none tells: the wait is then for those whose messages are late
  CountedMeeting(Communicator& comm, int most);

  /// Of the sum that are theirs.
  std::size_t numbers() const { return numbers_; }
  /// Before the sum starts.
  /// @param numbers  (numbers())
  void arrive(std::span<double> numbers) const;
  /// Waits for the sum, and counts: for the rank that took longest, as far as it took longer than this one, and for
  /// messages.
  /// @param progress  called while it waits; may be empty
  void wait(Reduction<double>& sum, std::span<const double> numbers, const std::function<void()>& progress,
            const CountWait& count);

 private:
  struct Wait {
    int rank = -1;
    double seconds = 0;
  };

  Communicator& comm_;
  std::size_t numbers_;
  double left_s_ = -1;       // the time at which the last wait ended; negative: there was none
  std::vector<Wait> waits_;  // of this one
};

}  // namespace petaflow
