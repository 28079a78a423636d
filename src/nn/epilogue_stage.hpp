// The stage of pooling, activation and dropout that follow no convolution or dense layer.
#pragma once

#include <string>

#include "kernels/epilogue.hpp"
#include "nn/stage.hpp"

namespace petaflow {

class EpilogueStage final : public Stage {
 public:
  EpilogueStage(const std::string& name, const EpilogueDesc& desc, bool backward);

  std::size_t saved_bytes() const override;
  bool takes_slices() const override { return true; }
  void forward(const Context& context) override;
  void backward(const Context& context, float* gradient) override;

 private:
  EpilogueDesc desc_;
  bool keeps_;
  std::string forward_label_, backward_label_;
};

}  // namespace petaflow
