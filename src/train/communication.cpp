#include "train/communication.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace petaflow {
namespace {

constexpr std::size_t kMost = 4;  // of the ranks for which one waited: the others are many, and nobody reads on

/// As it travels between ranks.
struct Sent {
  int whom = -1;  // rank; behind the ranks that train come the servers; -1: not known
  double seconds = 0;
};

}  // namespace

CommunicationTimes communication_times(Communicator& workers, const TrainStep& step, const ServerSession* servers) {
  std::vector<Sent> mine;
  const std::vector<double> of_group = step.waited_s();
  const int first = workers.rank() - step.group().rank();  // a group is of neighbours
  for (std::size_t i = 0; i < of_group.size(); ++i) {
    mine.push_back({i + 1 == of_group.size() ? -1 : first + static_cast<int>(i), of_group[i]});
  }
  const std::vector<double>& across = step.waited_across_s();
  for (std::size_t group = 0; group < across.size(); ++group) {
    const int rank = static_cast<int>(group) * step.group().size() + step.group().rank();
    mine.push_back({group + 1 == across.size() ? -1 : rank, across[group]});
  }
  if (servers != nullptr) {
    for (std::size_t s = 0; s < servers->waited_s().size(); ++s) {
      mine.push_back({workers.size() + static_cast<int>(s), servers->waited_s()[s]});
    }
  }
  std::erase_if(mine, [](const Sent& wait) { return wait.seconds <= 0; });
  std::ranges::sort(mine, std::greater(), &Sent::seconds);
  mine.resize(std::min(mine.size(), kMost));

  CommunicationTimes times;
  const std::vector<std::vector<std::byte>> all = workers.gather(std::as_bytes(std::span(mine)));
  for (const std::vector<std::byte>& bytes : all) {
    std::vector<Sent> theirs(bytes.size() / sizeof(Sent));
    if (!theirs.empty()) std::memcpy(theirs.data(), bytes.data(), bytes.size());
    std::vector<Wait>& waits = times.waits.emplace_back();
    for (const Sent& wait : theirs) {
      const bool serves = wait.whom >= workers.size();
      waits.push_back({wait.whom < 0 ? "all"
                       : serves      ? fmt::format("server {}", wait.whom - workers.size())
                                     : fmt::format("rank {}", wait.whom),
                       wait.seconds});
    }
  }
  if (workers.rank() == 0) times.buckets = step.bucket_times();
  return times;
}

}  // namespace petaflow
