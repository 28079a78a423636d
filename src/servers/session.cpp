#include "servers/session.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace petaflow {
std::vector<Slice> layers_of(const std::vector<Parameter>& parameters) {
  std::vector<Slice> layers;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    if (i == 0 || parameter.layer != parameters[i - 1].layer) layers.push_back({parameter.offset, 0});
    layers.back().end = parameter.offset + parameter.spec.elements();
  }
  return layers;
}

ServerSession::ServerSession(std::unique_ptr<Transport> all, const ServerLayout& layout, Communicator& group)
    : all_(std::move(all)), layout_(layout), group_(group) {}

void ServerSession::send(std::span<const std::byte> bytes, int to, int tag, const char* call) {
  Transport::Message message = all_->send(bytes, to, tag);
  all_->wait([&] { return all_->done(message); }, call);
}

void ServerSession::receive(std::span<std::byte> bytes, int from, int tag, const char* call) {
  Transport::Message message = all_->receive(bytes, from, tag);
  all_->wait([&] { return all_->done(message); }, call);
}

void ServerSession::connect(const std::vector<Parameter>& parameters) {
  PETAFLOW_REQUIRE(!connected_, "servers are connected twice");
  const std::vector<Slice> layers = layers_of(parameters);
  if (all_->rank() == 0) {
    std::vector<ServedParameter> described;
    for (const Parameter& parameter : parameters) {
      const auto layer = std::ranges::upper_bound(layers, parameter.offset, {}, &Slice::begin) - layers.begin() - 1;
      described.push_back({layer, parameter.spec.elements(), parameter.spec.running_momentum, parameter.spec.decays});
    }
    const Control control{std::ssize(described), 0};
    for (int server = layout_.workers; server < layout_.workers + layout_.servers; ++server) {
      send(std::as_bytes(std::span(&control, 1)), server, kControlTag, "connecting with servers");
      send(std::as_bytes(std::span(described)), server, kControlTag, "connecting with servers");
    }
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto first = std::ranges::find(parameters, layers[i].begin, &Parameter::offset);
    const std::string& name = names_.emplace_back(first->name.substr(0, first->name.rfind('/')));
    if (layout_.owner_of(i) != group_.rank()) continue;
    Layer& layer = layers_.emplace_back();
    layer.number = i;
    layer.slice = layers[i];
    const int server = layout_.server_of(i) - layout_.workers;
    layer.calls[0] = fmt::format("push of {} to server {}", name, server);
    layer.calls[1] = fmt::format("asking server {} for {}", server, name);
  }
  connected_ = true;
}

void ServerSession::end(int exit_code) {
  if (connected_) {
    const LayerHeader over{.kind = LayerHeader::Kind::kEnd};
    for (const Layer& layer : layers_) {
      send(std::as_bytes(std::span(&over, 1)), layout_.server_of(layer.number),
           kFirstLayerTag + static_cast<int>(layer.number), "taking leave of servers");
    }
    const TicketReport last{.last = 1};
    if (leads()) send(std::as_bytes(std::span(&last, 1)), layout_.coordinator(), kReportTag, "taking leave of servers");
  }
  const Control control{-1, exit_code};
  for (int server = layout_.workers; all_->rank() == 0 && server < layout_.workers + layout_.servers; ++server) {
    send(std::as_bytes(std::span(&control, 1)), server, kControlTag, "taking leave of servers");
  }
}

// ---- Layers ----

ServerSession::Layer& ServerSession::layer_at(std::int64_t begin) {
  const auto found = std::ranges::find_if(layers_, [&](const Layer& layer) { return layer.slice.begin == begin; });
  PETAFLOW_REQUIRE(found != layers_.end(), "no layer of this member begins at {}", begin);
  return *found;
}

void ServerSession::start(std::int64_t begin, const LayerHeader& header, const float* from, float* to) {
  Layer& layer = layer_at(begin);
  PETAFLOW_REQUIRE(!layer.started, "layer {} waits for an answer", layer.number);
  const int server = layout_.server_of(layer.number), tag = kFirstLayerTag + static_cast<int>(layer.number);
  layer.started = true;
  layer.answered = false;
  layer.sent = header;
  layer.to = to;
  layer.in = all_->receive(bytes_of(layer.answer), server, tag);
  layer.out_header = all_->send(bytes_of(layer.sent), server, tag);
  if (!brings_values(header.kind)) return;
  layer.out_values =
      all_->send(std::as_bytes(std::span(from, static_cast<std::size_t>(layer.slice.size()))), server, tag);
}

