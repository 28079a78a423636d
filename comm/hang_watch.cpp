#include "comm/hang_watch.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
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
// Between looks at messages of ranks that wait.
constexpr double kListen_s = 0.02;

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

// "rank 3 (node1), rank 7 (node2), and 12 more; rank 5 (node2) is in broadcast, validation of step 12"
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
  std::string text = absent.empty() ? "nobody" : absent;
  if (count > kNamed) text += fmt::format(", and {} more", count - kNamed);
  return text + elsewhere;
}

double HangWatch::now_s() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

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

  // The roll is called so early that the run ends when the limit is reached.
  const double limit_s = options_.limit_s > 0 ? options_.limit_s : 1e30;
  const double grace_s = std::min(2.0, limit_s / 4);
  double alarm_s = 1e30, speech_s = 1e30;
  const Activity::Current& activity = Activity::current();
  Note own{operation_, false, ""};
  const std::string where = activity.step < 0 ? fmt::format("{} ({})", activity.what, call)
                                              : fmt::format("{} of step {} ({})", activity.what, activity.step, call);
  own.text[where.copy(own.text, sizeof own.text - 1)] = '\0';
  const bool witness = std::ranges::find(witnesses_, rank_) != witnesses_.end();
  roll_.clear();
  bool told = false, interrupted = false, spoken = false, late = false;
  double listened_s = 0;
  while (!done()) {
    sched_yield();
    const double waited_s = seconds_since(start);
    if (waited_s < listened_s + kListen_s) continue;
    listened_s = waited_s;
    listen_elsewhere(own);
    if (!interrupted && !late && options_.interrupted && options_.interrupted()) {
      interrupted = true;  // the launcher gives us about a second
      alarm_s = waited_s + 0.1;
      speech_s = waited_s + 0.3;
    }
    if (options_.one_peer) {
      late = waited_s >= limit_s;
      if ((!late && !interrupted) || spoken) continue;
      spoken = true;
      options_.say(fmt::format("rank {} ({}) has waited {:.1f} s for an answer, {}", rank_,
                               hosts_[static_cast<std::size_t>(rank_)], waited_s, where));
      if (late) MPI_Abort(MPI_COMM_WORLD, kHangExitCode);
      continue;
    }
    const bool others_late = listen(own) && witness;
    if (!late && (others_late || waited_s >= limit_s - grace_s)) {
      late = own.late = true;
      alarm_s = waited_s;
      speech_s = waited_s + grace_s;
      told = spoken = false;
    }
    if (waited_s >= alarm_s && !told) {
      told = true;
      if (witness) {
        roll_.resize(static_cast<std::size_t>(size_));
        send_to_all(own, kRollCall);
      }
      for (const int to : witnesses_) {
        if (to != rank_) send(own, to, kNote);
      }
    }
    if (waited_s < speech_s || spoken || ended_) continue;
    const auto here = [&](int rank) { return rank < rank_ && roll_[static_cast<std::size_t>(rank)].operation >= 0; };
    if (witness && std::ranges::any_of(witnesses_, here)) {  // it speaks; should it fail to, we do
      if (waited_s < speech_s + 2 * grace_s) continue;
    } else if (!witness && waited_s < speech_s + 2 * grace_s) {
      continue;
    }
    spoken = true;
    options_.say(fmt::format("rank {} ({}) has waited {:.1f} s for other ranks, {}; missing: {}", rank_,
                             hosts_[static_cast<std::size_t>(rank_)], waited_s, where,
                             witness ? missing(own) : "unknown, no rank answers"));
    if (!late) continue;  // whoever interrupted us ends the run
    send_to_all(own, kEnd);
    MPI_Abort(MPI_COMM_WORLD, kHangExitCode);
  }
}

}  // namespace petaflow
