// Finds momentum, learning rate and the number of groups from losses: a state machine, without steps or clocks.
//
// Source: Hadjis et al., "Omnivore: An Optimizer for Multi-device Deep Learning on CPUs and GPUs" (arXiv:1606.04487),
// algorithm 1.  Groups that do not wait for each other add a momentum of their own, 1 - 1 / groups (Mitliagkas et al.,
// arXiv:1605.09774): where none beside it is the best choice, there are too many of them.
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace petaflow {

/// What some updates were made with, and the loss that they came to; infinity: they failed.
struct GroupTrial {
  std::int64_t groups = 1;
  double momentum = 0;
  double rate = 1;  // factor of the schedule's
  double loss = 0;
};

class GroupSearch {
 public:
  static constexpr std::array kMomenta = {0.0, 0.3, 0.6, 0.9};
  static constexpr std::array kRates = {1.0, 0.1};  // times the one in force
  static constexpr std::int64_t kTrials = std::ssize(kMomenta) * std::ssize(kRates);

  enum class Decision : std::uint8_t {
    kNone,    // another trial comes first
    kFewer,   // no momentum is best: groups() is less from now on, and the trials begin again
    kFound,   // settings() are the best trial's
    kFailed,  // every trial did
  };

  GroupSearch() = default;
  /// @param momentum  until one is found
  GroupSearch(std::int64_t groups, double momentum) : settings_{groups, momentum} {}
  /// Goes on with these.
  GroupSearch(const GroupTrial& settings, std::vector<GroupTrial> tried)
      : settings_(settings), tried_(std::move(tried)) {}

  /// In force; the loss is that of their trial.
  const GroupTrial& settings() const { return settings_; }
  std::int64_t groups() const { return settings_.groups; }
  /// The next trial.
  GroupTrial next() const;
  /// Takes the loss of next().
  Decision take(double loss);
  /// Of the search that goes on or ended last, with all numbers of groups.
  const std::vector<GroupTrial>& tried() const { return tried_; }
  /// Before another search.
  void forget() { tried_.clear(); }

  /// The largest proper divisor: half of an even number.
  static std::int64_t fewer(std::int64_t groups);

 private:
  GroupTrial settings_;
  std::vector<GroupTrial> tried_;  // kTrials for each number of groups
};

}  // namespace petaflow
