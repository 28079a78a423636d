#include "comm/hang_watch.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "base/activity.hpp"
#include "comm/mpi.hpp"

namespace petaflow {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Waits of the ranks of a node for each other that are usual: not looked into.
constexpr double kUnsuspicious_s = 0.25;
// Between looks at messages of ranks that wait.  Neither is measured: longer than the messages of a step take, short
// beside any limit.
constexpr double kListen_s = 0.02;
constexpr double kNever = 1e30;

}  // namespace

HangWatch::HangWatch(MPI_Comm comm) {
  check_mpi(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  check_mpi(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  std::vector<char> names(name.size() * static_cast<std::size_t>(size_));
  const int count = static_cast<int>(name.size());
  check_mpi(MPI_Allgather(name.data(), count, MPI_CHAR, names.data(), count, MPI_CHAR, comm_), "MPI_Allgather");
  for (int rank = 0; rank < size_; ++rank) hosts_.emplace_back(names.data() + rank * count);
  for (const int witness : {0, size_ / 3, 2 * size_ / 3}) {
    if (witnesses_.empty() || witness > witnesses_.back()) witnesses_.push_back(witness);
  }
  watches().push_back(this);
}

std::vector<HangWatch*>& HangWatch::watches() {
  static std::vector<HangWatch*> all;
  return all;
}

HangWatch::~HangWatch() {
  std::erase(watches(), this);
  if (!mpi_is_running()) return;
  for (Sent& sent : sent_) {  // to ranks that never listened
    MPI_Cancel(&sent.request);
    MPI_Wait(&sent.request, MPI_STATUS_IGNORE);
  }
  MPI_Comm_free(&comm_);
}

void HangWatch::send(const Note& note, int to, Tag tag) {
  while (!sent_.empty()) {
    int done = 0;
    check_mpi(MPI_Test(&sent_.front().request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) break;
    sent_.pop_front();
  }
  Sent& sent = sent_.emplace_back(note, MPI_REQUEST_NULL);
  check_mpi(MPI_Isend(&sent.note, sizeof sent.note, MPI_BYTE, to, tag, comm_, &sent.request), "MPI_Isend");
}

void HangWatch::send_to_all(const Note& note, Tag tag) {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) send(note, rank, tag);
  }
}

bool HangWatch::listen(const Note& own) {
  bool trouble = false;
  for (int there = 1; there != 0;) {
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &there, &status), "MPI_Iprobe");
    if (there == 0) break;
    Note note;
    check_mpi(MPI_Recv(&note, sizeof note, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm_, MPI_STATUS_IGNORE),
              "MPI_Recv");
    if (status.MPI_TAG == kRollCall) {
      send(own, status.MPI_SOURCE, kNote);
    } else if (status.MPI_TAG == kEnd) {
      ended_ = true;
    } else {
      if (!roll_.empty()) roll_[static_cast<std::size_t>(status.MPI_SOURCE)] = note;
      trouble = trouble || (note.late && note.operation == operation_);
    }
  }
  return trouble;
}

void HangWatch::listen_elsewhere(Note own) const {
  own.operation = std::numeric_limits<std::int64_t>::max();
  for (HangWatch* other : watches()) {
    if (other != this) other->listen(own);
  }
}

// "rank 3 (node1), rank 7 (node2), and 12 more; rank 5 (node2) is in another operation: validation (broadcast)"
std::string HangWatch::missing(const Note& own) const {
  constexpr int kNamed = 8;
  std::string absent, elsewhere;
  int count = 0;
  for (int rank = 0; rank < size_; ++rank) {
    const Note& note = roll_[static_cast<std::size_t>(rank)];
    if (rank == rank_ || note.operation == own.operation) continue;
    if (++count > kNamed) continue;
    const std::string name = fmt::format("rank {} ({})", rank, hosts_[static_cast<std::size_t>(rank)]);
    if (note.operation < 0) {
      absent += (absent.empty() ? "" : ", ") + name;
    } else {
      elsewhere += fmt::format("; {} is in another operation: {}", name, note.text);
    }
  }
  std::string text = absent;
  if (absent.empty()) {
    text = elsewhere.empty() ? "nobody, all are in this operation, as where a message was lost" : "nobody";
  }
  if (count > kNamed) text += fmt::format(", and {} more", count - kNamed);
  return text + elsewhere;
}

double HangWatch::now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

/// One wait in an operation that takes longer than is usual: hears others, and raises an alarm, calls the roll and
/// speaks when it is time.  All times are seconds waited.
class HangWatch::LongWait {
 public:
  LongWait(HangWatch& watch, const char* call) : watch_(watch), own_{watch.operation_, false, ""} {
    const Activity::Current& activity = Activity::current();
    const auto written =
        activity.step < 0
            ? fmt::format_to_n(text_.data(), text_.size(), "{} ({})", activity.what, call)
            : fmt::format_to_n(text_.data(), text_.size(), "{} of step {} ({})", activity.what, activity.step, call);
    where_ = {text_.data(), static_cast<std::size_t>(written.out - text_.data())};
    own_.text[where_.copy(own_.text, sizeof own_.text - 1)] = '\0';
    watch_.roll_.clear();
  }

