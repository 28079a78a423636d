// Sorts the events once; each bootstrap replica is one pass over them with multiplicities.
#include "metrics/classification.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/random.hpp"

namespace petaflow {
namespace {

constexpr double kRounding = 1e-9;  // relative; sums of weights in different orders differ by less

// All statistics of one replica.  NaN: undefined (a class without weight).
struct Statistics {
  double accuracy, auc;
  std::vector<double> efficiency, threshold;  // per rate; the selection's own rate is the last
  std::vector<double> background_above;       // effective number expected above the threshold, per rate
  double selection_rate, selection_efficiency;
};

class Ranking {
 public:
  Ranking(const ScoredSet& set, double threshold, std::span<const std::uint8_t> selected);

  /// count: how often each event occurs.  rates without that of the selection.
  Statistics statistics(const std::vector<std::uint16_t>& count, const std::vector<double>& rates) const;
  std::vector<RocPoint> roc() const;
  std::int64_t events(bool signal) const {
    return std::count_if(ranked_.begin(), ranked_.end(), [=](const Event& e) { return e.signal == signal; });
  }

 private:
  struct Event {
    double weight;
    float score;
    std::uint32_t index;  // in the set
    bool signal, called_signal, selected;
    bool last_of_score;  // the next event has another score
  };

  std::vector<Event> ranked_;  // highest score first
};

Ranking::Ranking(const ScoredSet& set, double threshold, std::span<const std::uint8_t> selected) {
  const std::size_t n = set.score.size();
  PETAFLOW_REQUIRE(set.label.size() == n && (set.weight.empty() || set.weight.size() == n) &&
                       (selected.empty() || selected.size() == n) && n < (std::size_t{1} << 32),
                   "{} scores, {} labels, {} weights, {} flags", n, set.label.size(), set.weight.size(),
                   selected.size());
  ranked_.reserve(n);
  for (std::size_t i = 0; i < n; ++i) {
    const double weight = set.weight.empty() ? 1 : set.weight[i];
    if (std::isnan(set.score[i])) failure("the score of event {} is NaN", i);
    if (set.label[i] != 0 && set.label[i] != 1)
      user_error("event {} must have label 0 or 1, found {}", i, set.label[i]);
    if (!(weight >= 0) || std::isinf(weight))
      user_error("event {} must have a weight of at least 0, found {}", i, weight);
    ranked_.push_back({weight, set.score[i], static_cast<std::uint32_t>(i), set.label[i] == 1,
                       static_cast<double>(set.score[i]) >= threshold, !selected.empty() && selected[i] != 0, true});
  }
  std::sort(ranked_.begin(), ranked_.end(),
            [](const Event& a, const Event& b) { return a.score != b.score ? a.score > b.score : a.index < b.index; });
  for (std::size_t i = 0; i + 1 < n; ++i) ranked_[i].last_of_score = ranked_[i].score != ranked_[i + 1].score;
}

Statistics Ranking::statistics(const std::vector<std::uint16_t>& count, const std::vector<double>& rates) const {
  double all[2] = {0, 0}, right = 0, chosen[2] = {0, 0};  // weights; background, signal
  std::vector<double> weight(ranked_.size());
  for (std::size_t i = 0; i < ranked_.size(); ++i) {
    const Event& e = ranked_[i];
    const double w = weight[i] = e.weight * count[e.index];
    all[e.signal] += w;
    right += e.called_signal == e.signal ? w : 0;
    chosen[e.signal] += e.selected ? w : 0;
  }
  const std::size_t n = rates.size() + 1;
  std::vector<double> limit;  // background weight that may pass
  for (const double rate : rates) limit.push_back(rate * all[0] * (1 + kRounding));
  limit.push_back(chosen[0] * (1 + kRounding));
  std::vector<std::size_t> order(n);  // of the limits, the lowest first
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return limit[a] < limit[b]; });

  const double infinity = std::numeric_limits<double>::infinity();
  Statistics result{right / (all[0] + all[1]), 0,
                    std::vector<double>(n),    std::vector<double>(n),
                    std::vector<double>(n),    chosen[0] / all[0],
                    chosen[1] / all[1]};
  double above[2] = {0, 0}, passed[2] = {0, 0}, squares = 0, area = 0, threshold = infinity;
  auto next = order.begin();
  // The next limit allows what has passed.  Its size in events: in units of the mean weight of the background down to
  // the first event that does not pass.
  const auto close_limit = [&] {
    const std::size_t i = *next++;
    result.efficiency[i] = all[0] > 0 ? passed[1] / all[1] : NAN;
    result.threshold[i] = threshold;
    result.background_above[i] = limit[i] * above[0] / squares;
  };
  for (std::size_t i = 0; i < ranked_.size(); ++i) {
    const Event& e = ranked_[i];
    above[e.signal] += weight[i];
    squares += e.signal ? 0 : weight[i] * e.weight;
    if (!e.last_of_score) continue;
    while (next != order.end() && above[0] > limit[*next]) close_limit();
    // Signal of this score beats the background below it, and ties with the background of this score.
    area += (above[0] - passed[0]) * (passed[1] + above[1]) / 2;
    std::copy(above, above + 2, passed);
    threshold = static_cast<double>(e.score);
  }
  while (next != order.end()) close_limit();
  result.auc = area / all[0] / all[1];
  return result;
}

