// Matrix product by Kokkos Kernels (KokkosBlas::gemm), which hands over to the BLAS that it was built with.
#include <KokkosBlas3_gemm.hpp>

#include "base/region.hpp"
#include "kernels/gemm.hpp"

namespace petaflow {
namespace {

template <class T>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, Kokkos::Device<ExecutionSpace, MemorySpace>,
                            Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

class KokkosKernelsGemm final : public GemmKernel {
 public:
  explicit KokkosKernelsGemm(const GemmDesc& desc) : desc_(desc) {}

  void run(const Context&, const float* a, const float* b, float* c, std::byte*) const override {
    const Region region("petaflow::gemm[kokkoskernels]"_label);
    const Matrix<const float> x = matrix(a, desc_.transpose_a, desc_.m, desc_.k);
    const Matrix<const float> y = matrix(b, desc_.transpose_b, desc_.k, desc_.n);
    const Matrix<float> z(c, size(desc_.m), size(desc_.n));
    KokkosBlas::gemm(desc_.transpose_a ? "T" : "N", desc_.transpose_b ? "T" : "N", 1.0F, x, y, desc_.beta, z);
  }

  std::string detail() const override { return "kokkoskernels"; }

 private:
  static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
  static Matrix<const float> matrix(const float* data, bool transpose, std::int64_t rows, std::int64_t columns) {
    return transpose ? Matrix<const float>(data, size(columns), size(rows))
                     : Matrix<const float>(data, size(rows), size(columns));
  }

  GemmDesc desc_;
};

std::string why_not(const GemmDesc& desc) {
  if (desc.threads == 1) return "it is parallel itself: nothing for one thread, nor inside a parallel region";
  if (desc.lda != (desc.transpose_a ? desc.m : desc.k) || desc.ldb != (desc.transpose_b ? desc.k : desc.n) ||
      desc.ldc != desc.n) {
    return "rows that are not adjacent";
  }
  return {};
}

}  // namespace

extern const GemmImpl kGemmKokkosKernels;
const GemmImpl kGemmKokkosKernels = {"kokkoskernels", why_not, [](const GemmDesc& desc) -> std::unique_ptr<GemmKernel> {
                                       return std::make_unique<KokkosKernelsGemm>(desc);
                                     }};

}  // namespace petaflow
