#include "servers/session.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "base/error.hpp"

namespace petaflow {

ServerSession::ServerSession(std::unique_ptr<Transport> all, const ServerLayout& layout, Communicator& group,
                             const ServeOptions& serving)
    : all_(std::move(all)),
      layout_(layout),
      group_(&group),
      coordinator_call_(
          fmt::format("asking the coordinator (rank {}) for a step", layout.rank_of(ServerLayout::kCoordinator))),
      waited_s_(static_cast<std::size_t>(layout.servers)) {
  if (layout.server_at(all_->rank())) colocated_ = std::make_unique<Server>(*all_, layout, serving);
}

void ServerSession::wait_for(int server, const std::function<bool()>& over, const char* call) {
  const double start_s = all_->now_s();
  all_->wait(over, call);
  waited_s_[static_cast<std::size_t>(server)] += all_->now_s() - start_s;
}

void ServerSession::send(std::span<const std::byte> bytes, int server, Tag tag, const char* call) {
  Transport::Message message = all_->send(bytes, layout_.rank_of(server), tag);
  wait_for(server, [&] { return all_->done(message); }, call);
}

void ServerSession::receive(std::span<std::byte> bytes, int server, Tag tag, const char* call) {
  Transport::Message message = all_->receive(bytes, layout_.rank_of(server), tag);
  wait_for(server, [&] { return all_->done(message); }, call);
}

void ServerSession::connect(std::span<const ServedParameter> parameters, std::vector<std::string> names,
                            double momentum) {
  leave();
  if (all_->rank() == 0) {
    const Control control{std::ssize(parameters), 0, layout_.groups, momentum};
    for (int server = 0; server < layout_.servers; ++server) {
      send(std::as_bytes(std::span(&control, 1)), server, kControlTag, "connecting with servers");
      send(std::as_bytes(parameters), server, kControlTag, "connecting with servers");
    }
  }
  names_ = std::move(names);
  services_.resize(names_.size());
  std::vector<Slice> layers(names_.size());
  std::int64_t offset = 0;
  for (const ServedParameter& parameter : parameters) {
    Slice& layer = layers.at(static_cast<std::size_t>(parameter.layer));
    if (layer.size() == 0) layer = {offset, offset};
    offset += parameter.elements;
    layer.end = offset;
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layout_.owner_of(i) != group_->rank()) continue;
    Layer& layer = layers_.emplace_back();
    layer.number = i;
    layer.slice = layers[i];
    const int server = layout_.server_of(i), rank = layout_.rank_of(server);
    layer.calls[0] = fmt::format("push of {} to server {} (rank {})", names_[i], server, rank);
    layer.calls[1] = fmt::format("asking server {} (rank {}) for {}", server, rank, names_[i]);
  }
  connected_ = true;
}

// So that servers expect nothing more from these groups.
void ServerSession::leave() {
  if (!connected_) return;
  const LayerHeader over{.kind = LayerHeader::Kind::kEnd};
  for (const Layer& layer : layers_) {
    send(std::as_bytes(std::span(&over, 1)), layout_.server_of(layer.number), layer_tag(layer.number),
         "taking leave of servers");
  }
  const TicketReport last{.last = 1};
  if (leads()) {
    send(std::as_bytes(std::span(&last, 1)), ServerLayout::kCoordinator, kReportTag, "taking leave of servers");
  }
  layers_.clear();
  tickets_ = 0;
  connected_ = false;
}

void ServerSession::regroup(const ServerLayout& layout, Communicator& group) {
  PETAFLOW_REQUIRE(!layout_.colocated && !layout.colocated, "servers inside workers stay with their groups");
  PETAFLOW_REQUIRE(layout.workers == layout_.workers && layout.servers == layout_.servers,
                   "{} workers and {} servers become {} and {}", layout_.workers, layout_.servers, layout.workers,
                   layout.servers);
  leave();
  layout_ = layout;
  group_ = &group;
}

