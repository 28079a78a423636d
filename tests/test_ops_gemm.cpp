// Matrix products: every implementation of every case against sums in double, parallel and from inside a parallel
// region.
#include "base/error.hpp"
#include "kernels/gemm.hpp"
#include "op_cases.hpp"
#include "op_support.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;

GemmDesc desc_of(const cases::GemmCase& c, int threads) {
  GemmDesc desc;
  desc.m = c.m, desc.n = c.n, desc.k = c.k;
  desc.transpose_a = c.transpose_a, desc.transpose_b = c.transpose_b;
  desc.lda = (c.transpose_a ? c.m : c.k) + c.gap;
  desc.ldb = (c.transpose_b ? c.k : c.n) + c.gap;
  desc.ldc = c.n + c.gap;
  desc.beta = c.beta, desc.threads = threads;
  return desc;
}

class MatrixProduct : public testing::TestWithParam<cases::GemmCase> {};

TEST_P(MatrixProduct, MatchesSumsInDouble) {
  const cases::GemmCase& c = GetParam();
  const GemmDesc desc = desc_of(c, 2);
  const std::vector<float> a = testing_support::numbers((c.transpose_a ? c.k : c.m) * desc.lda, 1);
  const std::vector<float> b = testing_support::numbers((c.transpose_b ? c.n : c.k) * desc.ldb, 2);
  const std::vector<float> before = testing_support::numbers(c.m * desc.ldc, 3);
  std::vector<double> expected(before.begin(), before.end());
  for (std::int64_t i = 0; i < c.m; ++i) {
    for (std::int64_t j = 0; j < c.n; ++j) {
      double sum = c.beta == 0 ? 0 : static_cast<double>(before[static_cast<std::size_t>(i * desc.ldc + j)]);
      for (std::int64_t l = 0; l < c.k; ++l) {
        sum += static_cast<double>(a[static_cast<std::size_t>(c.transpose_a ? l * desc.lda + i : i * desc.lda + l)]) *
               static_cast<double>(b[static_cast<std::size_t>(c.transpose_b ? j * desc.ldb + l : l * desc.ldb + j)]);
      }
      expected[static_cast<std::size_t>(i * desc.ldc + j)] = sum;
    }
  }
  const DeviceArray<float> device_a(a), device_b(b);
  for (const GemmImpl* impl : gemm_impls()) {
    for (const int threads : {1, 2}) {
      if (!impl->why_not(desc_of(c, threads)).empty()) {
        EXPECT_STRNE(impl->name, "kokkos") << "never refuses";
        continue;
      }
      const auto kernel = impl->make(desc_of(c, threads));
      EXPECT_FALSE(kernel->detail().empty());
      std::vector<float> start = before;
      if (c.beta == 0) {  // what C held must not be read
        for (std::int64_t i = 0; i < c.m * c.n; ++i)
          start[static_cast<std::size_t>(i / c.n * desc.ldc + i % c.n)] = NAN;
      }
      const DeviceArray<float> device_c(start);
      const DeviceArray<std::byte> scratch(kernel->scratch_bytes() + 1);
      const Context context = testing_support::context_for(threads);
      const auto run = [&](std::int64_t) {
        kernel->run(context, device_a.data(), device_b.data(), device_c.data(), scratch.data());
      };
      if (threads == 1 && kOnHost) {  // as from inside a parallel region
        Kokkos::parallel_for("test", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, 1), run);
      } else {
        run(0);
      }
      const std::vector<float> found = device_c.get();  // with the gaps, which keep what they held
      EXPECT_LE(testing_support::largest_error({found.begin(), found.end()}, expected,
                                               std::sqrt(static_cast<double>(c.k)) / 3),
                1e-5)
          << impl->name << " threads " << threads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, MatrixProduct, testing::ValuesIn(cases::kGemmCases),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST(ChooseGemm, TakesWhatIsAskedForAndChecksSizes) {
  const GemmImpl* const kokkos = gemm_impls().back();
  EXPECT_STREQ(kokkos->name, "kokkos");
  const GemmDesc desc = desc_of(cases::kGemmCases[0], 2);
  EXPECT_EQ(choose_gemm(desc, kokkos).impl, kokkos);
  EXPECT_EQ(choose_gemm(desc).impl, gemm_impls().front());
  EXPECT_EQ(gemm_requests().size(), gemm_impls().size() + 1);
  GemmDesc wrong = desc;
  wrong.lda = 0;
  EXPECT_THROW(choose_gemm(wrong), Error);
  for (const auto& [name, impl] : gemm_requests()) {
    if (name == "kokkoskernels") {
      EXPECT_THROW(choose_gemm(desc_of(cases::kGemmCases[0], 1), impl), Error);
    }
  }
}

}  // namespace
}  // namespace petaflow
