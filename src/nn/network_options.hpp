// How a network is to be built.
#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/conv.hpp"
#include "kernels/gemm.hpp"

namespace petaflow {

/// Share of a core's L2 for a tile of a convolution's output; the rest holds weights and input.
inline constexpr double kCacheShare = 0.5;

/// How one pass of a convolution is computed.
struct ConvPassOptions {
  ConvRequest conv = {};
  bool tiles = true;  // convolution, bias, pool and activation by tiles that stay in cache, instead of whole tensors
  double cache_share = kCacheShare;  // how large the tiles are
};

/// Which implementation computes what.
struct KernelOptions {
  ConvRequest conv = {};
  const GemmImpl* gemm = nullptr;  // nullptr: the first that accepts
  F32Products f32 = F32Products::kFma;
  bool tiles = true;  // this and the next one: as in ConvPassOptions
  double cache_share = kCacheShare;
  bool replay = true;  // on a GPU: what is the same in every step is recorded once (Replay)
};

/// Builds for finding mistakes: all networks fill what is not alive.
#ifdef NDEBUG
inline constexpr bool kFillsDead = false;
#else
inline constexpr bool kFillsDead = true;
#endif

/// As NetworkOptions::recompute: what memory-bound stages give is made again, nothing else.
inline constexpr std::int64_t kRecomputeMemoryBound = 0;

struct NetworkOptions {
  std::int64_t batch = 1;      // slots of a micro-batch
  std::int64_t recompute = 1;  // segments that make their values again for backward instead of keeping them; 1: none;
                               // or kRecomputeMemoryBound
  DType precision =
      DType::kF32;       // of activations and gradients between convolutions; all others, weights and sums are f32
  bool backward = true;  // false: inference only, less memory
  bool plans_gradient = false;  // the flat gradient lies in the arena, where values are that backward has done with
  bool fixed_order = false;     // the same order of all sums, and so the same bits, on any number of threads
  KernelOptions kernels;
  bool runs = true;              // false: only to be looked at; its memory is asked for but not touched
  bool fills_dead = kFillsDead;  // what is not alive yet, or no longer, is NaN: for tests
};

}  // namespace petaflow
