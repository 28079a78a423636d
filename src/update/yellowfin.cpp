#include "update/yellowfin.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/gradient_factors.hpp"
#include "kernels/launch.hpp"
#include "kernels/sum_of_squares.hpp"

namespace petaflow {
namespace {

/// Averages the gradient and sums squares, a team for each part.
struct AveragePart {
  const YellowFin::Part* parts;
  const float *gradient, *clip;
  float* average;
  double* squares;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const YellowFin::Part part = parts[team.league_rank()];
    const float factor = clip == nullptr ? 1.0F : *clip, taken = static_cast<float>(1 - YellowFin::kDecay);
    float* const mean = average + part.state;
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, part.begin, part.end),
                         [=, this](const std::int64_t i) { mean[i] += taken * (factor * gradient[i] - mean[i]); });
    team.team_barrier();
    const double g = sum_of_squares(team, gradient, part.begin, part.end);
    const double m = sum_of_squares(team, mean, part.begin, part.end);
    Kokkos::single(Kokkos::PerTeam(team), [&] {
      squares[2 * part.number] = g * static_cast<double>(factor) * static_cast<double>(factor);
      squares[2 * part.number + 1] = m;
    });
  }
};

enum Number {
  kLow = YellowFin::kWindow,
  kHigh,
  kSquare,
  kNorm,
  kDistance,
  kAlong,
  kLast,
  kMomentum
};  // after the window

/// One item.
struct Tune {
  const double* squares;
  std::int64_t parts;
  const StepState* step;
  float *numbers, *tuned;
  bool closed;

  /// Takes a value into an average; its value without the bias of the start.
  KOKKOS_INLINE_FUNCTION double average(Number which, double value, double unbiased) const {
    const double sum = YellowFin::kDecay * static_cast<double>(numbers[which]) + (1 - YellowFin::kDecay) * value;
    numbers[which] = static_cast<float>(sum);
    return sum * unbiased;
  }

  /// sqrt(momentum) that ends nearest to the optimum: the root in [0, 1] of (1 - x)^3 = p x (appendix D).
  KOKKOS_INLINE_FUNCTION static double root_of_momentum(double p) {
    const double cube = (::sqrt(p * p + 4.0 / 27 * p * p * p) + p) / 2, w = -::cbrt(cube);
    const double x = w == 0 ? 1 : w - p / (3 * w) + 1;
    return x < 0 ? 0 : x > 1 ? 1 : x;
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t) const {
    double g2 = 1e-30, m2 = 0;  // a gradient of 0 has a logarithm too
    for (std::int64_t part = 0; part < parts; ++part) {
      g2 += squares[2 * part];
      m2 += squares[2 * part + 1];
    }
    const std::int64_t t = step->step + 1;
    const double unbiased = 1 / (1 - ::pow(YellowFin::kDecay, static_cast<double>(t)));
    numbers[step->step % YellowFin::kWindow] = static_cast<float>(::log(g2));
    double low = static_cast<double>(numbers[0]), high = low;
    for (std::int64_t i = 1; i < YellowFin::kWindow && i < t; ++i) {
      const auto curvature = static_cast<double>(numbers[i]);
      low = curvature < low ? curvature : low;
      high = curvature > high ? curvature : high;
    }
    const double h_min = ::exp(average(kLow, low, unbiased)), h_max = ::exp(average(kHigh, high, unbiased));
    const double square = average(kSquare, g2, unbiased), norm = average(kNorm, ::sqrt(g2), unbiased);
    const double spread = square - m2 * unbiased * unbiased, variance = spread > 1e-6 ? spread : 1e-6;
    const double distance = average(kDistance, norm / square, unbiased);

    const double x = root_of_momentum(distance * distance * h_min * h_min / (2 * variance));
    const double range = ::sqrt(h_max / h_min), robust = (range - 1) / (range + 1);
    const double root = x > robust ? x : robust;
    const double start = static_cast<double>(t) / (10 * YellowFin::kWindow);
    tuned[0] = static_cast<float>(static_cast<double>(step->learning_rate) * (start < 1 ? start : 1) * (1 - root) *
                                  (1 - root) / h_min);
    tuned[2] = static_cast<float>(root * root);
    tuned[1] = closed ? numbers[kMomentum] : tuned[2];
  }
};

