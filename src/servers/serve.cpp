#include "servers/serve.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "servers/coordinator.hpp"

namespace petaflow {
namespace {

/// A layer's messages from and to one group.
struct LayerChannel {
  enum class State : std::uint8_t { kHeader, kValues, kHeld, kAnswer, kEnded };
  std::size_t layer = 0;  // number in the network
  ServedLayer* served = nullptr;
  int group = 0, owner = 0;
  Tag tag{0};
  State state = State::kHeader;
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

class Server {
 public:
  Server(Transport& all, const ServerLayout& layout, const ServeOptions& options)
      : all_(all), layout_(layout), options_(options), coordinator_(layout.groups, options.order.order) {
    control_message_ = all_.receive(bytes_of(control_), 0, kControlTag);
  }

  int run() {
    all_.wait([this] { return sweep(); }, "serving");
    return control_.exit_code;
  }

 private:
  /// Goes on with all that has come; whether this was the end.
  bool sweep() {
    for (bool moved = true; moved;) {
      moved = false;
      // Turns begin with another one each time, so that no group is always the first.
      for (std::size_t i = 0; i < layers_.size(); ++i) moved = advance(layers_[(i + turn_) % layers_.size()]) || moved;
      turn_ += 1;
      for (ReportChannel& channel : reports_) moved = advance(channel) || moved;
    }
    if (ended_) return all_ended();
    if (!all_.done(control_message_)) return false;
    ended_ = control_.parameters < 0;
    if (!ended_) {
      connect();
      control_message_ = all_.receive(bytes_of(control_), 0, kControlTag);
    }
    return ended_ && all_ended();
  }

  bool all_ended() const {
    const auto ended = [](const auto& channel) {
      return channel.state == std::decay_t<decltype(channel)>::State::kEnded;
    };
    return std::ranges::all_of(layers_, ended) && std::ranges::all_of(reports_, ended);
  }

  void connect() {
    std::vector<ServedParameter> described(static_cast<std::size_t>(control_.parameters));
    Transport::Message message = all_.receive(std::as_writable_bytes(std::span(described)), 0, kControlTag);
    all_.wait([&] { return all_.done(message); }, "hearing of the parameters");
    std::vector<std::vector<ServedParameter>> layers;
    for (const ServedParameter& parameter : described) {
      layers.resize(static_cast<std::size_t>(parameter.layer) + 1);
      layers.back().push_back(parameter);
    }
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      if (layout_.server_of(layer) != all_.rank()) continue;
      served_.push_back(
          std::make_unique<ServedLayer>(options_.make_layer(layers[layer]), layout_.groups, options_.order));
      for (int group = 0; group < layout_.groups; ++group) {
        LayerChannel& channel = layers_.emplace_back();
        channel.layer = layer;
        channel.served = served_.back().get();
        channel.group = group;
        channel.owner = group * layout_.members() + layout_.owner_of(layer);
        channel.tag = layer_tag(layer);
        channel.elements = static_cast<std::size_t>(channel.served->store().elements());
        if (channel.served->store().has_values()) channel.values.resize(channel.elements);
      }
    }
    if (all_.rank() == layout_.coordinator()) {
      reports_.resize(static_cast<std::size_t>(layout_.groups));
      for (int group = 0; group < layout_.groups; ++group) {
        reports_[static_cast<std::size_t>(group)].leader = group * layout_.members();
      }
    }
    for (LayerChannel& channel : layers_) expect(channel);
    for (ReportChannel& channel : reports_) expect(channel);
  }

  void expect(LayerChannel& channel) {
    channel.state = LayerChannel::State::kHeader;
    channel.messages[0] = all_.receive(bytes_of(channel.header), channel.owner, channel.tag);
  }
  void expect(ReportChannel& channel) {
    channel.state = ReportChannel::State::kReport;
    channel.messages[0] = all_.receive(bytes_of(channel.report), channel.leader, kReportTag);
  }

  template <class Channel>
  bool done(Channel& channel) {
    bool over = true;
    for (Transport::Message& message : channel.messages) over = all_.done(message) && over;
    return over;
  }

