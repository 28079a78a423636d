// The memory of a step: which blocks there are, from which moment to which they are alive, and where in the arena the
// operands of every stage lie.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nn/arena.hpp"
#include "nn/timeline.hpp"

namespace petaflow {

/// Elements [begin, end) of the flat gradient, which the backward pass of a stage writes.
struct GradientPart {
  std::size_t stage = 0;
  std::int64_t begin = 0, end = 0;
  std::string name;  // of the layer
};

class StepMemory {
 public:
  /// Plans and allocates.  A moment is the index of an action of the timeline.
  /// @param weights   elements of the flat weights
  /// @param gradient  all of the flat gradient, where it is planned
  StepMemory(const LoweredNetwork& network, const Timeline& timeline, const BackwardPlan& plan,
             const NetworkOptions& options, std::int64_t weights, const std::vector<GradientPart>& gradient);

  Arena& arena() { return arena_; }
  const Arena& arena() const { return arena_; }
  float* weights() const { return reinterpret_cast<float*>(arena_.block(weights_)); }
  /// The flat gradient, of which each part is there from its stage's backward pass to the next step; null: not planned.
  float* flat_gradient() const { return flat_gradient_; }
  /// A value as the first forward pass writes it.
  Tensor value(std::size_t value) const;
  /// The gradient of a value; no data where nobody wants it.
  Tensor gradient(std::size_t value) const;
  Tensor gradient(const GradientSlice& slice) const;
  /// The gradient of an input of a stage, to which a temporary one (GradientEdge) is added.
  Tensor gradient_of_input(std::size_t stage, std::size_t input) const { return gradient(inputs_[stage][input]); }
  /// The operands of a stage, which differ between the first forward pass and the others where values are made again.
  StageBuffers buffers(std::size_t stage, Action::Kind kind) const;

 private:
  // Indices of blocks.
  struct StageBlocks {
    std::size_t forward_scratch = 0, again_scratch = 0, backward_scratch = 0;
    std::size_t saved_first = 0, saved = 0;             // 0 (the weights): none
    std::vector<std::optional<std::size_t>> temporary;  // by input
  };

  /// Channels [begin, end) of a root in this memory.
  Tensor slice(std::size_t root, std::int64_t begin, std::int64_t end, std::byte* memory) const;
  Tensor slice_of(std::size_t value, std::size_t block) const;

  std::vector<LoweredValue> values_;
  std::vector<std::vector<std::size_t>> inputs_, outputs_;  // of the stages
  std::vector<std::vector<GradientEdge>> edges_;
  std::vector<std::size_t> forward_blocks_, backward_blocks_;  // of each root: of the first forward pass, of others
  std::vector<std::optional<std::size_t>> gradient_blocks_;    // of each root
  std::vector<StageBlocks> stages_;
  std::size_t weights_ = 0;
  float* flat_gradient_ = nullptr;
  Arena arena_;
};

}  // namespace petaflow
