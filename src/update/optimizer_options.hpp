// The options of the optimizer.
#pragma once

#include <string>

namespace petaflow {

struct OptimizerOptions {
  std::string name = "adam";
  double lr = 1e-3;
  double momentum = 0.9;                              // sgd
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam, adamw
  double weight_decay = 0;                            // on weights of convolutions and dense layers
  double clip_norm = 0;                               // longer gradients are shortened to this L2 norm; 0: off
  double larc = 0;                                    // trust coefficient of LARC; 0: off
};

}  // namespace petaflow
