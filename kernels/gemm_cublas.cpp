// Matrix product by cuBLAS (https://docs.nvidia.com/cuda/cublas), in f32: products are not rounded to TF32.
#include <cublas_v2.h>

#include "base/error.hpp"
#include "base/region.hpp"
#include "kernels/gemm.hpp"

namespace petaflow {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) failure("cuBLAS: {}: {}", what, cublasGetStatusString(status));
}

// One for the process, which works on one device; null where there is none.
struct Library {
  cublasHandle_t handle = nullptr;
  std::string why_none;

  Library() {
    if (const cublasStatus_t status = cublasCreate(&handle); status != CUBLAS_STATUS_SUCCESS) {
      handle = nullptr;
      why_none = fmt::format("no device: {}", cublasGetStatusString(status));
    }
  }
};
const Library& library() {
  static const Library started;
  return started;
}

class CublasGemm final : public GemmKernel {
 public:
  explicit CublasGemm(const GemmDesc& desc) : desc_(desc) {}

  // Matrices are stored by rows, for cuBLAS by columns: it computes C^T = op(B)^T op(A)^T.
  void run(const Context& context, const float* a, const float* b, float* c, std::byte* scratch) const override {
    const Region region("petaflow::gemm[cublas]"_label);
    const cublasHandle_t handle = library().handle;
    const auto begin = (reinterpret_cast<std::uintptr_t>(scratch) + kAlignment - 1) / kAlignment * kAlignment;
    check(cublasSetStream(handle, context.space.cuda_stream()), "its stream cannot be set");
    // Memory of its own would be asked for while a graph is recorded.  To be set behind the stream, which takes it
    // away.
    check(cublasSetWorkspace(handle, reinterpret_cast<void*>(begin), kWorkspace), "its workspace cannot be set");
    const float one = 1;
    const auto op = [](bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
    check(cublasSgemm_64(handle, op(desc_.transpose_b), op(desc_.transpose_a), desc_.n, desc_.m, desc_.k, &one, b,
                         desc_.ldb, a, desc_.lda, &desc_.beta, c, desc_.ldc),
          "a product fails");
  }

  std::size_t scratch_bytes() const override { return kWorkspace + kAlignment; }
  std::string detail() const override { return "cublas sgemm"; }

 private:
  static constexpr std::size_t kWorkspace = 32 << 20;  // what its manual names for Hopper ("cublasSetWorkspace()")
  static constexpr std::uintptr_t kAlignment = 256;

  GemmDesc desc_;
};

}  // namespace

extern const GemmImpl kGemmCublas;
const GemmImpl kGemmCublas = {
    "cublas", [](const GemmDesc&) { return library().why_none; },
    [](const GemmDesc& desc) -> std::unique_ptr<GemmKernel> { return std::make_unique<CublasGemm>(desc); }};

}  // namespace petaflow
