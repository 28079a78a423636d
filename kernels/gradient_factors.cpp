#include "kernels/gradient_factors.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/launch.hpp"
#include "kernels/sum_of_squares.hpp"

namespace petaflow {
namespace {

struct SumNormPart {
  const GradientFactors::Part* parts;
  const float *gradients, *weights;  // weights may be null
  double* squares;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const std::int64_t part = team.league_rank();
    const double g = sum_of_squares(team, gradients, parts[part].begin, parts[part].end);
    const double w = weights == nullptr ? 0 : sum_of_squares(team, weights, parts[part].begin, parts[part].end);
    Kokkos::single(Kokkos::PerTeam(team), [&] {
      squares[2 * part] = g;
      squares[2 * part + 1] = w;
    });
  }
};

struct Factors {
  GradientFactorOptions options;
  const GradientFactors::Tensor* tensors;
  std::int64_t parts;
  const double* squares;
  const StepState* step;
  float *clip_factor, *trust;

  KOKKOS_INLINE_FUNCTION double norm(std::int64_t first, std::int64_t last, int which) const {
    double sum = 0;
    for (std::int64_t part = first; part < last; ++part) sum += squares[2 * part + which];
    return ::sqrt(sum);
  }

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    double clip = 1;
    if (options.clip_norm > 0) {
      const double all = norm(0, parts, 0), limit = static_cast<double>(options.clip_norm);
      if (all > limit) clip = limit / all;
    }
    if (item == 0) *clip_factor = static_cast<float>(clip);
    if (options.larc == 0) return;
    const GradientFactors::Tensor& tensor = tensors[item];
    const double g = clip * norm(tensor.first_part, tensor.last_part, 0);
    const double w = norm(tensor.first_part, tensor.last_part, 1);
    const double rate = static_cast<double>(step->learning_rate), ranks = options.ranks;
    double local = options.form == TrustForm::kLars ? 1 : 1.0 / 16000;
    if (w > 0 && g > 0) local = static_cast<double>(options.larc) * w / (g + static_cast<double>(tensor.decay) * w);
    double factor = local;
    switch (options.form) {
      case TrustForm::kLarc:
        factor = local < rate ? local / rate : 1;
        break;
      case TrustForm::kLars:
        break;
      case TrustForm::kCosmoFlow:
        factor = local < 1 ? local : 1;
        break;
      case TrustForm::kSc18:
        factor = local < ranks * ranks ? local / (ranks * ranks) : 1;
        break;
    }
    trust[item] = static_cast<float>(factor);
  }
};

}  // namespace

GradientFactors::GradientFactors(const GradientFactorOptions& options, const std::vector<ParameterRange>& tensors)
    : options_(options), tensors_("petaflow::optimizer::tensors", tensors.size()), host_tensors_(tensors.size()) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Tensor& tensor = host_tensors_[i];
    tensor.begin = tensors[i].begin;
    tensor.decay = tensors[i].decays ? options.weight_decay : 0.0F;
    tensor.first_part = std::ssize(host_parts_);
    for (std::int64_t begin = tensors[i].begin; begin < tensors[i].end; begin += kSquaresPart) {
      host_parts_.push_back({begin, std::min(begin + kSquaresPart, tensors[i].end)});
    }
    tensor.last_part = std::ssize(host_parts_);
  }
  const Kokkos::View<const Tensor*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host_tensors(host_tensors_.data(),
                                                                                             tensors.size());
  Kokkos::deep_copy(tensors_, host_tensors);
  const std::size_t parts = host_parts_.size();
  parts_ = decltype(parts_)("petaflow::optimizer::parts", parts);
  const Kokkos::View<const Part*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host_parts(host_parts_.data(), parts);
  Kokkos::deep_copy(parts_, host_parts);
  squares_ = decltype(squares_)("petaflow::optimizer::squares", 2 * parts);
  factors_ = decltype(factors_)("petaflow::optimizer::factors", 1 + tensors.size());
}

std::vector<std::int64_t> GradientFactors::cuts(const std::vector<ParameterRange>& tensors) {
  std::vector<std::int64_t> cuts;
  for (const ParameterRange& tensor : tensors) {
    for (std::int64_t begin = tensor.begin; begin < tensor.end; begin += kSquaresPart) cuts.push_back(begin);
  }
  return cuts;
}

// Sums the squares of parts [first, last).
void GradientFactors::sum_squares(const Context& context, std::int64_t first, std::int64_t last, const float* gradients,
                                  const float* weights) {
  launch_teams(context, "petaflow::optimizer::squares[kokkos]"_label, last - first, kSquaresTeam,
               SumNormPart{parts_.data() + first, gradients, options_.larc > 0 ? weights : nullptr,
                           squares_.data() + 2 * first});
}

// From the squares of their parts; clipping takes those of all tensors.
void GradientFactors::make_factors(const Context& context, std::int64_t first_tensor, std::int64_t tensors) {
  const Tensor &first = host_tensors_[static_cast<std::size_t>(first_tensor)],
               &last = host_tensors_[static_cast<std::size_t>(first_tensor + tensors - 1)];
  launch(context, "petaflow::optimizer::factors[kokkos]"_label, options_.larc > 0 ? tensors : 1,
         Factors{options_, tensors_.data() + first_tensor, last.last_part - first.first_part, squares_.data(),
                 context.step, factors_.data(), factors_.data() + 1 + first_tensor});
}

void GradientFactors::compute(const Context& context, std::int64_t begin, std::int64_t end, const float* gradients,
                              const float* weights) {
  const auto at = [&](std::int64_t element) {
    return std::ranges::lower_bound(host_tensors_, element, {}, &Tensor::begin) - host_tensors_.begin();
  };
  const std::int64_t first = at(begin), tensors = at(end) - first;
  PETAFLOW_REQUIRE(options_.clip_norm == 0 || tensors == std::ssize(host_tensors_), "{} of {} tensors to be clipped",
                   tensors, host_tensors_.size());
  if (tensors == 0) return;
  sum_squares(context, host_tensors_[static_cast<std::size_t>(first)].first_part,
              host_tensors_[static_cast<std::size_t>(first + tensors - 1)].last_part, gradients, weights);
  make_factors(context, first, tensors);
}

void GradientFactors::compute_shared(const Context& context, std::span<const Slice> own, const float* gradients,
                                     const float* weights,
                                     const std::function<void(std::span<double>)>& sum_over_ranks) {
  if (host_parts_.empty()) return;
  const auto at = [&](std::int64_t element) {
    return std::ranges::lower_bound(host_parts_, element, {}, &Part::begin) - host_parts_.begin();
  };
  Kokkos::deep_copy(context.space, squares_, 0.0);
  for (const Slice& slice : own) {
    const std::int64_t first = at(slice.begin), last = at(slice.end);
    if (last > first) sum_squares(context, first, last, gradients, weights);
  }
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), squares_);
  context.space.fence();
  sum_over_ranks({host.data(), host.size()});  // a part is one rank's; the others add zero
  Kokkos::deep_copy(squares_, host);
  make_factors(context, 0, std::ssize(host_tensors_));
}

}  // namespace petaflow
