// A worker's side of a run with parameter servers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/slice.hpp"
#include "comm/agree.hpp"
#include "comm/communicator.hpp"
#include "servers/protocol.hpp"
#include "servers/serve.hpp"

namespace petaflow {

struct Parameter;

/// The parameters of each layer, in their order: [begin, end) of a flat array.  Where the layout cuts layers, those
/// that are larger than the mean of what servers keep are as many parts as make none larger.
std::vector<Slice> layers_of(const std::vector<Parameter>& parameters, const ServerLayout& layout = {});

/// What a layer's server did for all groups.
struct LayerService {
  /// Of all gradients, from the start of a push until its sender sees that the weights that answer it are there, and of
  /// that, where the sender did nothing but wait for servers.
  struct Times {
    double under_way_s = 0, exposed_s = 0;
  };

  std::string layer;
  std::vector<std::int64_t> staleness;  // gradients with each, from 0 on
  /// Gradients, of any layer, that were at the server when one of this layer was applied: the sum, and the most.
  std::int64_t queue_sum = 0, queue_most = 0;
  std::int64_t elements = 0;  // of a gradient, and as many weights that come back
  Times times;

  std::int64_t gradients() const { return std::accumulate(staleness.begin(), staleness.end(), std::int64_t{0}); }
};

class ServerSession {
 public:
  /// @param all      workers, then servers
  /// @param group    the members of this worker's group
  /// @param serving  of a server inside this worker, which serve() moves on
  ServerSession(std::unique_ptr<Transport> all, const ServerLayout& layout, Communicator& group,
                const ServeOptions& serving = {});

  const ServerLayout& layout() const { return layout_; }
  int group() const { return layout_.group_of(all_->rank()); }

  /// Tells the servers who the parameters are, and the momentum of updates.  On all workers, with nothing under way;
  /// where they are connected, servers begin anew.
  void connect(const std::vector<Parameter>& parameters, double momentum = Control::kFromOptions);
  /// @param names  of the layers
  void connect(std::span<const ServedParameter> parameters, std::vector<std::string> names,
               double momentum = Control::kFromOptions);
  /// The workers form these groups from now on, which are to connect.  On all workers, with nothing under way.
  /// @param layout  other groups of the same workers, beside servers on ranks of their own
  void regroup(const ServerLayout& layout, Communicator& group);
  /// Takes leave: servers end with this code.  On all workers, once, with nothing under way.  A worker with a server
  /// inside waits until all have taken leave of that.
  void end(int exit_code);
  /// Lets a server inside this worker go on with what has come; elsewhere nothing happens.
  void serve(Server::Progress progress);

  // ---- Layers of this member: those of ServerLayout::owner_of() ----

  /// Starts a message about the layer that begins there; values come and go in host memory.
  /// @param from  where the message brings values, as many as values_with() says
  /// @param to    where it takes some, may be `from`
  void start(std::int64_t begin, const LayerHeader& header, const float* from, float* to);
  /// Waits for its answer, while all others move on.
  /// @param progress  called while it waits; may be empty
  const LayerHeader& wait(std::int64_t begin, const std::function<void()>& progress = {});
  /// Sends a gradient; wait() gives the weights.
  void push(std::int64_t begin, std::int64_t ticket, float learning_rate, const float* gradient, float* weights);
  /// Of the layer that begins there.
  const std::string& layer_name(std::int64_t begin) { return names_[layer_at(begin).number]; }
  /// Seconds in which this worker waited for each server.
  const std::vector<double>& waited_s() const { return waited_s_; }
  /// Of each layer, in their order, on worker 0.  On all workers.
  std::vector<LayerService> service(Communicator& workers) const;

  // ---- Tickets: on all members of the group alike ----

  struct Lease {
    std::optional<std::int64_t> ticket;  // none: there is no other one
    bool settled = false;                // all before `until` are done, by all groups
    std::int64_t until = 0;
    int stop = 0;                // StopRequest of any group
    std::vector<double> losses;  // of the next tickets that any group has done, in their order; on worker 0
  };
  /// Says that a ticket is done (report.done) or asks for the first ones; waits, where the group has none and gets
  /// none, until all groups have settled.  Throws the AgreedError of another group that failed.
  Lease report(const TicketReport& report);
  /// Tells all groups that this one failed, so that none waits for it any more, and throws the AgreedError that all
  /// throw.
  [[noreturn]] void fail(const AgreedError& error);

 private:
  struct Layer {
    std::size_t number = 0;
    Slice slice;
    std::string calls[2];  // "push of conv4 to server 2 (rank 6)", "asking server 2 (rank 6) for conv4"
    LayerHeader sent, answer;
    float* to = nullptr;
    double start_s = 0;
    bool started = false, answered = false;  // answered: its header has come
    std::size_t values() const { return values_with(sent, static_cast<std::size_t>(slice.size())); }
    Transport::Message out_header = Transport::kNone, out_values = Transport::kNone, in = Transport::kNone;
  };
  Layer& layer_at(std::int64_t begin);
  void leave();
  TicketAnswer ask(const TicketReport& report, std::vector<double>& losses);
  /// Whether its answer has come.
  bool advance(Layer& layer);
  bool leads() const { return group_->rank() == 0; }
  void send(std::span<const std::byte> bytes, int server, Tag tag, const char* call);
  void receive(std::span<std::byte> bytes, int server, Tag tag, const char* call);
  void wait_for(int server, const std::function<bool()>& over, const char* call);

  std::unique_ptr<Transport> all_;
  ServerLayout layout_;
  Communicator* group_;
  std::unique_ptr<Server> colocated_;  // of this rank; null: there is none
  std::string coordinator_call_;       // "asking the coordinator (rank 8) for a step"
  bool connected_ = false;
  std::int64_t tickets_ = 0;   // that the group has
  double waits_since_s_ = -1;  // in wait(); negative: elsewhere
  std::vector<double> waited_s_;
  std::vector<std::string> names_;      // of all layers: "conv4"
  std::vector<Layer> layers_;           // of this member
  std::vector<LayerService> services_;  // of all layers, to this member
};

}  // namespace petaflow
