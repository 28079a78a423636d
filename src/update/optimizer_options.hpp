// The options of the optimizer.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/gradient_factors.hpp"

namespace petaflow {

/// Arrays that something is done to: all that are trained, or weights of convolutions and dense layers alone, not
/// biases nor scales and shifts of batch norm.
enum class ArrayScope : std::uint8_t { kAll, kWeights };

struct OptimizerOptions {
  std::string name = "adam";
  double lr = 1e-3;
  double momentum = 0.9;                              // sgd
  bool nesterov = false;                              // sgd: the gradient is taken once more than its momentum
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;  // adam, adamw, lamb
  double weight_decay = 0;
  ArrayScope decay_scope = ArrayScope::kWeights;  // what decays
  double clip_norm = 0;                           // longer gradients are shortened to this L2 norm; 0: off
  double larc = 0;                                // trust coefficient of LARC; 0: off
  TrustForm larc_form = TrustForm::kLarc;
  ArrayScope trust_scope = ArrayScope::kAll;  // what moves at a rate of its own (larc, lamb)
  double ema = 0;               // decay of the average of the weights that takes their place in use; 0: off
  int ranks = 1;                // among which the samples of a gradient are divided: of the program, not of the user
  bool keeps_momentum = false;  // sgd: the average of gradients too where momentum is 0; of the program
  bool closed_loop = false;     // yellowfin: its momentum makes up for that of others' updates; of the program too
};

}  // namespace petaflow