void ServerSession::end(int exit_code) {
  leave();
  const Control control{-1, exit_code};
  for (int server = 0; all_->rank() == 0 && server < layout_.servers; ++server) {
    send(std::as_bytes(std::span(&control, 1)), server, kControlTag, "taking leave of servers");
  }
  if (!colocated_) return;
  all_->wait([this] { return colocated_->serve(Server::Progress::kMessagesAndUpdates); },
             "serving until all workers have taken leave");
}

void ServerSession::serve(Server::Progress progress) {
  if (colocated_) colocated_->serve(progress);
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
  const int server = layout_.rank_of(layout_.server_of(layer.number));
  const Tag tag = layer_tag(layer.number);
  layer.started = true;
  layer.answered = false;
  layer.start_s = all_->now_s();
  layer.sent = header;
  layer.to = to;
  layer.in = all_->receive(bytes_of(layer.answer), server, layer_answer_tag(layer.number));
  layer.out_header = all_->send(bytes_of(layer.sent), server, tag);
  if (!brings_values(header.kind)) return;
  layer.out_values = all_->send(std::as_bytes(std::span(from, layer.values())), server, tag);
}

bool ServerSession::advance(Layer& layer) {
  if (!layer.started) return true;
  const bool sent = all_->done(layer.out_header) && all_->done(layer.out_values);
  if (!sent || !all_->done(layer.in)) return false;
  if (!layer.answered) {
    layer.answered = true;
    if (takes_values(layer.sent.kind)) {
      layer.in = all_->receive(std::as_writable_bytes(std::span(layer.to, layer.values())),
                               layout_.rank_of(layout_.server_of(layer.number)), layer_answer_tag(layer.number));
      if (!all_->done(layer.in)) return false;
    }
  }
  layer.started = false;
  if (layer.sent.kind == LayerHeader::Kind::kPush) {
    LayerService::Times& times = services_[layer.number].times;
    const double now_s = all_->now_s();
    times.under_way_s += now_s - layer.start_s;
    if (waits_since_s_ >= 0) times.exposed_s += now_s - waits_since_s_;
  }
  return true;
}

const LayerHeader& ServerSession::wait(std::int64_t begin, const std::function<void()>& progress) {
  Layer& mine = layer_at(begin);
  waits_since_s_ = all_->now_s();
  wait_for(
      layout_.server_of(mine.number),
      [&] {
        for (Layer& layer : layers_) advance(layer);
        if (progress) progress();
        return !mine.started;
      },
      mine.calls[mine.sent.kind == LayerHeader::Kind::kPush ? 0 : 1].c_str());
  const double waited_s = all_->now_s() - waits_since_s_;
  waits_since_s_ = -1;
  for (const Layer& layer : layers_) {  // those that end later
    if (!layer.started || layer.sent.kind != LayerHeader::Kind::kPush) continue;
    services_[layer.number].times.exposed_s += waited_s;
  }
  if (mine.sent.kind == LayerHeader::Kind::kPush) {
    LayerService& service = services_[mine.number];
    const auto staleness = static_cast<std::size_t>(mine.answer.staleness);
    if (service.staleness.size() <= staleness) service.staleness.resize(staleness + 1);
    service.staleness[staleness] += 1;
    service.queue_sum += mine.answer.queue;
    service.queue_most = std::max(service.queue_most, mine.answer.queue);
    service.elements = mine.slice.size();
  }
  return mine.answer;
}

void ServerSession::push(std::int64_t begin, std::int64_t ticket, float learning_rate, const float* gradient,
                         float* weights) {
  start(begin, {.ticket = ticket, .learning_rate = learning_rate}, gradient, weights);
}

