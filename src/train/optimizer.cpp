#include "train/optimizer.hpp"

#include <cmath>
#include <numeric>

namespace petaflow {

Optimizer::Optimizer(const OptimizerOptions& options, const std::vector<Parameter>& parameters) : options_(options) {
  std::int64_t end = 0;
  for (const Parameter& parameter : parameters) {
    const std::int64_t begin = parameter.offset;
    end = begin + parameter.spec.elements();
    if (!ranges_.empty() && ranges_.back().end == begin && ranges_.back().decays == parameter.spec.decays) {
      ranges_.back().end = end;
    } else {
      ranges_.push_back({begin, end, parameter.spec.decays, 1});
    }
  }
  const auto count = static_cast<std::size_t>(end);
  if (options.name == "adam" || options.momentum != 0) first_ = decltype(first_)("petaflow::optimizer::first", count);
  if (options.name == "adam") second_ = decltype(second_)("petaflow::optimizer::second", count);
}

std::vector<OptimizerState> Optimizer::states() const {
  if (options_.name == "adam") return {{"exp_avg", first_.data()}, {"exp_avg_sq", second_.data()}};
  if (options_.momentum != 0) return {{"momentum_buffer", first_.data()}};
  return {};
}

namespace {

/// What the gradient must be multiplied with so that its L2 norm is at most `limit` (Pascanu et al. 2013).
float clip_factor(const Context& context, const float* gradient, std::int64_t count, double limit) {
  // Fixed parts, added in their order: the same norm on any number of threads.
  constexpr std::int64_t kParts = 1024;
  const Kokkos::View<double*, MemorySpace> parts("petaflow::optimizer::norm", kParts);
  Kokkos::parallel_for(
      "petaflow::optimizer::norm", Kokkos::RangePolicy<ExecutionSpace>(context.space, 0, kParts),
      KOKKOS_LAMBDA(std::int64_t part) {
        double sum = 0;
        for (std::int64_t i = count * part / kParts; i < count * (part + 1) / kParts; ++i) {
          sum += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
        }
        parts(part) = sum;
      });
  const auto host_parts = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), parts);
  const double sum = std::accumulate(host_parts.data(), host_parts.data() + kParts, 0.0);
  const double norm = std::sqrt(sum);
  return norm > limit ? static_cast<float>(limit / norm) : 1.0F;
}

}  // namespace

void Optimizer::step(const Context& context, const float* gradient, float* weights) {
  const auto f32 = [](double value) { return static_cast<float>(value); };
  const float scale =
      options_.clip_norm > 0 ? clip_factor(context, gradient, ranges_.back().end, options_.clip_norm) : 1.0F;
  for (ParameterRange range : ranges_) {
    range.gradient_scale = scale;
    if (options_.name == "adam") {
      const AdamOptions adam{f32(options_.beta1), f32(options_.beta2), f32(options_.epsilon),
                             f32(options_.weight_decay)};
      adam_step(context, adam, range, gradient, weights, first_.data(), second_.data());
    } else {
      const SgdOptions sgd{f32(options_.momentum), f32(options_.weight_decay)};
      sgd_step(context, sgd, range, gradient, weights, first_.data());
    }
  }
}

}  // namespace petaflow
