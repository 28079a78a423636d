// The list of matrix products and the choice among them.
#include "kernels/gemm.hpp"

#include "base/error.hpp"
#include "kernels/where.hpp"

namespace petaflow {

// The products in order of preference: where each is compiled (the suffix of its file) and its name.  Adding one takes
// its file and a line here.
std::span<const GemmImpl* const> gemm_impls() {
#define LIST(where, impl)       \
  PETAFLOW_IN_##where({         \
    extern const GemmImpl impl; \
    list.push_back(&(impl));    \
  })
  // NOLINTBEGIN(readability-identifier-naming): constants of other files, declared where they are listed
  static const std::vector<const GemmImpl*> all = [] {
    std::vector<const GemmImpl*> list;
    LIST(CUBLAS, kGemmCublas)
    LIST(ONEDNN, kGemmOnednn)
    LIST(KOKKOSKERNELS, kGemmKokkosKernels)
    LIST(ALL, kGemmKokkos)
    return list;
  }();
#undef LIST
  // NOLINTEND(readability-identifier-naming)
  return all;
}

std::vector<std::pair<std::string, const GemmImpl*>> gemm_requests() {
  std::vector<std::pair<std::string, const GemmImpl*>> words = {{"auto", nullptr}};
  for (const GemmImpl* impl : gemm_impls()) words.emplace_back(impl->name, impl);
  return words;
}

GemmChoice choose_gemm(const GemmDesc& desc, const GemmImpl* asked) {
  PETAFLOW_REQUIRE(desc.m > 0 && desc.n > 0 && desc.k > 0, "a product of {} x {} x {}", desc.m, desc.k, desc.n);
  PETAFLOW_REQUIRE(desc.lda >= (desc.transpose_a ? desc.m : desc.k) &&
                       desc.ldb >= (desc.transpose_b ? desc.k : desc.n) && desc.ldc >= desc.n,
                   "rows of {} x {} x {} matrices lie {}, {} and {} elements apart", desc.m, desc.k, desc.n, desc.lda,
                   desc.ldb, desc.ldc);
  PETAFLOW_REQUIRE(desc.beta == 0 || desc.beta == 1, "beta is {}", desc.beta);
  GemmChoice choice;
  for (const GemmImpl* impl : gemm_impls()) {
    if (asked != nullptr && impl != asked) continue;
    const std::string reason = impl->why_not(desc);
    if (reason.empty()) {
      choice.impl = impl;
      choice.kernel = impl->make(desc);
      return choice;
    }
    if (asked != nullptr) {
      user_error("kernels.gemm = \"{}\" does not take a product of {} x {} x {}: {}; \"auto\" takes what accepts it",
                 impl->name, desc.m, desc.k, desc.n, reason);
    }
    choice.refusals.push_back(fmt::format("not {}: {}", impl->name, reason));
  }
  failure("no matrix product accepts {} x {} x {}", desc.m, desc.k, desc.n);
}

}  // namespace petaflow
