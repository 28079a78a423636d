// The optimizers' update of flat f32 parameters, one pass over memory.
#pragma once

#include "base/context.hpp"

namespace petaflow {

/// Adam, Kingma & Ba 2015 (arXiv:1412.6980), algorithm 1, with epsilon added to sqrt(v / (1 - beta2^t)) as PyTorch
/// does.
struct AdamOptions {
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F;
  float weight_decay = 0;  // L2: added to the gradient as weight_decay * w (torch.optim.Adam)
  /// Instead w -= rate weight_decay w, before the update (torch.optim.AdamW; Loshchilov & Hutter, arXiv:1711.05101).
  bool decoupled_decay = false;
};

/// v = momentum v + g, w -= rate v (torch.optim.SGD without dampening; v starts at 0).
struct SgdOptions {
  float momentum = 0;
  float weight_decay = 0;  // L2, as above
};

/// A range [begin, end) of flat parameters that are treated alike.
struct ParameterRange {
  std::int64_t begin = 0, end = 0;
  bool decays = true;            // weight_decay applies
  const float* clip = nullptr;   // in MemorySpace: multiplies the gradient first; null: 1
  const float* trust = nullptr;  // in MemorySpace: multiplies the gradient with its L2 decay; null: 1
};

/// Both read learning_rate from *context.step, Adam also step (t = step + 1: the caller counts steps after the update).
/// Arrays are indexed by the range; gradients are read, weights and state are updated in place.
void adam_step(const Context& context, const AdamOptions& options, const ParameterRange& range, const float* gradients,
               float* weights, float* first_moment, float* second_moment);
/// momentum 0: velocity is not touched and may be null.
void sgd_step(const Context& context, const SgdOptions& options, const ParameterRange& range, const float* gradients,
              float* weights, float* velocity);

/// Running statistics, in PyTorch's convention: running += momentum (batch - running) in [begin, end).
void running_step(const Context& context, float momentum, std::int64_t begin, std::int64_t end, const float* batch,
                  float* running);

}  // namespace petaflow
