// The ranks of a run as fibers of one process, on virtual time: the same communication code as under MPI, which go on
// at the same time in an order that a seed decides, or by rank.  A rank's own computation takes no time but what it
// says by Transport::work().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "comm/transport.hpp"
#include "simulate/network_model.hpp"

namespace petaflow {

struct VirtualOptions {
  std::size_t eager_bytes = 4096;  // a send up to this size is over at once; of a larger one its receive must be posted
  int ranks_per_node = 1;
  std::optional<std::uint64_t> seed = 0;  // order in which ranks go on at the same time; none: by rank
  std::size_t stack_bytes = 256 * 1024;   // of a rank
  double byte_added_s = 0;                // Transport::work_on(): seconds for each byte
};

class VirtualWorld {
 public:
  /// @param network  must outlive the world
  VirtualWorld(int ranks, NetworkModel& network, const VirtualOptions& options);
  ~VirtualWorld();
  VirtualWorld(const VirtualWorld&) = delete;
  VirtualWorld& operator=(const VirtualWorld&) = delete;

  /// Calls rank_main on each rank, until all have returned.  Throws the first exception of any of them, or a failure
  /// that names who waits where all wait for messages that nobody sends; the world cannot run again then.
  void run(const std::function<void(std::unique_ptr<Transport>)>& rank_main);

  double now_s() const;
  /// Messages that have been sent.
  std::int64_t messages() const;
  /// Messages that have been sent, and never received: 0 after a run where every send has its receive.
  std::int64_t messages_left() const;
  /// The most bytes at any time of messages to one rank that had come before their receive was posted.
  std::size_t most_unexpected_bytes() const;

 private:
  friend class VirtualTransport;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace petaflow
