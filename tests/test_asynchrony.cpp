// What groups that do not wait for each other do to a training, with the coordinator and a server as they are, on
// problems of which the answer is known.
#include <cmath>
#include <deque>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "servers/coordinator.hpp"
#include "servers/optimized_layer.hpp"
#include "servers/served_layer.hpp"
#include "yellowfin_replay.hpp"

namespace petaflow {
namespace {

/// Groups that take exponential times for a gradient of a layer of their own weights, as events in time.
class Workers {
 public:
  Workers(const OptimizerOptions& options, const std::vector<float>& start, int groups, std::uint64_t seed)
      : layer_(store(options, std::ssize(start), groups), groups, {}),
        coordinator_(groups, UpdateOrder::kArrival),
        groups_(static_cast<std::size_t>(groups)),
        random_(random_stream(seed, RandomPurpose::kGenerate), 1) {
    groups_[0].values = start;
    tell(0, {.kind = LayerHeader::Kind::kSetWeights});
    for (int g = 0; g < groups; ++g) {
      groups_[static_cast<std::size_t>(g)].values.resize(start.size());
      tell(g, {.kind = LayerHeader::Kind::kWeights});
    }
  }

  /// @param gradient  replaces weights by their gradient
  /// @param updated   gets the weights after each update
  void run(std::int64_t steps, float rate, const std::function<void(std::vector<float>&)>& gradient,
           const std::function<void(const std::vector<float>&)>& updated) {
    TicketReport report{.until = steps};
    for (int g = 0; g < std::ssize(groups_); ++g) {
      take(g, report);
      take(g, report);
      groups_[static_cast<std::size_t>(g)].done_s = random_.exponential();
    }
    for (std::int64_t step = 0; step < steps; ++step) {
      int next = -1;
      for (int g = 0; g < std::ssize(groups_); ++g) {
        const Group& group = groups_[static_cast<std::size_t>(g)];
        const bool sooner = next < 0 || group.done_s < groups_[static_cast<std::size_t>(next)].done_s;
        if (!group.tickets.empty() && sooner) next = g;
      }
      Group& group = groups_[static_cast<std::size_t>(next)];
      gradient(group.values);
      report.done = group.tickets.front();
      group.tickets.pop_front();
      tell(next, {.ticket = report.done, .learning_rate = rate});
      updated(group.values);
      take(next, report);
      group.done_s += random_.exponential();
    }
  }

 private:
  struct Group {
    LayerHeader header;
    std::vector<float> values;
    std::deque<std::int64_t> tickets;
    double done_s = 0;
  };

  static std::unique_ptr<LayerStore> store(const OptimizerOptions& options, std::int64_t elements, int groups) {
    ServedParameter parameter;
    parameter.elements = elements;
    return optimized_layers(options, groups)(std::span(&parameter, 1));
  }
  void tell(int g, const LayerHeader& header) {
    Group& group = groups_[static_cast<std::size_t>(g)];
    group.header = header;
    const std::span<const int> answered = layer_.take(g, group.header, group.values.data());
    ASSERT_EQ(std::vector<int>(answered.begin(), answered.end()), std::vector<int>{g});
  }
  void take(int g, const TicketReport& report) {
    for (const Coordinator::Reply& reply : coordinator_.take(g, report)) {
      if (reply.answer.ticket < 0) continue;
      groups_[static_cast<std::size_t>(reply.group)].tickets.push_back(reply.answer.ticket);
    }
  }

