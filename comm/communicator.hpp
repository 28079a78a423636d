// The ranks of one training run and their collective operations, over any transport.
// Source: the collective operations of the MPI standard 3.1, chapter 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/reduction.hpp"
#include "comm/transport.hpp"

namespace petaflow {

/// A group of ranks.  Every collective is called by all ranks in the same order; arrays are host memory.
/// Every function throws a CommError naming the call where the transport reports an error.
class Communicator {
 public:
  /// This rank alone.
  Communicator() : Communicator(make_self_transport()) {}
  explicit Communicator(std::unique_ptr<Transport> transport);

  std::string name() const { return transport_->name(); }
  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  /// Number of the ranks that share this machine's memory.
  int node_size() const;

  /// values = sum over ranks, the same bits on all of them.
  void all_reduce_sum(std::span<double> values);
  void all_reduce_max(std::span<double> values);

  /// A sum of so many numbers that goes on beside other operations.  Collective.
  std::unique_ptr<Reduction<double>> make_sum(std::int64_t elements);

  /// bytes of `root` to everyone.
  void broadcast(std::span<std::byte> bytes, int root);
  /// The bytes of every rank, in order of rank, on rank 0; empty elsewhere.
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes);

  /// The ranks that call it with the same number, in the order of their ranks here, watched as these are.  Collective.
  std::unique_ptr<Communicator> split(int group);

  void barrier();
  /// From now on a rank that waits too long finds out who is missing, says so, and ends all ranks.
  void watch_hangs(HangOptions options) { transport_->watch_hangs(std::move(options)); }
  /// Ends all ranks at once, for a rank that fails where the others cannot be asked.
  [[noreturn]] void abort(int exit_code);

  Transport& transport() { return *transport_; }
  /// The tag of operations that wait; new_tag() gives those of others.
  static constexpr Tag kWaitingTag{0};
  /// A tag for operations that go on beside others, the same on all ranks that ask for as many.
  Tag new_tag();

 private:
  void all_reduce(std::span<double> values, ReduceOp operation);

  std::unique_ptr<Transport> transport_;
  int tags_ = 0;
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