std::vector<RocPoint> Ranking::roc() const {
  double all[2] = {0, 0}, above[2] = {0, 0};
  for (const Event& e : ranked_) all[e.signal] += e.weight;
  if (!(all[0] > 0) || !(all[1] > 0)) user_error("a ROC curve needs events of both classes");
  std::vector<RocPoint> points = {{std::numeric_limits<double>::infinity(), 0, 0}};
  for (const Event& e : ranked_) {
    above[e.signal] += e.weight;
    if (e.last_of_score) points.push_back({static_cast<double>(e.score), above[0] / all[0], above[1] / all[1]});
  }
  return points;
}

// The statistic that get reads, with its error over the replicas in which it is defined.
template <class Get>
Metric metric(const Statistics& full, const std::vector<Statistics>& replicas, const Get& get) {
  std::vector<double> values;
  for (const Statistics& replica : replicas) values.push_back(get(replica));
  return bootstrap_metric(get(full), values, "an event class has no weight");
}

}  // namespace

ClassificationReport classify(const ScoredSet& set, const ClassificationOptions& options,
                              std::span<const std::uint8_t> selected) {
  const Ranking ranking(set, options.threshold, selected);
  ClassificationReport report{ranking.events(true), ranking.events(false), {}, {}, {}, {}};
  const std::vector<double>& rates = options.background_rates;
  const auto n = static_cast<std::uint32_t>(set.score.size());

  const Statistics full = ranking.statistics(std::vector<std::uint16_t>(n, 1), rates);
  std::vector<Statistics> replicas;
  const RandomStream stream = random_stream(options.seed, RandomPurpose::kBootstrap);
  for (int r = 0; r < options.replicas; ++r) {
    std::vector<std::uint16_t> count(n, 0);
    RandomSequence draw(stream, static_cast<std::uint64_t>(r));
    for (std::uint32_t i = 0; i < n; ++i) ++count[draw.below(n)];
    replicas.push_back(ranking.statistics(count, rates));
  }

  const auto measure = [&](const auto& get) { return metric(full, replicas, get); };
  // A reason where the background is too small for a rate, or a class is missing.
  const auto refusal = [&](std::size_t i, double rate) -> std::string {
    const double found = full.background_above[i];
    if (report.signal_events == 0) return "no signal events";
    if (report.background_events == 0) return "no background events";
    if (std::isnan(found) || found >= options.min_background * (1 - 2 * kRounding)) return "";
    return fmt::format(
        "a background rate of {:.3g} needs at least {} effective background events above the threshold; {} background "
        "events give {:.3g}",
        rate, options.min_background, report.background_events, found);
  };
  const auto efficiency = [&](std::size_t i, double rate) -> Metric {
    const std::string reason = refusal(i, rate);
    return reason.empty() ? measure([=](const Statistics& s) { return s.efficiency[i]; }) : Metric{{}, {}, reason};
  };

  report.accuracy = n == 0 ? Metric{{}, {}, "no events"} : measure([](const Statistics& s) { return s.accuracy; });
  report.auc = measure([](const Statistics& s) { return s.auc; });
  if (report.background_events == 0) report.auc = {{}, {}, "no background events"};
  if (report.signal_events == 0) report.auc = {{}, {}, "no signal events"};
  for (std::size_t i = 0; i < rates.size(); ++i) {
    EfficiencyAtRate point{rates[i], {}, efficiency(i, rates[i])};
    if (point.signal_efficiency.value) point.threshold = full.threshold[i];
    report.at_rates.push_back(point);
  }
  if (!selected.empty()) {
    const std::size_t own = rates.size();
    SelectionComparison& s = report.selection.emplace();
    s.background_rate = measure([](const Statistics& x) { return x.selection_rate; });
    s.signal_efficiency = measure([](const Statistics& x) { return x.selection_efficiency; });
    s.score_efficiency = efficiency(own, full.selection_rate);
    s.difference = s.score_efficiency;
    if (s.difference.value) {
      s.difference = measure([=](const Statistics& x) { return x.efficiency[own] - x.selection_efficiency; });
    }
  }
  return report;
}

std::vector<RocPoint> roc_curve(const ScoredSet& set) { return Ranking(set, 0, {}).roc(); }

}  // namespace petaflow