  /// Called every kListen_s.
  void look(double waited_s) {
    waited_s_ = waited_s;
    watch_.listen_elsewhere(own_);
    notice_interruption();
    if (watch_.options_.one_peer) return wait_for_one();
    raise_alarm();
    call_if_due();
    speak_if_due();
  }

 private:
  void notice_interruption() {
    if (interrupted_ || late_ || !watch_.options_.interrupted || !watch_.options_.interrupted()) return;
    interrupted_ = true;  // the launcher gives us about a second
    alarm_s_ = waited_s_ + 0.1;
    speech_s_ = waited_s_ + 0.3;
  }

  /// There is no roll to call: `where_` names the rank.
  void wait_for_one() {
    late_ = waited_s_ >= limit_s_;
    if ((!late_ && !interrupted_) || spoken_) return;
    spoken_ = true;
    say(fmt::format("has waited {:.1f} s for an answer, {}", waited_s_, where_));
    if (late_) MPI_Abort(MPI_COMM_WORLD, kHangExitCode);
  }

  /// The limit is close, here or, on a witness, elsewhere.
  void raise_alarm() {
    const bool others_late = watch_.listen(own_) && witness_;
    if (late_ || (!others_late && waited_s_ < limit_s_ - grace_s_)) return;
    late_ = own_.late = true;
    alarm_s_ = waited_s_;
    speech_s_ = waited_s_ + grace_s_;
    told_ = spoken_ = false;
  }

  /// Tells the witnesses, and calls the roll as one of them.
  void call_if_due() {
    if (waited_s_ < alarm_s_ || told_) return;
    told_ = true;
    if (witness_) {
      watch_.roll_.resize(static_cast<std::size_t>(watch_.size_));
      watch_.send_to_all(own_, kRollCall);
    }
    for (const int to : watch_.witnesses_) {
      if (to != watch_.rank_) watch_.send(own_, to, kNote);
    }
  }

  /// Says who is missing, and ends the run where the limit is close.
  void speak_if_due() {
    if (waited_s_ < speech_s_ || spoken_ || watch_.ended_) return;
    const auto speaks_first = [&](int rank) {
      return rank < watch_.rank_ && watch_.roll_[static_cast<std::size_t>(rank)].operation >= 0;
    };
    const bool others_speak = !witness_ || std::ranges::any_of(watch_.witnesses_, speaks_first);
    if (others_speak && waited_s_ < speech_s_ + 2 * grace_s_) return;  // should they fail to, we do
    spoken_ = true;
    say(fmt::format("has waited {:.1f} s for other ranks, {}; missing: {}", waited_s_, where_,
                    witness_ ? watch_.missing(own_) : "unknown, no rank answers"));
    if (!late_) return;  // whoever interrupted us ends the run
    watch_.send_to_all(own_, kEnd);
    MPI_Abort(MPI_COMM_WORLD, kHangExitCode);
  }

  void say(const std::string& what) const {
    const std::string& host = watch_.hosts_[static_cast<std::size_t>(watch_.rank_)];
    watch_.options_.say(fmt::format("rank {} ({}) {}", watch_.rank_, host, what));
  }

  HangWatch& watch_;
  Note own_;                    // to other ranks
  std::array<char, 512> text_;  // instead of a string: steps ask for no memory, also where they wait
  std::string_view where_;      // "summing gradients of step 12 (all-reduce)"
  const bool witness_ = std::ranges::find(watch_.witnesses_, watch_.rank_) != watch_.witnesses_.end();
  const double limit_s_ = watch_.options_.limit_s > 0 ? watch_.options_.limit_s : kNever;
  const double grace_s_ = std::min(2.0, limit_s_ / 4);  // the roll is called so long before the limit
  double waited_s_ = 0;
  double alarm_s_ = kNever, speech_s_ = kNever;  // when the roll is called, and when to speak
  bool interrupted_ = false;                     // this process was told to end
  bool late_ = false;                            // the run is to end
  bool told_ = false;                            // the alarm was passed on
  bool spoken_ = false;
};

void HangWatch::wait(const std::function<bool()>& over, const char* call, double until_s) {
  const auto done = [&] { return over() || (until_s < 1e300 && now_s() >= until_s); };
  const Clock::time_point start = Clock::now();
  while (true) {
    for (int test = 0; test < 100; ++test) {
      if (done()) return;
      sched_yield();
    }
    if (seconds_since(start) > kUnsuspicious_s) break;
  }
  LongWait long_wait(*this, call);
  double looked_s = 0;
  while (!done()) {
    sched_yield();
    const double waited_s = seconds_since(start);
    if (waited_s < looked_s + kListen_s) continue;
    looked_s = waited_s;
    long_wait.look(waited_s);
  }
}

}  // namespace petaflow
