#include "servers/serve.hpp"

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "base/error.hpp"

namespace petaflow {

Server::Server(Transport& all, const ServerLayout& layout, const ServeOptions& options)
    : all_(all),
      layout_(layout),
      number_(layout.server_at(all.rank()).value()),
      options_(options),
      coordinator_(layout.groups, options.order.order) {
  control_message_ = all_.receive(bytes_of(control_), 0, kControlTag);
}

bool Server::serve(Progress progress) {
  calls_ += 1;
  pass_time();
  for (bool moved = true; moved;) {
    moved = false;
    // Turns begin with another one each time, so that no group is always the first.
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      moved = advance(layers_[(i + turn_) % layers_.size()], progress) || moved;
    }
    turn_ += 1;
    for (ReportChannel& channel : reports_) moved = advance(channel) || moved;
  }
  if (progress == Progress::kMessagesAndUpdates) notice_silence();
  if (!ended_) poll_control();
  return ended_;
}

// A control, or the parameters that follow it: of the next connection, or the end, when that before is over.
void Server::poll_control() {
  if (!all_.done(control_message_) || !all_ended()) return;
  if (!described_.empty()) {
    connect();
    described_.clear();
  } else if (control_.parameters < 0) {
    ended_ = true;
    return;
  } else {
    described_.resize(static_cast<std::size_t>(control_.parameters));
    control_message_ = all_.receive(std::as_writable_bytes(std::span(described_)), 0, kControlTag);
    return;
  }
  control_message_ = all_.receive(bytes_of(control_), 0, kControlTag);
}

bool Server::all_ended() const {
  const auto ended = [](const auto& channel) {
    return channel.state == std::decay_t<decltype(channel)>::State::kEnded;
  };
  return std::ranges::all_of(layers_, ended) && std::ranges::all_of(reports_, ended);
}

// Nothing is under way, and what there was before is over.
void Server::connect() {
  layers_.clear();
  served_.clear();
  reports_.clear();
  layout_.groups = control_.groups;
  coordinator_ = Coordinator(layout_.groups, options_.order.order);
  std::vector<std::vector<ServedParameter>> layers;
  for (const ServedParameter& parameter : described_) {
    layers.resize(static_cast<std::size_t>(parameter.layer) + 1);
    layers.back().push_back(parameter);
  }
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (layout_.server_of(layer) != number_) continue;
    std::unique_ptr<LayerStore> store = options_.make_layer(layers[layer]);
    if (control_.momentum != Control::kFromOptions) store->set_momentum(control_.momentum);
    served_.push_back(std::make_unique<ServedLayer>(std::move(store), layout_.groups, options_.order));
    for (int group = 0; group < layout_.groups; ++group) {
      LayerChannel& channel = layers_.emplace_back();
      channel.layer = layer;
      channel.served = served_.back().get();
      channel.group = group;
      channel.owner = group * layout_.members() + layout_.owner_of(layer);
      channel.elements = static_cast<std::size_t>(channel.served->store().elements());
      if (channel.served->store().has_values()) channel.values.resize(channel.elements);
    }
  }
  if (number_ == ServerLayout::kCoordinator) {
    reports_.resize(static_cast<std::size_t>(layout_.groups));
    for (int group = 0; group < layout_.groups; ++group) {
      reports_[static_cast<std::size_t>(group)].leader = group * layout_.members();
    }
  }
  for (LayerChannel& channel : layers_) expect(channel);
  for (ReportChannel& channel : reports_) expect(channel);
}

void Server::expect(LayerChannel& channel) {
  channel.state = LayerChannel::State::kHeader;
  channel.messages[0] = all_.receive(bytes_of(channel.header), channel.owner, layer_tag(channel.layer));
}

void Server::expect(ReportChannel& channel) {
  channel.state = ReportChannel::State::kReport;
  channel.messages[0] = all_.receive(bytes_of(channel.report), channel.leader, kReportTag);
}

std::span<float> Server::values_of(LayerChannel& channel) {
  const std::size_t count = values_with(channel.header, channel.elements);
  if (!channel.values.empty() && channel.values.size() < count) channel.values.resize(count);
  return {channel.values.data(), count};
}

template <class Channel>
bool Server::done(Channel& channel) {
  bool over = true;
  for (Transport::Message& message : channel.messages) over = all_.done(message) && over;
  return over;
}

bool Server::advance(LayerChannel& channel, Progress progress) {
  using State = LayerChannel::State;
  if (channel.state == State::kHeld || channel.state == State::kEnded) return false;
  if (channel.state == State::kHeader && channel.taken_in == calls_) return false;
  if (!done(channel)) return false;
  switch (channel.state) {
    case State::kHeader:
      if (channel.header.kind == LayerHeader::Kind::kEnd) {
        channel.state = State::kEnded;
        break;
      }
      if (brings_values(channel.header.kind)) {
        channel.state = State::kValues;
        channel.messages[1] =
            all_.receive(std::as_writable_bytes(values_of(channel)), channel.owner, layer_tag(channel.layer));
        break;
      }
      [[fallthrough]];
    case State::kValues:
      if (progress == Progress::kMessagesOnly) return false;
      channel.state = State::kHeld;
      channel.taken_in = calls_;
      take(channel);
      break;
    default:
      expect(channel);
  }
  return true;
}

