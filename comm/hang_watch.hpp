// Finds out who is missing where ranks wait for each other too long; seen by mpi.cpp only.
//
// A rank that has waited for the time limit tells three witnesses, ranks far apart.  A witness that hears of it, or has
// waited that long itself, calls the roll: every rank that waits in some operation answers with the operation's number.
// Who does not answer, or is in another operation, is missing.  The lowest witness that is there speaks and ends the
// run.  The messages travel on a communicator of their own, sent by the threads that wait.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include <mpi.h>

#include "comm/transport.hpp"

namespace petaflow {

class HangWatch {
 public:
  /// Collective over `comm`, of which it keeps a duplicate.
  explicit HangWatch(MPI_Comm comm);
  ~HangWatch();
  HangWatch(const HangWatch&) = delete;
  HangWatch& operator=(const HangWatch&) = delete;

  void set_options(HangOptions options) { options_ = std::move(options); }
  const HangOptions& options() const { return options_; }

  /// An operation of all ranks begins.
  void begin_collective() { ++operation_; }
  /// Waits until over(), or until now_s() reaches `until_s`.
  /// @param call  "all-reduce"
  void wait(const std::function<bool()>& over, const char* call, double until_s);
  static double now_s();

 private:
  struct Note {
    std::int64_t operation = -1;  // negative: nothing was heard
    bool late = false;            // the limit is close: the run is to end
    char text[120] = "";          // "summing gradients of step 12 (all-reduce)"
  };
  struct Sent {
    Note note;
    MPI_Request request;
  };
  enum Tag { kNote, kRollCall, kEnd };
  class LongWait;

  void send(const Note& note, int to, Tag tag);
  void send_to_all(const Note& note, Tag tag);
  /// Takes what has come; true where another rank has waited too long in this operation.
  bool listen(const Note& own);
  /// Takes what has come at the other watches, where this rank is in none of their operations.
  void listen_elsewhere(Note own) const;
  std::string missing(const Note& own) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::vector<std::string> hosts_;  // of all ranks
  std::vector<int> witnesses_;
  HangOptions options_;
  std::int64_t operation_ = 0;
  std::deque<Sent> sent_;
  std::vector<Note> roll_;  // on a witness that has called it: by rank
  bool ended_ = false;      // a rank has spoken and ends the run

  /// All of this process: who waits among some ranks answers others, too.
  static std::vector<HangWatch*>& watches();
};

}  // namespace petaflow
