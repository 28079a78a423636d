#include "train/inference.hpp"

#include "kernels/launch.hpp"

namespace petaflow {

Network& Inference::network() {
  if (job_.options.precision == "f32") return trained_;
  if (own_ == nullptr) {
    own_ = std::make_unique<Network>(job_.app.model(job_.app.sample_shape()),
                                     inference_options(job_.options, trained_.batch()), job_.context);
  }
  copy(job_.context, trained_.weights(), own_->weights(), trained_.parameter_elements());
  job_.context.space.fence();
  own_->refresh(job_.context);
  return *own_;
}

}  // namespace petaflow
