// The portable matrix product: blocks of kPoints rows x kBlock columns stay in registers.  It never refuses.
#include <fmt/format.h>

#include "kernels/gemm.hpp"
#include "kernels/lanes.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace {

using lanes::kBlock;
using lanes::kLanes;
using lanes::unrolled;

constexpr std::int64_t blocks_of(std::int64_t size, std::int64_t block) { return (size + block - 1) / block; }

/// B stored (n, k) becomes [block of columns][k][kBlock], one row of B per item; columns beyond n are not written.
struct PackColumns {
  std::int64_t k, ldb;
  const float* b;
  float* packed;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t column) const {
    float* to = packed + column / kBlock * k * kBlock + column % kBlock;
    for (std::int64_t i = 0; i < k; ++i) to[i * kBlock] = b[column * ldb + i];
  }
};

struct Product {
  GemmDesc desc;
  std::int64_t row_blocks;
  const float* a;
  const float* b;  // as stored, or packed where transpose_b
  float* c;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t item) const {
    const std::int64_t at = item % row_blocks, column = item / row_blocks * kBlock;
    const std::int64_t begin = desc.m * at / row_blocks, end = desc.m * (at + 1) / row_blocks;
    const std::int64_t columns = desc.n - column < kBlock ? desc.n - column : kBlock;
    run<lanes::kVectors, lanes::kPoints>(begin, static_cast<int>(end - begin), column, static_cast<int>(columns));
  }

 private:
  template <int kVectors, int kRows>
  KOKKOS_INLINE_FUNCTION void run(std::int64_t row, int rows, std::int64_t column, int columns) const {
    if constexpr (kVectors > 1) {
      if (columns <= (kVectors - 1) * kLanes) return run<kVectors - 1, kRows>(row, rows, column, columns);
    }
    if constexpr (kRows > 1) {
      if (rows < kRows) return run<kVectors, kRows - 1>(row, rows, column, columns);
    }
    compute<kVectors, kRows>(row, column, columns);
  }

  template <int kVectors, int kRows>
  KOKKOS_INLINE_FUNCTION void compute(std::int64_t row, std::int64_t column, int columns) const {
    const std::int64_t b_step = desc.transpose_b ? kBlock : desc.ldb, a_step = desc.transpose_a ? desc.lda : 1;
    const float* from = b + (desc.transpose_b ? column * desc.k : column);
    const float* x[kRows];
    unrolled<kRows>([&](auto r) { x[r] = a + (desc.transpose_a ? row + r : (row + r) * desc.lda); });
    lanes::Floats sum[kRows][kVectors] = {};
    const int last = columns - (kVectors - 1) * kLanes;  // lanes of the last register
    for (std::int64_t i = 0; i < desc.k; ++i, from += b_step) {
      lanes::Floats value[kVectors];
      unrolled<kVectors - 1>([&](auto v) { lanes::load(from + v * kLanes, value[v]); });
      if (last == kLanes) {
        lanes::load(from + (kVectors - 1) * kLanes, value[kVectors - 1]);
      } else {
        lanes::load_part(from + (kVectors - 1) * kLanes, last, value[kVectors - 1]);
      }
      unrolled<kRows>([&](auto r) {
        const float scale = x[r][i * a_step];
        unrolled<kVectors>([&](auto v) { lanes::multiply_add(sum[r][v], scale, value[v]); });
      });
    }
    unrolled<kRows>([&](auto r) {
      unrolled<kVectors>([&](auto v) {
        float* to = c + (row + r) * desc.ldc + column + v * kLanes;
        const int count = v == kVectors - 1 ? last : kLanes;
        if (desc.beta != 0) {
          lanes::Floats before;
          lanes::load_part(to, count, before);
          lanes::multiply_add(sum[r][v], 1.0F, before);
        }
        lanes::store(to, count, sum[r][v]);
      });
    });
  }
};

class KokkosGemm final : public GemmKernel {
 public:
  explicit KokkosGemm(const GemmDesc& desc) : desc_(desc) {}

  void run(const Context& context, const float* a, const float* b, float* c, std::byte* scratch) const override {
    const std::int64_t row_blocks = blocks_of(desc_.m, lanes::kPoints);
    if (desc_.transpose_b) {
      auto* packed = reinterpret_cast<float*>(scratch);
      launch(context, desc_.threads, "petaflow::gemm::pack[kokkos]"_label, desc_.n,
             PackColumns{desc_.k, desc_.ldb, b, packed});
      b = packed;
    }
    launch(context, desc_.threads, "petaflow::gemm[kokkos]"_label, row_blocks * blocks_of(desc_.n, kBlock),
           Product{desc_, row_blocks, a, b, c});
  }

  std::size_t scratch_bytes() const override {
    return desc_.transpose_b ? static_cast<std::size_t>(blocks_of(desc_.n, kBlock) * kBlock * desc_.k) * sizeof(float)
                             : 0;
  }

  std::string detail() const override { return fmt::format("kokkos {}x{}", lanes::kPoints, kBlock); }

 private:
  GemmDesc desc_;
};

}  // namespace

extern const GemmImpl kGemmKokkos;
const GemmImpl kGemmKokkos = {
    "kokkos", [](const GemmDesc&) { return std::string(); },
    [](const GemmDesc& desc) -> std::unique_ptr<GemmKernel> { return std::make_unique<KokkosGemm>(desc); }};

}  // namespace petaflow
