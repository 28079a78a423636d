// The order of a step, moment by moment, and which gradients are written, added to or cleared on the way.
#pragma once

#include <cstdint>
#include <vector>

#include "nn/lowering.hpp"

namespace petaflow {

/// One moment of a step: a pass of a stage.  kAgain is the forward pass a second time, of stages whose results were
/// given up (activation checkpointing: Chen et al. 2016, arXiv:1604.06174).
struct Action {
  enum class Kind { kForward, kAgain, kBackward };
  Kind kind = Kind::kForward;
  std::size_t stage = 0;
};

struct Timeline {
  std::vector<Action> actions;  // all forward passes, then the others
  std::vector<bool> given_up;   // of each value that is a root: made again before it is read by backward passes
  std::vector<bool> again;      // of each stage: runs a second time
};

/// @param recompute  segments of neighbouring stages, of about the same memory, each of which keeps only what others
///                   read and makes the rest again, except the last; 1: everything is kept; kRecomputeMemoryBound: each
///                   segment ends with the arithmetic of a convolution or a dense layer, which is never done again
///                   (as selective recomputation: Korthikanti et al. 2022, arXiv:2205.05198)
Timeline make_timeline(const LoweredNetwork& network, bool backward, std::int64_t recompute);

/// How the backward pass of a stage gives the gradient of one of its inputs.
struct GradientEdge {
  bool wanted = false;     // otherwise not at all
  bool adds = false;       // to what later stages gave
  bool temporary = false;  // into memory of its own, which is then added
};

/// Some channels of the gradient of a root.
struct GradientSlice {
  std::size_t root = 0;
  std::int64_t begin = 0, end = 0;
};

struct BackwardPlan {
  std::vector<std::vector<GradientEdge>> edges;   // of each stage, by input
  std::vector<std::vector<GradientSlice>> zeros;  // of each stage: to be cleared before it adds to them
};

/// The first stage to give a gradient (backward passes go from the last stage to the first) writes it, others add.
BackwardPlan plan_backward(const LoweredNetwork& network);

}  // namespace petaflow
