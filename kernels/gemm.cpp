// The choice among the matrix products of this build.
#include "kernels/gemm.hpp"

#include "base/error.hpp"

namespace petaflow {

#ifdef PETAFLOW_HAVE_ONEDNN
extern const GemmImpl kGemmOnednn;
#endif
#ifdef PETAFLOW_HAVE_KOKKOSKERNELS
extern const GemmImpl kGemmKokkosKernels;
#endif
extern const GemmImpl kGemmKokkos;

std::span<const GemmImpl> gemm_impls() {
  static const std::vector<GemmImpl> all = {
#ifdef PETAFLOW_HAVE_ONEDNN
      kGemmOnednn,
#endif
#ifdef PETAFLOW_HAVE_KOKKOSKERNELS
      kGemmKokkosKernels,
#endif
      kGemmKokkos,
  };
  return all;
}

GemmChoice choose_gemm(const GemmDesc& desc, const std::string& forced) {
  PETAFLOW_REQUIRE(desc.m > 0 && desc.n > 0 && desc.k > 0, "a product of {} x {} x {}", desc.m, desc.k, desc.n);
  PETAFLOW_REQUIRE(desc.lda >= (desc.transpose_a ? desc.m : desc.k) &&
                       desc.ldb >= (desc.transpose_b ? desc.k : desc.n) && desc.ldc >= desc.n,
                   "rows of {} x {} x {} matrices lie {}, {} and {} elements apart", desc.m, desc.k, desc.n, desc.lda,
                   desc.ldb, desc.ldc);
  PETAFLOW_REQUIRE(desc.beta == 0 || desc.beta == 1, "beta is {}", desc.beta);
  GemmChoice choice;
  std::string known;
  for (const GemmImpl& impl : gemm_impls()) {
    known += fmt::format("{}\"{}\"", known.empty() ? "" : ", ", impl.name);
    if (forced != "auto" && forced != impl.name) continue;
    const std::string reason = impl.why_not(desc);
    if (reason.empty()) {
      choice.name = impl.name;
      choice.kernel = impl.make(desc);
      return choice;
    }
    choice.refusals.push_back(fmt::format("not {}: {}", impl.name, reason));
  }
  if (!choice.refusals.empty()) {
    user_error("matrix product \"{}\" was asked for, but it does not accept {} x {} x {}: {}", forced, desc.m, desc.k,
               desc.n, choice.refusals.back());
  }
  user_error("there is no matrix product \"{}\" in this build; known: \"auto\", {}", forced, known);
}

}  // namespace petaflow
