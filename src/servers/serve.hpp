// A parameter server: what it does with messages, on a rank of its own or inside a worker.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/transport.hpp"
#include "servers/coordinator.hpp"
#include "servers/layer_store.hpp"
#include "servers/protocol.hpp"
#include "servers/served_layer.hpp"

namespace petaflow {

struct ServeOptions {
  MakeLayerStore make_layer;  // optimized_layers()
  ServingOrder order = {};
  /// Called for every gradient after its update, with the layer's number; may be empty.
  std::function<void(std::size_t layer, int group, const LayerHeader& header)> updated = {};
  HangOptions hangs = {};               // of the coordinator, for groups that report no more
  std::vector<std::string> hosts = {};  // of all ranks, for messages; may be empty
};

/// Keeps this server's layers, and on the first server the coordinator, from when the workers connect until they end,
/// anew each time that they connect.  It never waits, so that a worker can have one inside.
class Server {
 public:
  /// How far serve() goes: inside a parallel loop, where no kernel can be launched, messages move on and gradients
  /// wait.
  enum class Progress : std::uint8_t { kMessagesOnly, kMessagesAndUpdates };

  /// @param all     workers, then servers where they are ranks of their own
  /// @param layout  the number of groups is that of the workers who connect
  Server(Transport& all, const ServerLayout& layout, const ServeOptions& options);

  /// Goes on with all that has come, but with no more than one message of each group about each layer, so that whoever
  /// calls gets on, too.  Whether all workers have ended.
  bool serve(Progress progress);
  /// That they ended with.
  int exit_code() const { return control_.exit_code; }

 private:
  /// A layer's messages from and to one group.
  struct LayerChannel {
    enum class State : std::uint8_t { kHeader, kValues, kHeld, kAnswer, kEnded };
    std::size_t layer = 0;  // number in the network
    ServedLayer* served = nullptr;
    int group = 0, owner = 0;
    State state = State::kHeader;
    std::int64_t taken_in = 0;  // serve() that took its last message
    LayerHeader header;
    std::size_t elements = 0;
    std::vector<float> values;                     // none where the layer has none
    std::array<Transport::Message, 2> messages{};  // header, values
  };
  /// A group's reports and their answers.
  struct ReportChannel {
    enum class State : std::uint8_t { kReport, kHeld, kAnswer, kEnded };
    int leader = 0;
    State state = State::kReport;
    TicketReport report;
    Coordinator::Reply reply;
    std::array<Transport::Message, 2> messages{};  // answer, losses
  };

  void poll_control();
  void connect();
  bool all_ended() const;
  void expect(LayerChannel& channel);
  void expect(ReportChannel& channel);
  /// That go with its header.
  static std::span<float> values_of(LayerChannel& channel);
  template <class Channel>
  bool done(Channel& channel);
  /// Whether it went on.
  bool advance(LayerChannel& channel, Progress progress);
  bool advance(ReportChannel& channel);
  std::int64_t gradients_here();
  void take(LayerChannel& channel);
  void answer(Coordinator::Reply reply);
  void pass_time();
  std::string describe(int rank) const;
  void notice_silence();

  Transport& all_;
  ServerLayout layout_;
  int number_;
  ServeOptions options_;
  Coordinator coordinator_;
  Control control_;
  Transport::Message control_message_ = Transport::kNone;  // or of the parameters, where it waits for them
  std::vector<ServedParameter> described_;                 // that follow the last control; none: it waits for one
  std::vector<std::unique_ptr<ServedLayer>> served_;
  std::vector<LayerChannel> layers_;
  std::vector<ReportChannel> reports_;
  std::size_t turn_ = 0;
  std::int64_t calls_ = 0;  // of serve()
  /// The clock of reports: time in which this server answers, so that none is late where itself was away.
  double watched_s_ = 0, looked_s_ = 0;
  bool ended_ = false;
};

/// A server on a rank of its own; the exit code that the workers end with.
int serve(Transport& all, const ServerLayout& layout, const ServeOptions& options);

}  // namespace petaflow
