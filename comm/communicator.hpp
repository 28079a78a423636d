// The interface by which the ranks of one training run exchange data; the transports are in self.cpp and mpi.cpp.
// Source: the collective operations of the MPI standard 3.1, chapter 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace petaflow {

/// The transport itself fails: nothing can be agreed with the other ranks any more.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(ErrorKind::kFailure, message) {}
};

/// Limits and messages of ranks that wait for each other.
struct HangOptions {
  double limit_s = 0;  // a rank that waits so long ends all of them with kHangExitCode; 0: never
  /// Whether this process has been told to end; a rank that goes on waiting then says for whom.  May be empty.
  std::function<bool()> interrupted = {};
  /// Takes one line on the rank that speaks.
  std::function<void(const std::string&)> say = {};
};
inline constexpr int kHangExitCode = 2;

/// A group of ranks.  Every collective is called by all ranks in the same order; arrays are host memory.
/// Every function throws a CommError naming the call where the transport reports an error.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Number of the ranks that share this machine's memory.
  virtual int node_size() const = 0;

  /// values = sum over ranks, the same bits on all of them.
  virtual void all_reduce_sum(std::span<float> values) = 0;
  virtual void all_reduce_sum(std::span<double> values) = 0;
  virtual void all_reduce_max(std::span<double> values) = 0;

  /// Starts values = sum over ranks; the array is not touched until it has been waited for.
  virtual void start_all_reduce_sum(std::span<float> values) = 0;
  /// Lets started operations move on (MPI moves data only inside its calls); true when all of them are done.
  virtual bool progress() = 0;
  /// Completes the sum that was started first of those not waited for yet, that of `values`.
  virtual void wait_all_reduce_sum(std::span<float> values) = 0;

  /// Blocking transfer of one array between two ranks.
  virtual void send(std::span<const float> values, int to) = 0;
  virtual void receive(std::span<float> values, int from) = 0;

  /// bytes of `root` to everyone.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// The bytes of every rank, in order of rank, on rank 0; empty elsewhere.
  virtual std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes) = 0;

  /// The ranks that call it with the same number, in the order of their ranks here, watched as these are.  Collective.
  virtual std::unique_ptr<Communicator> split(int group) = 0;

  virtual void barrier() = 0;
  /// From now on a rank that waits too long finds out who is missing, says so, and ends all ranks.
  virtual void watch_hangs(HangOptions options) = 0;
  /// Ends all ranks at once, for a rank that fails where the others cannot be asked.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

/// The texts of every rank on rank 0; empty elsewhere.
std::vector<std::string> gather_text(Communicator& comm, const std::string& text);
/// The text of rank 0 on every rank.
std::string broadcast_text(Communicator& comm, const std::string& text);

/// All ranks of MPI where it runs with more than one, this rank alone elsewhere.  Collective.
std::unique_ptr<Communicator> make_communicator();

/// "Open MPI v4.1.4": what is linked at run time.
std::string mpi_library();

/// Starts MPI and ends it, unless somebody else has started it; nothing that communicates may outlive it.
class MpiSession {
 public:
  /// Throws a failure where MPI cannot start or does not give calls from the main thread (MPI_THREAD_FUNNELED).
  MpiSession(int* argc, char*** argv);
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

 private:
  bool owned_ = false;
};

}  // namespace petaflow
