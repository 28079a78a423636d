// Matrix product: the descriptor, the kernel interface and the ordered list of implementations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/context.hpp"

namespace petaflow {

/// C = op(A) op(B) + beta C in f32, matrices stored by rows: op(A) (m, k), op(B) (k, n), C (m, n).
/// A is stored (m, k), or (k, m) where transpose_a, its rows lda elements apart; B and C likewise.
struct GemmDesc {
  std::int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  std::int64_t lda = 0, ldb = 0, ldc = 0;
  float beta = 0;   // 0: C = (what C held is not read), 1: C +=
  int threads = 1;  // 1: called from inside a parallel region; otherwise the kernel is parallel itself
};

/// A product ready to run; concurrent calls need a scratch each.
class GemmKernel {
 public:
  virtual ~GemmKernel() = default;
  /// @param scratch scratch_bytes() of them, 64-byte aligned; may be null where that is 0
  virtual void run(const Context& context, const float* a, const float* b, float* c, std::byte* scratch) const = 0;
  virtual std::size_t scratch_bytes() const { return 0; }
  /// Name of the code that runs, for the log: "onednn brg:avx512_core".
  virtual std::string detail() const = 0;
};

struct GemmImpl {
  const char* name;
  std::string (*why_not)(const GemmDesc& desc);  // empty where the implementation accepts, otherwise the reason
  std::unique_ptr<GemmKernel> (*make)(const GemmDesc& desc);
};

/// The implementations of this build in order of preference; "kokkos" is last and never refuses.
std::span<const GemmImpl* const> gemm_impls();

/// The words for the implementation that is to be taken: "auto" (nullptr: the first that accepts) and their names.
std::vector<std::pair<std::string, const GemmImpl*>> gemm_requests();

struct GemmChoice {
  const GemmImpl* impl = nullptr;
  std::unique_ptr<GemmKernel> kernel;
  std::vector<std::string> refusals;  // "not onednn: ..." of those passed over
};

/// The first implementation that accepts, or the one that is asked for; that it refuses is a user error with the
/// reason. Throws a failure where sizes or row distances make no sense.
GemmChoice choose_gemm(const GemmDesc& desc, const GemmImpl* asked = nullptr);

}  // namespace petaflow
