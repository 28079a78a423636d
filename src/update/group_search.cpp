#include "update/group_search.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace petaflow {

std::int64_t GroupSearch::fewer(std::int64_t groups) {
  PETAFLOW_REQUIRE(groups > 1, "{} groups cannot be fewer", groups);
  std::int64_t factor = 2;
  while (groups % factor != 0) ++factor;
  return groups / factor;
}

GroupTrial GroupSearch::next() const {
  const std::size_t trial = tried_.size() % static_cast<std::size_t>(kTrials);
  return {settings_.groups, kMomenta[trial % kMomenta.size()], settings_.rate * kRates[trial / kMomenta.size()]};
}

GroupSearch::Decision GroupSearch::take(double loss) {
  GroupTrial trial = next();
  trial.loss = std::isfinite(loss) ? loss : INFINITY;
  tried_.push_back(trial);
  if (std::ssize(tried_) % kTrials != 0) return Decision::kNone;
  const GroupTrial best = *std::ranges::min_element(tried_.end() - kTrials, tried_.end(), {}, &GroupTrial::loss);
  if (best.loss == INFINITY) return Decision::kFailed;
  if (best.momentum == 0 && settings_.groups > 1) {
    settings_.groups = fewer(settings_.groups);
    return Decision::kFewer;
  }
  settings_ = best;
  return Decision::kFound;
}

}  // namespace petaflow
