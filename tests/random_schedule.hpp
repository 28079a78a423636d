// Random trainings: a scheme of updates, a placement of its ranks, and how messages are sent.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "base/random.hpp"
#include "program/options.hpp"

namespace petaflow::schedules {

struct Schedule {
  CommonOptions options;
  int workers = 1;           // beside servers on ranks of their own
  std::int64_t samples = 1;  // of the data set
  std::int64_t layers = 1;   // of the network
  int ranks_per_node = 1;
  std::size_t eager_bytes = 4096;
  std::uint64_t seed = 0;  // of times
  bool calm = false;       // messages take equal times, computation none
  bool serves() const { return options.update.servers > 0; }
};

/// Up to 12 ranks, and a few steps.
inline Schedule draw(std::uint64_t number) {
  constexpr int kRanks = 12;
  RandomSequence random(random_stream(7, RandomPurpose::kGenerate), number);
  const auto below = [&](std::int64_t end) { return static_cast<int>(random.below(static_cast<std::uint32_t>(end))); };
  const auto up_to = [&](std::int64_t most) { return 1 + below(most); };
  const auto one_in = [&](std::int64_t count) { return below(count) == 0; };
  Schedule s;
  s.seed = number;
  s.layers = up_to(3);
  s.ranks_per_node = up_to(4);
  s.eager_bytes = std::array<std::size_t, 3>{0, 64, 4096}[static_cast<std::size_t>(below(3))];
  UpdateOptions& update = s.options.update;
  TrainOptions& train = s.options.train;
  CommOptions& comm = s.options.comm;
  train.deterministic = !one_in(3);
  int groups = 1;
  enum { kSynchronous, kLagged, kSharded, kAverages, kLateAverages, kByArrival, kByTicket, kSchemes };
  const int scheme = below(kSchemes);
  s.workers = up_to(kRanks);
  switch (scheme) {
    case kLagged:
      update.lag = up_to(3);
      update.sharded = one_in(3);
      break;
    case kSharded:
      update.sharded = true;
      break;
    case kAverages:
    case kLateAverages:
      groups = 1 + up_to(4);
      s.workers = groups * up_to(kRanks / groups);
      update.average_every = up_to(3);
      update.sharded = one_in(3);
      if (scheme == kAverages) break;
      update.average_late = up_to(update.average_every);
      update.average_warmup_epochs = below(2);
      update.average_cooldown_epochs = below(2);
      break;
    case kByArrival:
    case kByTicket: {
      update.colocate_servers = one_in(2);
      const int members = up_to(3);
      groups = up_to((update.colocate_servers ? kRanks : kRanks - 1) / members);
      s.workers = groups * members;
      update.cut_layers = one_in(3);
      const int room = update.colocate_servers ? s.workers : kRanks - s.workers;
      update.servers = up_to(std::min<std::int64_t>(room, update.cut_layers ? 6 : s.layers));
      update.order = scheme == kByTicket ? UpdateOrder::kTicket : UpdateOrder::kArrival;
      train.deterministic = train.deterministic && scheme == kByTicket;
      if (scheme == kByArrival && one_in(2)) update.max_staleness = groups - 2 + up_to(3);
      break;
    }
    default:
      break;
  }
  update.groups = groups;
  const int members = s.workers / groups;
  const std::int64_t batch = members <= 4 ? 4 : kRanks;
  train.batch = batch * groups;
  train.shards = batch;
  train.epochs = update.lag < 3 ? up_to(2) : 2;  // of three steps or more
  s.samples = batch * (groups > 2 ? 6 : 3) - below(2);
  s.options.data.threads = 0;
  s.options.log.interval = 1000000;
  s.options.checkpoint.interval = std::array{0, 0, 2, 5}[static_cast<std::size_t>(below(4))];
  s.options.optimizer.lr = 0.05;
  s.options.optimizer.name = one_in(2) ? "sgd" : "adam";
  comm.bucket_mb = std::array{1e-6, 2e-5, 1.0}[static_cast<std::size_t>(below(3))];
  comm.overlap = !one_in(3);
  if (train.deterministic) return s;
  // In a fixed order, or in that of a reduction that gives one to its messages.
  const bool divides = update.sharded || s.serves();
  comm.fixed_order = one_in(3) || update.order == UpdateOrder::kTicket;
  if (!divides && !comm.fixed_order) {
    comm.reduction =
        std::array{"auto", "ring", "doubling", "halving", "two_level", "tree"}[static_cast<std::size_t>(below(6))];
  }
  while (comm.reduction == "two_level" && members % s.ranks_per_node != 0) s.ranks_per_node -= 1;  // equal ones
  if (comm.reduction != "ring" && one_in(3)) comm.wire = one_in(2) ? Wire::kBf16 : Wire::kFp16;
  return s;
}

inline std::string describe(const Schedule& s) {
  const UpdateOptions& u = s.options.update;
  const CommOptions& c = s.options.comm;
  const TrainOptions& t = s.options.train;
  return fmt::format(
      "{} workers in {} groups, {} servers{}{}, lag {}, sharded {}, averages every {} late {} ({}, {}), {}, staleness "
      "{}, "
      "{} samples by {} for {} epochs, {} layers, {}, checkpoints {}, deterministic {}, fixed {}, {}, wire {}, "
      "buckets {}, overlap {}, {} ranks per node, eager {}",
      s.workers, u.groups, u.servers, u.colocate_servers ? " inside" : "", u.cut_layers ? ", cut" : "", u.lag,
      u.sharded, u.average_every, u.average_late, u.average_warmup_epochs, u.average_cooldown_epochs,
      u.order == UpdateOrder::kTicket ? "by ticket" : "by arrival", u.max_staleness, s.samples, t.batch, t.epochs,
      s.layers, s.options.optimizer.name, s.options.checkpoint.interval, t.deterministic, c.fixed_order, c.reduction,
      static_cast<int>(c.wire), c.bucket_mb, c.overlap, s.ranks_per_node, s.eager_bytes);
}

}  // namespace petaflow::schedules
