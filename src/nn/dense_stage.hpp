// The stage of a dense layer and what follows it: bias, activation, dropout.
#pragma once

#include <optional>

#include "kernels/epilogue.hpp"
#include "kernels/gemm.hpp"
#include "nn/parallel.hpp"
#include "nn/stage.hpp"

namespace petaflow {

class DenseStage final : public Stage {
 public:
  struct Options {
    std::string name;
    Shape x;                // flattened in memory order (D, H, W, C)
    EpilogueDesc epilogue;  // v and y (N, outputs)
    StageParameter weight;
    std::optional<StageParameter> bias;
    bool backward = true, wants_dx = true, fixed_order = false;
    const GemmImpl* gemm = nullptr;  // as in KernelOptions
  };
  DenseStage(const Options& options, const Context& context);

  std::size_t saved_bytes() const override;
  std::size_t forward_scratch_bytes() const override;
  std::size_t backward_scratch_bytes() const override;
  bool backward_needs_input(std::size_t /*input*/) const override { return true; }
  void forward(const Context& context) override;
  void backward(const Context& context, float* gradient) override;

  std::string describe_forward() const override { return forward_.kernel->detail(); }
  std::string describe_backward_data() const override { return data_.kernel ? data_.kernel->detail() : "-"; }
  std::string describe_backward_weights() const override { return weights_.kernel ? weights_.kernel->detail() : "-"; }
  std::vector<std::string> refusals() const override;
  StageKind kind() const override { return StageKind::kDense; }

 private:
  Epilogue epilogue() const;

  Options options_;
  Division division_;
  GemmChoice forward_, weights_, data_;
  std::string forward_label_, backward_label_;
  std::size_t v_bytes_ = 0;  // (N, outputs), then the scratch of the products
};

}  // namespace petaflow
