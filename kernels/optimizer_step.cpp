// Adam, AdamW and SGD: teams take chunks, so that what depends on the step alone is computed once per chunk.
#include "kernels/optimizer_step.hpp"

#include <algorithm>

#include "kernels/launch.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kChunk = 4096;

/// update(i) for the elements of the team's chunk.
template <class Update>
KOKKOS_INLINE_FUNCTION void for_chunk(const Team& team, const ParameterRange& range, const Update& update) {
  const std::int64_t begin = range.begin + static_cast<std::int64_t>(team.league_rank()) * kChunk;
  const std::int64_t left = range.end - begin, count = left < kChunk ? left : std::int64_t{kChunk};
  Kokkos::parallel_for(Kokkos::TeamVectorRange(team, count), [&](const std::int64_t i) { update(begin + i); });
}

KOKKOS_INLINE_FUNCTION float value_or_one(const float* factor) { return factor == nullptr ? 1.0F : *factor; }

struct Adam {
  AdamOptions options;
  ParameterRange range;
  const StepState* step;
  const float* g;
  float* w;
  float* m;
  float* v;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const double t = static_cast<double>(step->step + 1);
    const float beta1 = options.beta1, beta2 = options.beta2, epsilon = options.epsilon;
    const float clip = value_or_one(range.clip), trust = value_or_one(range.trust);
    const float decay = range.decays && !options.decoupled_decay ? options.weight_decay : 0.0F;
    const float kept = range.decays && options.decoupled_decay ? 1 - step->learning_rate * options.weight_decay : 1.0F;
    const float rate = static_cast<float>(static_cast<double>(step->learning_rate) / (1 - ::pow(double{beta1}, t)));
    const float root = static_cast<float>(1 / ::sqrt(1 - ::pow(double{beta2}, t)));
    const float* gradient = g;
    float *weight = w, *first = m, *second = v;
    for_chunk(team, range, [=](const std::int64_t i) {
      const float d = (gradient[i] * clip + decay * weight[i]) * trust;
      const float m1 = beta1 * first[i] + (1 - beta1) * d;
      const float v1 = beta2 * second[i] + (1 - beta2) * d * d;
      first[i] = m1;
      second[i] = v1;
      weight[i] = weight[i] * kept - rate * m1 / (::sqrtf(v1) * root + epsilon);
    });
  }
};

struct Sgd {
  SgdOptions options;
  ParameterRange range;
  const StepState* step;
  const float* g;
  float* w;
  float* v;

  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const float momentum = options.momentum, rate = step->learning_rate;
    const float clip = value_or_one(range.clip), trust = value_or_one(range.trust);
    const float decay = range.decays ? options.weight_decay : 0.0F;
    const float* gradient = g;
    float *weight = w, *velocity = v;
    if (momentum == 0) {
      for_chunk(team, range,
                [=](const std::int64_t i) { weight[i] -= rate * (gradient[i] * clip + decay * weight[i]) * trust; });
    } else {
      for_chunk(team, range, [=](const std::int64_t i) {
        const float v1 = momentum * velocity[i] + (gradient[i] * clip + decay * weight[i]) * trust;
        velocity[i] = v1;
        weight[i] -= rate * v1;
      });
    }
  }
};

template <class Update>
void run(const Context& context, const std::string& label, const Update& update) {
  const std::int64_t chunks = (update.range.end - update.range.begin + kChunk - 1) / kChunk;
  if (chunks > 0) launch_teams(context, label, chunks, Kokkos::AUTO, update);
}

}  // namespace

void adam_step(const Context& context, const AdamOptions& options, const ParameterRange& range, const float* gradients,
               float* weights, float* first_moment, float* second_moment) {
  run(context, "petaflow::adam[kokkos]"_label,
      Adam{options, range, context.step, gradients, weights, first_moment, second_moment});
}

void sgd_step(const Context& context, const SgdOptions& options, const ParameterRange& range, const float* gradients,
              float* weights, float* velocity) {
  run(context, "petaflow::sgd[kokkos]"_label, Sgd{options, range, context.step, gradients, weights, velocity});
}

void running_step(const Context& context, float momentum, std::int64_t begin, std::int64_t end, const float* batch,
                  float* running) {
  launch(
      context, "petaflow::running_statistics[kokkos]"_label, end - begin,
      KOKKOS_LAMBDA(std::int64_t i) { running[begin + i] += momentum * (batch[begin + i] - running[begin + i]); });
}

}  // namespace petaflow