// That have come, at least their headers, and are not applied.  Of a group that was answered in this call nobody asks:
// its next gradient, which this call leaves, is to be news to a wait.
std::int64_t Server::gradients_here() {
  return std::ranges::count_if(layers_, [&](LayerChannel& channel) {
    using State = LayerChannel::State;
    const bool has_header = channel.state == State::kHeader && channel.taken_in != calls_ && done(channel);
    return (has_header || channel.state == State::kValues || channel.state == State::kHeld) &&
           channel.header.kind == LayerHeader::Kind::kPush;
  });
}

void Server::take(LayerChannel& channel) {
  if (channel.header.kind == LayerHeader::Kind::kPush) channel.header.queue = gradients_here();
  // The channels of a layer's groups are neighbours.
  LayerChannel* const of_layer = &channel - channel.group;
  for (const int group : channel.served->take(channel.group, channel.header, values_of(channel).data())) {
    LayerChannel& answered = of_layer[group];
    const LayerHeader::Kind kind = answered.header.kind;
    if (kind == LayerHeader::Kind::kPush && options_.updated) options_.updated(answered.layer, group, answered.header);
    answered.state = LayerChannel::State::kAnswer;
    const Tag tag = layer_answer_tag(answered.layer);
    answered.messages[0] = all_.send(bytes_of(answered.header), answered.owner, tag);
    if (takes_values(kind)) {
      answered.messages[1] = all_.send(std::as_bytes(values_of(answered)), answered.owner, tag);
    }
  }
}

bool Server::advance(ReportChannel& channel) {
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
  for (Coordinator::Reply& reply : coordinator_.take(group, channel.report, watched_s_)) answer(std::move(reply));
  if (channel.report.failed != 0) expect(channel);
  return true;
}

void Server::answer(Coordinator::Reply reply) {
  ReportChannel& channel = reports_[static_cast<std::size_t>(reply.group)];
  channel.reply = std::move(reply);
  channel.state = ReportChannel::State::kAnswer;
  channel.messages[0] = all_.send(bytes_of(channel.reply.answer), channel.leader, kAnswerTag);
  if (!channel.reply.losses.empty()) {
    channel.messages[1] = all_.send(std::as_bytes(std::span(channel.reply.losses)), channel.leader, kAnswerTag);
  }
}

// A wait is looked at many times per second; what is much longer, as of a process that was stopped, is no time in which
// reports could have been heard.
void Server::pass_time() {
  if (options_.hangs.limit_s <= 0 || reports_.empty()) return;
  const double now_s = all_.now_s();
  watched_s_ += std::min(now_s - std::exchange(looked_s_, now_s), options_.hangs.limit_s / 8);
}

std::string Server::describe(int rank) const {
  const auto number = static_cast<std::size_t>(rank);
  return number < options_.hosts.size() ? fmt::format("rank {} ({})", rank, options_.hosts[number])
                                        : fmt::format("rank {}", rank);
}

// By arrival a group waits for no other one before all settle: who is lost is missed by nobody but the coordinator.  It
// speaks a little before the limit, at which those complain who do wait, for servers that are all right.  Where servers
// are inside workers, a group may be silent because that of another one is lost.
void Server::notice_silence() {
  const HangOptions& hangs = options_.hangs;
  if (hangs.limit_s <= 0 || reports_.empty()) return;
  const std::optional<Coordinator::Silence> silence = coordinator_.silence();
  if (!silence || watched_s_ - silence->since_s < hangs.limit_s - std::min(2.0, hangs.limit_s / 4)) return;
  const int first = silence->group * layout_.members(), last = first + layout_.members() - 1;
  std::string servers;
  for (int server = 0; layout_.colocated && server < layout_.servers; ++server) {
    if (layout_.rank_of(server) != all_.rank())
      servers += fmt::format("{}{}", servers.empty() ? "; or it waits for a server, in " : ", ",
                             describe(layout_.rank_of(server)));
  }
  hangs.say(fmt::format("{}, which deals out steps, waits for group {} ({}{}): its last report was {:.1f} s ago, {}{}",
                        describe(all_.rank()), silence->group, describe(first),
                        first == last ? "" : " to " + describe(last), watched_s_ - silence->since_s,
                        silence->ticket < 0 ? "it has no step" : fmt::format("it is at step {}", silence->ticket),
                        servers));
  all_.abort(kHangExitCode);
}

int serve(Transport& all, const ServerLayout& layout, const ServeOptions& options) {
  Server server(all, layout, options);
  all.wait([&] { return server.serve(Server::Progress::kMessagesAndUpdates); }, "serving");
  return server.exit_code();
}

}  // namespace petaflow
