// Data of a micro-batch that the network reads: samples, and the step state with targets, weights, indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/side_space.hpp"
#include "base/staged.hpp"
#include "base/target.hpp"
#include "base/tensor.hpp"
#include "data/loader.hpp"

namespace petaflow {

class MicroBatchInputs {
 public:
  /// @param slots    of a micro-batch
  /// @param targets  that the losses read; other targets of a batch stay behind
  MicroBatchInputs(std::int64_t slots, std::vector<TargetSpec> targets);

  /// Has the context's space copy slots [first, first + slots) of the batch, as far as it has them, to the memory of
  /// the execution space; slots without a sample are zeros of index -1 and weight 0.  The batch may go once the
  /// context's space is idle; then the next load() may come.
  /// @param input  (slots, C, D, H, W), dense, of the type of the samples, written
  /// @param state  of the step; its pointers are set here
  void load(const Context& context, const Batch& batch, std::int64_t first, const Tensor& input, StepState state);
  /// Starts to bring the samples of a batch's first slots, beside what the context's space does, for a load() of them
  /// that comes later or never; until then the batch must stay what it is.  On a host it does nothing.
  /// @param batch  null: it is not there yet, but there is to be room for it
  /// @param input  as there, of which nothing is written
  void load_ahead(const Context& context, const Batch* batch, const Tensor& input);
  /// Makes all slots those without a sample; input and targets stay what they are.
  void load_nothing(const Context& context);

  /// Where load() puts the targets, (slots) of each; in MemorySpace, valid as long as this object.
  const std::vector<const void*>& targets() const { return target_pointers_; }
  /// In MemorySpace, valid as long as this object.
  const StepState* state() const { return state_.device(); }

 private:
  using Bytes = Kokkos::View<std::byte*, MemorySpace>;
  /// So many of the slots from `first` on the batch has.
  std::int64_t slots_of(const Batch& batch, std::int64_t first) const;
  void upload(const Context& context, StepState state);

  /// Samples that were brought ahead.
  struct Ahead {
    SideSpace side;
    Bytes samples;
    std::int64_t batch = -1;  // its serial number
  };

  std::int64_t slots_;
  std::vector<TargetSpec> specs_;
  std::vector<Bytes> targets_;
  std::vector<const void*> target_pointers_;
  Staged<StepState> state_;
  Staged<std::int64_t> samples_;  // their indices
  Staged<float> weights_;
  std::unique_ptr<Ahead> ahead_;  // from the first load_ahead() on
};

}  // namespace petaflow