/// Sums of what a step kept of the last one, times that, and of its square, a team for each part.
struct FollowPart {
  const YellowFin::Part* parts;
  const float *gradient, *clip, *before, *at, *after, *tuned;
  double* sums;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const YellowFin::Part part = parts[team.league_rank()];
    const auto rate = static_cast<double>(tuned[0]), factor = clip == nullptr ? 1.0 : static_cast<double>(*clip),
               decay = static_cast<double>(part.l2_decay);
    const auto last = [=, this](std::int64_t i) { return static_cast<double>(at[i]) - static_cast<double>(before[i]); };
    double along = 0, squared = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, part.begin, part.end),
        [=, this](const std::int64_t i, double& sum) {
          const double w = static_cast<double>(at[i]), g = factor * static_cast<double>(gradient[i]) + decay * w;
          sum += (static_cast<double>(after[i]) - w + rate * g) * last(i);
        },
        along);
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(team, part.begin, part.end),
        [=](const std::int64_t i, double& sum) { sum += last(i) * last(i); }, squared);
    Kokkos::single(Kokkos::PerTeam(team), [&] {
      sums[2 * part.number] = along;
      sums[2 * part.number + 1] = squared;
    });
  }
};

/// One item.
struct Follow {
  const double* sums;
  std::int64_t parts;
  float* numbers;
  const float* tuned;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t) const {
    double along = YellowFin::kFollowDecay * static_cast<double>(numbers[kAlong]),
           last = YellowFin::kFollowDecay * static_cast<double>(numbers[kLast]);
    for (std::int64_t part = 0; part < parts; ++part) {
      along += sums[2 * part];
      last += sums[2 * part + 1];
    }
    numbers[kAlong] = static_cast<float>(along);
    numbers[kLast] = static_cast<float>(last);
    if (!(last > 0)) return;
    const double momentum =
        static_cast<double>(numbers[kMomentum]) + YellowFin::kGain * (static_cast<double>(tuned[2]) - along / last);
    // A total that cannot be reached must not carry it to where updates never end.
    numbers[kMomentum] = static_cast<float>(momentum < -0.9 ? -0.9 : momentum > 0.99 ? 0.99 : momentum);
  }
};

}  // namespace

YellowFin::YellowFin(const std::vector<ParameterRange>& tensors, const std::vector<Slice>& own, float weight_decay,
                     bool closed)
    : closed_(closed), numbers_("petaflow::yellowfin::numbers", kNumbers), tuned_("petaflow::yellowfin::tuned", 3) {
  std::vector<Part> parts;
  std::int64_t number = 0;
  for (const ParameterRange& tensor : tensors) {
    for (std::int64_t begin = tensor.begin; begin < tensor.end; begin += kSquaresPart, ++number) {
      std::int64_t elements = 0;
      for (const Slice& slice : own) {
        if (slice.begin <= begin && begin < slice.end) {
          parts.push_back({begin, std::min(begin + kSquaresPart, tensor.end), elements - slice.begin, number,
                           tensor.decays ? weight_decay : 0.0F});
        }
        elements += slice.size();
      }
    }
  }
  own_parts_ = std::ssize(parts);
  parts_ = decltype(parts_)("petaflow::yellowfin::parts", parts.size());
  const Kokkos::View<const Part*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(parts.data(), parts.size());
  Kokkos::deep_copy(parts_, host);
  squares_ = decltype(squares_)("petaflow::yellowfin::squares", static_cast<std::size_t>(2 * number));
}

void YellowFin::tune(const Context& context, const float* gradient, const float* clip, float* average,
                     const std::function<void(std::span<double>)>* sum_over_ranks) {
  if (sum_over_ranks != nullptr) Kokkos::deep_copy(context.space, squares_, 0.0);
  if (own_parts_ > 0) {
    launch_teams(context, "petaflow::yellowfin::squares[kokkos]"_label, own_parts_, kSquaresTeam,
                 AveragePart{parts_.data(), gradient, clip, average, squares_.data()});
  }
  if (sum_over_ranks != nullptr) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), squares_);
    context.space.fence();
    (*sum_over_ranks)({host.data(), host.size()});  // a part is one rank's; the others add zero
    Kokkos::deep_copy(squares_, host);
  }
  launch(context, "petaflow::yellowfin::tune[kokkos]"_label, 1,
         Tune{squares_.data(), static_cast<std::int64_t>(squares_.size() / 2), context.step, numbers_.data(),
              tuned_.data(), closed_});
}

void YellowFin::follow(const Context& context, const float* gradient, const float* clip, const float* before,
                       const float* at, const float* after) {
  if (own_parts_ == 0) return;
  PETAFLOW_REQUIRE(2 * own_parts_ == static_cast<std::int64_t>(squares_.size()),
                   "the closed loop follows whole tensors, not slices");
  launch_teams(context, "petaflow::yellowfin::steps[kokkos]"_label, own_parts_, kSquaresTeam,
               FollowPart{parts_.data(), gradient, clip, before, at, after, tuned_.data(), squares_.data()});
  launch(context, "petaflow::yellowfin::follow[kokkos]"_label, 1,
         Follow{squares_.data(), own_parts_, numbers_.data(), tuned_.data()});
}

}  // namespace petaflow
