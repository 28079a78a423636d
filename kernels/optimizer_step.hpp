// Ranges of flat f32 parameters, and the update of those that are not trained.
#pragma once

#include <cstdint>

#include "base/context.hpp"

namespace petaflow {

/// A range [begin, end) of flat parameters that are treated alike.
struct ParameterRange {
  std::int64_t begin = 0, end = 0;
  bool decays = true;            // weight decay applies
  const float* clip = nullptr;   // in MemorySpace: multiplies the gradient first; null: 1
  const float* trust = nullptr;  // in MemorySpace: multiplies the gradient with its L2 decay; null: 1
  std::int64_t state = 0;        // place of element 0 in the arrays of a rule; negative where these begin later
  const float* tuned = nullptr;  // in MemorySpace: learning rate and momentum of a rule that finds them itself
};

/// Running statistics, in PyTorch's convention: running += momentum (batch - running) in [begin, end).
void running_step(const Context& context, float momentum, std::int64_t begin, std::int64_t end, const float* batch,
                  float* running);

}  // namespace petaflow
