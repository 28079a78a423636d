#include "servers/served_rank.hpp"

#include <utility>

#include "base/error.hpp"
#include "comm/polled.hpp"

namespace petaflow {

ServedRank::ServedRank(Communicator& all, const ServerLayout& layout, const ServeOptions& serving)
    : rank_(all.rank()), layout_(layout), serving_(serving), poll_(std::make_shared<std::function<void()>>()) {
  PETAFLOW_REQUIRE(all.size() == layout.ranks(), "{} ranks for {} workers and {} servers", all.size(), layout.workers,
                   layout.servers);
  const auto part = [&](int number) {
    std::unique_ptr<Transport> ranks = all.transport().split(number);
    return layout.colocated ? make_polled_transport(std::move(ranks), poll_) : std::move(ranks);
  };
  messages_ = part(0);
  workers_ = std::make_unique<Communicator>(part(works() ? 0 : 1));
  group_ = workers_->split(works() ? layout.group_of(rank_) : 0);
  HangOptions hangs = serving_.hangs;
  hangs.one_peer = true;
  messages_->watch_hangs(works() ? std::move(hangs) : HangOptions());
  if (!works()) return;
  session_.emplace(std::move(messages_), layout, *group_, serving_);
  if (layout.server_at(rank_)) *poll_ = [this] { session_->serve(Server::Progress::kMessagesAndUpdates); };
}

void ServedRank::regroup(const ServerLayout& layout) {
  std::unique_ptr<Communicator> joined = workers_->split(layout.group_of(rank_));
  session_->regroup(layout, *joined);
  group_ = std::move(joined);
  layout_ = layout;
}

int ServedRank::serve() { return petaflow::serve(*messages_, layout_, serving_); }

}  // namespace petaflow
