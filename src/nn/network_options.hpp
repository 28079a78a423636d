// How a network is to be built.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.hpp"

namespace petaflow {

class ConvTuning;

/// Of a core's L2, for a box of a convolution's output; the rest holds weights and input.
inline constexpr double kCacheShare = 0.5;

/// Which implementation computes what; "auto" takes the first of the list that accepts, "direct" the first convolution
/// that does without transforms, "tune" what `tuning` knows or finds to be the fastest.
struct KernelOptions {
  std::string conv = "auto";
  std::string gemm = "auto";
  std::string f32 = "fma";  // how f32 convolutions multiply; "split3": by three products of bf16 where oneDNN can
  bool bands = true;  // convolution, bias, pool and activation by boxes that stay in cache, instead of whole tensors
  double cache_share = kCacheShare;  // how large the boxes are
  ConvTuning* tuning = nullptr;      // for "tune"; not owned
};

struct NetworkOptions {
  std::int64_t batch = 1;      // slots of one forward and backward pass
  std::int64_t recompute = 1;  // segments that make their values again for backward instead of keeping them; 1: none
  DType precision =
      DType::kF32;           // of activations and gradients between convolutions; all others, weights and sums are f32
  bool backward = true;      // false: inference only, less memory
  bool fixed_order = false;  // the same order of all sums, and so the same bits, on any number of threads
  KernelOptions kernels;
  bool runs = true;  // false: only to be looked at; its memory is asked for but not touched
};

}  // namespace petaflow
