#include "train/inference.hpp"

#include "kernels/launch.hpp"

namespace petaflow {

Inference::Inference(const Job& job, Network& trained) : trained_(trained) {
  const DataOptions& data = job.options.data;
  if (job.options.precision == "f32" || (data.validation.empty() && data.test.empty())) return;
  own_ = std::make_unique<Network>(job.app.model(job.app.sample_shape()),
                                   inference_options(job.options, trained.batch()), job.context, job.tuning.get());
}

void Inference::update(const Context& context) {
  if (own_ == nullptr) return;
  copy(context, trained_.weights(), own_->weights(), trained_.parameter_elements());
  context.space.fence();
  own_->refresh(context);
}

}  // namespace petaflow
