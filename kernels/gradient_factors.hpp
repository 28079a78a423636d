// The factors of the gradients of the tensors of a network before the update: clipping by the norm of all of them, and
// LARC by the norms of each.
//
// Clipping: Pascanu et al. 2013 (arXiv:1211.5063), algorithm 1.
// LARS: You et al. 2017 (arXiv:1708.03888), equation 6; LARC: the rate of LARS as an upper bound, Kurth et al. 2018
// (arXiv:1810.01993), section V-B.  Both take eta |w| / (|g| + d |w|) of a tensor, with the L2 weight decay d as in
// NVIDIA Apex (apex/parallel/LARC.py), or 1/16000 (LARS: 1) where a norm is 0, and multiply g + d w by a factor that
// follows from it (TrustForm).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/slice.hpp"
#include "kernels/optimizer_step.hpp"

namespace petaflow {

/// The factor of a tensor, from local = eta |w| / (|g| + d |w|), where g is the mean over samples.
enum class TrustForm : std::uint8_t {
  kLarc,       // min(local / rate, 1): no tensor moves at a higher rate than local
  kLars,       // local
  kCosmoFlow,  // min(local, 1): the code of CosmoFlow (CosmoNet.py), which compares with 1 instead of the rate
  kSc18        // min(local / ranks^2, 1): that of SC18 (climseg_helpers.py), which took the norm of the sum over ranks
               // for that of the mean, and divided by the number of ranks instead of multiplying
};

struct GradientFactorOptions {
  float clip_norm = 0;     // longest gradient of all tensors together; 0: any
  float larc = 0;          // eta, the trust coefficient; 0: no LARC
  float weight_decay = 0;  // L2, of tensors that decay
  TrustForm form = TrustForm::kLarc;
  int ranks = 1;  // kSc18
};

class GradientFactors {
 public:
  /// Elements whose squares are summed together.
  struct Part {
    std::int64_t begin = 0, end = 0;
  };
  struct Tensor {
    std::int64_t begin = 0, first_part = 0, last_part = 0;
    float decay = 0;
  };

  /// @param tensors  their place in the flat arrays, and whether they decay
  GradientFactors(const GradientFactorOptions& options, const std::vector<ParameterRange>& tensors);

  /// The factors of the tensors in [begin, end), which is everything where gradients are clipped.  Reads learning_rate
  /// of *context.step.  Sums are in fixed parts: the factors do not depend on threads.
  /// @param gradients, weights  flat, in MemorySpace; the weights are read for LARC only
  void compute(const Context& context, std::int64_t begin, std::int64_t end, const float* gradients,
               const float* weights);

  /// The factors of all tensors, where each rank has the sum of its own slices of the gradient only: the same bits.
  /// Collective.
  /// @param own  in slices that begin at cuts()
  /// @param sum_over_ranks  replaces the values, in host memory, by their sum
  void compute_shared(const Context& context, std::span<const Slice> own, const float* gradients, const float* weights,
                      const std::function<void(std::span<double>)>& sum_over_ranks);
  /// The elements between which a sum of squares is cut, rising.
  static std::vector<std::int64_t> cuts(const std::vector<ParameterRange>& tensors);

  /// Values in MemorySpace, where the update kernels read them.
  const float* clip() const { return factors_.data(); }
  const float* trust(std::size_t tensor) const { return factors_.data() + 1 + tensor; }

 private:
  void sum_squares(const Context& context, std::int64_t first, std::int64_t last, const float* gradients,
                   const float* weights);
  void make_factors(const Context& context, std::int64_t first_tensor, std::int64_t tensors);

  GradientFactorOptions options_;
  Kokkos::View<Part*, MemorySpace> parts_;
  Kokkos::View<Tensor*, MemorySpace> tensors_;
  std::vector<Tensor> host_tensors_;            // the same
  std::vector<Part> host_parts_;                // likewise
  Kokkos::View<double*, MemorySpace> squares_;  // of the gradient and of the weights of each part
  Kokkos::View<float*, MemorySpace> factors_;   // of clipping, then of each tensor
};

}  // namespace petaflow