  /// Whether it went on.
  bool advance(LayerChannel& channel) {
    using State = LayerChannel::State;
    if (channel.state == State::kHeld || channel.state == State::kEnded || !done(channel)) return false;
    const auto values = std::as_writable_bytes(std::span(channel.values.data(), channel.elements));
    switch (channel.state) {
      case State::kHeader:
        if (channel.header.kind == LayerHeader::Kind::kEnd) {
          channel.state = State::kEnded;
          break;
        }
        if (brings_values(channel.header.kind)) {
          channel.state = State::kValues;
          channel.messages[1] = all_.receive(values, channel.owner, channel.tag);
          break;
        }
        [[fallthrough]];
      case State::kValues:
        channel.state = State::kHeld;
        take(channel);
        break;
      default:
        expect(channel);
    }
    return true;
  }

  /// That have come, at least their headers, and are not applied.
  std::int64_t gradients_here() {
    return std::ranges::count_if(layers_, [&](LayerChannel& channel) {
      using State = LayerChannel::State;
      const bool has_header = channel.state == State::kHeader && done(channel);
      return (has_header || channel.state == State::kValues || channel.state == State::kHeld) &&
             channel.header.kind == LayerHeader::Kind::kPush;
    });
  }

  void take(LayerChannel& channel) {
    if (channel.header.kind == LayerHeader::Kind::kPush) channel.header.queue = gradients_here();
    // The channels of a layer's groups are neighbours.
    LayerChannel* const of_layer = &channel - channel.group;
    for (const int group : channel.served->take(channel.group, channel.header, channel.values.data())) {
      LayerChannel& answered = of_layer[group];
      const LayerHeader::Kind kind = answered.header.kind;
      if (kind == LayerHeader::Kind::kPush && options_.updated)
        options_.updated(answered.layer, group, answered.header);
      answered.state = LayerChannel::State::kAnswer;
      answered.messages[0] = all_.send(bytes_of(answered.header), answered.owner, answered.tag);
      if (takes_values(kind)) {
        answered.messages[1] = all_.send(std::as_bytes(std::span(answered.values.data(), answered.elements)),
                                         answered.owner, answered.tag);
      }
    }
  }

  bool advance(ReportChannel& channel) {
    using State = ReportChannel::State;
    if (channel.state == State::kHeld || channel.state == State::kEnded || !done(channel)) return false;
    if (channel.state == State::kAnswer) {
      expect(channel);
      return true;
    }
    if (channel.report.last != 0) {
      channel.state = State::kEnded;
      return true;
    }
    channel.state = State::kHeld;
    const int group = channel.leader / layout_.members();
    for (Coordinator::Reply& reply : coordinator_.take(group, channel.report)) answer(std::move(reply));
    if (channel.report.failed != 0) expect(channel);
    return true;
  }

  void answer(Coordinator::Reply reply) {
    ReportChannel& channel = reports_[static_cast<std::size_t>(reply.group)];
    channel.reply = std::move(reply);
    channel.state = ReportChannel::State::kAnswer;
    channel.messages[0] = all_.send(bytes_of(channel.reply.answer), channel.leader, kAnswerTag);
    if (!channel.reply.losses.empty()) {
      channel.messages[1] = all_.send(std::as_bytes(std::span(channel.reply.losses)), channel.leader, kAnswerTag);
    }
  }

  Transport& all_;
  ServerLayout layout_;
  ServeOptions options_;
  Coordinator coordinator_;
  Control control_;
  Transport::Message control_message_ = Transport::kNone;
  std::vector<std::unique_ptr<ServedLayer>> served_;
  std::vector<LayerChannel> layers_;
  std::vector<ReportChannel> reports_;
  std::size_t turn_ = 0;
  bool ended_ = false;
};

}  // namespace

int serve(Transport& all, const ServerLayout& layout, const ServeOptions& options) {
  return Server(all, layout, options).run();
}

}  // namespace petaflow
