// A rank's part in a run with parameter servers: worker, server, or both.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "comm/communicator.hpp"
#include "servers/protocol.hpp"
#include "servers/serve.hpp"
#include "servers/session.hpp"

namespace petaflow {

class ServedRank {
 public:
  /// Collective.
  /// @param all      as many as the layout has; must outlive this
  /// @param serving  its hangs are of all messages between workers and servers.  A server on a rank of its own waits as
  ///                 long as workers work; the first one knows when a group reports no more
  ServedRank(Communicator& all, const ServerLayout& layout, const ServeOptions& serving);
  ServedRank(const ServedRank&) = delete;
  ServedRank& operator=(const ServedRank&) = delete;

  /// Whether it trains.  Where it does not it serves until the workers end; the exit code that they end with.
  bool works() const { return layout_.works(rank_); }
  int serve();

  // ---- Of a worker.  Whatever waits in these lets a server inside go on. ----

  Communicator& workers() { return *workers_; }
  Communicator& group() { return *group_; }
  ServerSession& session() { return *session_; }
  /// The workers form these groups from now on, which are to connect: group() is another one.  Collective among the
  /// workers, with nothing under way.
  /// @param layout  as for ServerSession::regroup()
  void regroup(const ServerLayout& layout);

 private:
  int rank_;
  ServerLayout layout_;
  ServeOptions serving_;
  std::shared_ptr<std::function<void()>> poll_;  // by all that waits
  std::unique_ptr<Transport> messages_;          // of a rank that only serves
  std::unique_ptr<Communicator> workers_, group_;
  std::optional<ServerSession> session_;
};

}  // namespace petaflow