  ServedLayer layer_;
  Coordinator coordinator_;
  std::vector<Group> groups_;
  RandomSequence random_;
};

/// a, b of the least squares sum (y - a u - b v)^2.
struct TwoTerms {
  double uu = 0, uv = 0, vv = 0, uy = 0, vy = 0;
  void add(double u, double v, double y) { uu += u * u, uv += u * v, vv += v * v, uy += u * y, vy += v * y; }
  double a() const { return (uy * vv - vy * uv) / (uu * vv - uv * uv); }
  double b() const { return (vy * uu - uy * uv) / (uu * vv - uv * uv); }
};

// Mitliagkas et al. 2016 (arXiv:1605.09774), theorem 1: with M workers and exponential times
//   E[w(t+1) - w(t)] = (1 - 1/M) E[w(t) - w(t-1)] - (rate / M) E[grad f(w(t))].
TEST(Asynchrony, OfGroupsActsAsMomentum) {
  constexpr float kRate = 0.2F;
  const std::vector<double> curvatures = {0.5, 1, 2};
  OptimizerOptions sgd;
  sgd.name = "sgd";
  sgd.momentum = 0;
  for (const int groups : {1, 2, 4, 8, 16}) {
    const std::int64_t steps = 60, seeds = groups == 1 ? 1 : 2000;
    std::vector<std::vector<double>> mean(static_cast<std::size_t>(steps) + 1, std::vector<double>(3));
    for (std::int64_t seed = 0; seed < seeds; ++seed) {
      const std::vector<float> start = {1, 1, 1};
      std::size_t t = 0;
      const auto add = [&](const std::vector<float>& weights) {
        for (std::size_t k = 0; k < 3; ++k) mean[t][k] += static_cast<double>(weights[k]) / static_cast<double>(seeds);
        t += 1;
      };
      add(start);
      Workers(sgd, start, groups, static_cast<std::uint64_t>(seed))
          .run(
              steps, kRate,
              [&](std::vector<float>& w) {
                for (std::size_t k = 0; k < 3; ++k) w[k] *= static_cast<float>(curvatures[k]);
              },
              add);
    }
    TwoTerms fit;
    for (std::size_t t = 1; t + 2 * static_cast<std::size_t>(groups) < mean.size(); ++t) {  // the last have no ticket
      for (std::size_t k = 0; k < 3; ++k) {
        fit.add(mean[t][k] - mean[t - 1][k], -curvatures[k] * mean[t][k], mean[t + 1][k] - mean[t][k]);
      }
    }
    const double expected_rate = static_cast<double>(kRate) / groups;
    EXPECT_NEAR(fit.a(), 1 - 1.0 / groups, 0.02) << groups;
    EXPECT_NEAR(fit.b(), expected_rate, 0.05 * expected_rate) << groups;
  }
}

/// A quadratic with noise in its gradients: 64 elements, curvatures from 0.4 to 0.8.
struct NoisyQuadratic {
  static constexpr std::size_t kElements = 64;
  RandomSequence random{random_stream(11, RandomPurpose::kGenerate), 2};
  double noise = 0.1;

  static double curvature(std::size_t i) { return 0.4 + 0.4 * static_cast<double>(i) / kElements; }
  void gradient(std::vector<float>& w) {
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] = static_cast<float>(curvature(i) * static_cast<double>(w[i]) + noise * random.normal());
    }
  }
};

/// The momentum with which steps go on, x(t+1) - x(t) = m (x(t) - x(t-1)) - rate grad f(x(t)), by least squares; the
/// gradient is the exact one.
class TotalMomentum {
 public:
  void add(const std::vector<float>& weights, double rate) {
    const std::vector<double> now(weights.begin(), weights.end());
    for (std::size_t i = 0; !before_.empty() && i < now.size(); ++i) {
      const double last = at_[i] - before_[i];
      along_ += (now[i] - at_[i] + rate * NoisyQuadratic::curvature(i) * at_[i]) * last;
      squared_ += last * last;
    }
    before_ = std::exchange(at_, now);
  }
  double value() const { return along_ / squared_; }

 private:
  std::vector<double> before_, at_;
  double along_ = 0, squared_ = 0;
};

// The loop of YellowFin on a server holds the momentum that was tuned; without it that of eight groups adds to it.
TEST(Asynchrony, IsMadeUpForByTheClosedLoop) {
  constexpr std::int64_t kSteps = 8000, kSettled = 4000;
  constexpr int kGroups = 8;
  OptimizerOptions options;
  options.name = "yellowfin";
  const std::vector<float> start(NoisyQuadratic::kElements, 1);
  struct Case {
    double noise;
    std::uint64_t seed;
  };
  for (const auto& [noise, seed] : {Case{0.02, 3}, Case{0.02, 4}, Case{0.05, 3}, Case{0.1, 4}}) {
    NoisyQuadratic problem{.noise = noise};
    testing_support::YellowFinReplay tuner(std::vector<double>(start.size()), std::vector<char>(start.size(), 1));
    TotalMomentum total;
    double target = 0, rate = 0;
    std::int64_t step = 0;
    Workers(options, start, kGroups, seed)
        .run(
            kSteps, 1,
            [&](std::vector<float>& w) {
              problem.gradient(w);
              tuner.step({w.begin(), w.end()}, 1, std::vector<double>(w.size()));
              if (++step <= kSettled) return;
              target += tuner.momentum / (kSteps - kSettled);
              rate += tuner.rate / (kSteps - kSettled);
            },
            [&](const std::vector<float>& w) {
              if (step > kSettled) total.add(w, tuner.rate);
            });
    EXPECT_NEAR(total.value(), target, 0.05) << noise << ", seed " << seed;

    OptimizerOptions sgd;
    sgd.name = "sgd";
    sgd.momentum = target;
    TotalMomentum open;
    step = 0;
    Workers(sgd, start, kGroups, seed)
        .run(
            kSteps, static_cast<float>(rate), [&](std::vector<float>& w) { problem.gradient(w); },
            [&](const std::vector<float>& w) {
              if (++step > kSettled) open.add(w, rate);
            });
    // Without it the total is another one, or the steps do not end at all.
    EXPECT_FALSE(std::abs(open.value() - target) <= 0.1) << noise;
  }
}

}  // namespace
}  // namespace petaflow