bool ServerSession::advance(Layer& layer) {
  if (!layer.started) return true;
  const bool sent = all_->done(layer.out_header) && all_->done(layer.out_values);
  if (!sent || !all_->done(layer.in)) return false;
  if (!layer.answered) {
    layer.answered = true;
    if (takes_values(layer.sent.kind)) {
      const std::span values(layer.to, static_cast<std::size_t>(layer.slice.size()));
      layer.in = all_->receive(std::as_writable_bytes(values), layout_.server_of(layer.number),
                               kFirstLayerTag + static_cast<int>(layer.number));
      if (!all_->done(layer.in)) return false;
    }
  }
  layer.started = false;
  return true;
}

const LayerHeader& ServerSession::wait(std::int64_t begin, const std::function<void()>& progress) {
  Layer& mine = layer_at(begin);
  all_->wait(
      [&] {
        for (Layer& layer : layers_) advance(layer);
        if (progress) progress();
        return !mine.started;
      },
      mine.calls[mine.sent.kind == LayerHeader::Kind::kPush ? 0 : 1].c_str());
  if (mine.sent.kind == LayerHeader::Kind::kPush) {
    const auto staleness = static_cast<std::size_t>(mine.answer.staleness);
    if (mine.staleness.size() <= staleness) mine.staleness.resize(staleness + 1);
    mine.staleness[staleness] += 1;
  }
  return mine.answer;
}

void ServerSession::push(std::int64_t begin, std::int64_t ticket, float learning_rate, const float* gradient,
                         float* weights) {
  start(begin, {.ticket = ticket, .learning_rate = learning_rate}, gradient, weights);
}

std::vector<std::pair<std::string, std::vector<std::int64_t>>> ServerSession::staleness(Communicator& workers) const {
  std::vector<std::int64_t> mine;  // of each layer: number, so many counts, these
  for (const Layer& layer : layers_) {
    mine.push_back(static_cast<std::int64_t>(layer.number));
    mine.push_back(std::ssize(layer.staleness));
    mine.insert(mine.end(), layer.staleness.begin(), layer.staleness.end());
  }
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> all;
  for (const std::vector<std::byte>& bytes : workers.gather(std::as_bytes(std::span(mine)))) {
    std::vector<std::int64_t> theirs(bytes.size() / sizeof(std::int64_t));
    if (!theirs.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
    for (std::size_t i = 0; i < theirs.size(); i += 2 + static_cast<std::size_t>(theirs[i + 1])) {
      const auto layer = static_cast<std::size_t>(theirs[i]), counts = static_cast<std::size_t>(theirs[i + 1]);
      if (all.size() <= layer) all.resize(layer + 1);
      std::vector<std::int64_t>& sum = all[layer].second;
      if (sum.size() < counts) sum.resize(counts);
      for (std::size_t staleness = 0; staleness < counts; ++staleness) sum[staleness] += theirs[i + 2 + staleness];
    }
  }
  for (std::size_t layer = 0; layer < all.size(); ++layer) all[layer].first = names_.at(layer);
  return all;
}

// ---- Tickets ----

ServerSession::Lease ServerSession::report(const TicketReport& report) {
  TicketAnswer answer;
  Lease lease;
  if (leads()) {
    send(std::as_bytes(std::span(&report, 1)), layout_.coordinator(), kReportTag, "reporting to the coordinator");
    receive(bytes_of(answer), layout_.coordinator(), kAnswerTag, "asking the coordinator for a step");
    lease.losses.resize(static_cast<std::size_t>(answer.losses));
    if (answer.losses > 0) {
      receive(std::as_writable_bytes(std::span(lease.losses)), layout_.coordinator(), kAnswerTag,
              "asking the coordinator for losses");
    }
  }
  group_.broadcast(bytes_of(answer), 0);
  if (answer.failed != 0) {
    throw AgreedError(static_cast<ErrorKind>(answer.failed - 1), std::string(answer.text.get()));
  }
  if (answer.ticket >= 0) lease.ticket = answer.ticket;
  lease.settled = answer.settled != 0;
  lease.until = answer.until;
  lease.stop = answer.stop;
  return lease;
}

void ServerSession::fail(const AgreedError& error) {
  const std::string text = layout_.groups == 1 ? error.what() : fmt::format("group {}: {}", group(), error.what());
  if (leads()) {
    TicketReport report;
    report.failed = 1 + static_cast<std::int32_t>(error.kind());
    report.text.set(text);
    send(std::as_bytes(std::span(&report, 1)), layout_.coordinator(), kReportTag, "reporting to the coordinator");
  }
  for (const Layer& layer : layers_) {
    start(layer.slice.begin, {.kind = LayerHeader::Kind::kRelease}, nullptr, nullptr);
    wait(layer.slice.begin);
  }
  throw AgreedError(error.kind(), text);
}

}  // namespace petaflow