std::vector<LayerService> ServerSession::service(Communicator& workers) const {
  struct Head {
    std::int64_t layer, queue_sum, queue_most, elements, counts;
    LayerService::Times times;
  };
  std::vector<std::byte> mine;
  const auto add = [&mine](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    mine.insert(mine.end(), bytes.begin(), bytes.end());
  };
  for (std::size_t layer = 0; layer < services_.size(); ++layer) {
    const LayerService& service = services_[layer];
    if (service.staleness.empty()) continue;
    add(std::array{Head{static_cast<std::int64_t>(layer), service.queue_sum, service.queue_most, service.elements,
                        std::ssize(service.staleness), service.times}});
    add(service.staleness);
  }
  std::vector<LayerService> all(workers.rank() == 0 ? names_.size() : 0);
  for (const std::vector<std::byte>& bytes : workers.gather(mine)) {
    for (std::size_t at = 0; at < bytes.size();) {
      Head head;
      std::memcpy(&head, bytes.data() + at, sizeof head);
      std::vector<std::int64_t> theirs(static_cast<std::size_t>(head.counts));
      std::memcpy(theirs.data(), bytes.data() + at + sizeof head, theirs.size() * sizeof theirs[0]);
      at += sizeof head + theirs.size() * sizeof theirs[0];
      LayerService& sum = all.at(static_cast<std::size_t>(head.layer));
      sum.queue_sum += head.queue_sum;
      sum.queue_most = std::max(sum.queue_most, head.queue_most);
      sum.elements = head.elements;
      sum.times.under_way_s += head.times.under_way_s;
      sum.times.exposed_s += head.times.exposed_s;
      if (sum.staleness.size() < theirs.size()) sum.staleness.resize(theirs.size());
      for (std::size_t staleness = 0; staleness < theirs.size(); ++staleness) {
        sum.staleness[staleness] += theirs[staleness];
      }
    }
  }
  for (std::size_t layer = 0; layer < all.size(); ++layer) all[layer].layer = names_.at(layer);
  return all;
}

// ---- Tickets ----

// The coordinator's answer on all members, the losses that follow on worker 0.
TicketAnswer ServerSession::ask(const TicketReport& report, std::vector<double>& losses) {
  TicketAnswer answer;
  if (leads()) {
    send(std::as_bytes(std::span(&report, 1)), ServerLayout::kCoordinator, kReportTag, coordinator_call_.c_str());
    receive(bytes_of(answer), ServerLayout::kCoordinator, kAnswerTag, coordinator_call_.c_str());
    const std::size_t told = losses.size();
    losses.resize(told + static_cast<std::size_t>(answer.losses));
    if (answer.losses > 0) {
      receive(std::as_writable_bytes(std::span(losses).subspan(told)), ServerLayout::kCoordinator, kAnswerTag,
              coordinator_call_.c_str());
    }
  }
  group_->broadcast(bytes_of(answer), 0);
  if (answer.failed != 0) {
    throw AgreedError(static_cast<ErrorKind>(answer.failed - 1), std::string(answer.text.get()));
  }
  return answer;
}

ServerSession::Lease ServerSession::report(const TicketReport& report) {
  Lease lease;
  if (report.done >= 0) tickets_ -= 1;
  TicketAnswer answer = ask(report, lease.losses);
  if (answer.ticket >= 0) {
    tickets_ += 1;
    lease.ticket = answer.ticket;
    return lease;
  }
  if (tickets_ > 0) return lease;
  for (const Layer& layer : layers_) start(layer.slice.begin, {.kind = LayerHeader::Kind::kIdle}, nullptr, nullptr);
  for (const Layer& layer : layers_) wait(layer.slice.begin);
  answer = ask({.from = report.from, .until = report.until, .waits = 1}, lease.losses);
  lease.settled = true;
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
    send(std::as_bytes(std::span(&report, 1)), ServerLayout::kCoordinator, kReportTag, coordinator_call_.c_str());
  }
  for (const Layer& layer : layers_) {
    start(layer.slice.begin, {.kind = LayerHeader::Kind::kRelease}, nullptr, nullptr);
    wait(layer.slice.begin);
  }
  throw AgreedError(error.kind(), text);
}

}  // namespace petaflow
