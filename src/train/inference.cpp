#include "train/inference.hpp"

#include "kernels/launch.hpp"

namespace petaflow {

void Inference::update(const Context& context) {
  if (own_ == nullptr) return;
  copy(context, trained_.weights(), own_->weights(), trained_.parameter_elements());
  context.space.fence();
  own_->refresh(context);
}

}  // namespace petaflow
