// What a run says of its machine: where ranks are bound, who else computes there, and what its processor can do.
#include <cstdlib>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/context.hpp"
#include "measure/binding.hpp"
#include "measure/peak.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

TEST(BindingTable, SpeaksOfOneHostForAllThatAreAlike) {
  std::vector<Binding> bindings;
  const auto add = [&](int host, const std::string& cores, int bound, int threads) {
    bindings.push_back(
        {static_cast<int>(bindings.size()), "n" + std::to_string(host), "cpu", cores, bound, 4, threads});
  };
  for (int host = 0; host < 1000; ++host) add(host, "0-1", 2, 2), add(host, "2-3", 2, 2);
  EXPECT_TRUE(binding_warnings(bindings).empty());
  EXPECT_HOLDS(binding_table(bindings), "n0 and 999 more like it");
  for (int host = 1000; host < 1010; ++host) add(host, "0-3", 4, 8);  // too many threads
  for (int host = 2000; host < 2007; ++host) add(host, "0", 1, 2);    // on one of the four cores
  add(3000, "0", 1, 3);
  const std::vector<std::string> warnings = binding_warnings(bindings);
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_HOLDS(warnings[0], "1 rank runs 8 threads in all on n1000, which has 4 cores");
  EXPECT_HOLDS(warnings[0], "(and 9 more hosts)");
  EXPECT_HOLDS(warnings[1], "rank 2010 on n2000 has 2 threads but may use cores 0 only");
  EXPECT_HOLDS(warnings[1], "(and 7 more hosts)");
}

TEST(BindingWarnings, NameHostsWhereOtherProgramsCompute) {
  const auto warnings = [](double load, int running, std::vector<int> cores, int online) {
    std::vector<Binding> bindings;
    for (const int bound : cores) {
      bindings.push_back({static_cast<int>(bindings.size()), "n1", "cpu", "some", bound, online, bound, load, running});
    }
    return fmt::format("{}", fmt::join(binding_warnings(bindings), "; "));
  };
  EXPECT_EQ(warnings(12.3, 13, {2}, 2),
            "warning: load average 12.3 on 2 cores of n1 before the run begins; steps will be slower than on an idle "
            "machine");
  EXPECT_EQ(warnings(12.3, 1, {2}, 2), "");  // they have ended
  EXPECT_EQ(warnings(1.9, 3, {2}, 2), "");
  EXPECT_EQ(warnings(2.1, 3, {2}, 2).substr(0, 26), "warning: load average 2.1 ");
  EXPECT_EQ(warnings(4.5, 5, {2, 2}, 4), "");  // of these two are ranks
  EXPECT_NE(warnings(4.5, 6, {2, 2}, 4), "");
  EXPECT_EQ(warnings(40, 41, {8, 8}, 64), "");  // others' on other cores of a shared node
  EXPECT_NE(warnings(50, 51, {8, 8}, 64), "");

  const Binding own = own_binding(0, 1);
  double average = 0;
  ASSERT_EQ(getloadavg(&average, 1), 1);
  EXPECT_NEAR(own.load, average, 0.5);
  EXPECT_GE(own.running, 1);
}

TEST(Peaks, AreThoseOfAProcessor) {
  const Peaks peaks = measure_peaks(Context());
  EXPECT_GT(peaks.f32_fma, 1);
#ifdef __AVX512BF16__
  EXPECT_GT(peaks.bf16_dot, 1);
#endif
  for (const double gflops : {peaks.f32_fma, peaks.bf16_dot, peaks.bf16_tile}) EXPECT_LT(gflops, 1e5);
  const double gbs = Triad(Context()).measure_gbs();
  EXPECT_GT(gbs, 0.1);
  EXPECT_LT(gbs, 1e4);
}

TEST(Peaks, OfAPrecisionIsThatOfItsFastestInstruction) {
  EXPECT_EQ((Peaks{100, 0, 0}.of("bf16")), 100);  // widened to f32
  EXPECT_EQ((Peaks{100, 200, 0}.of("bf16")), 200);
  EXPECT_EQ((Peaks{100, 50, 3000}.of("bf16")), 3000);
  EXPECT_EQ((Peaks{100, 200, 3000}.of("f32")), 100);
  EXPECT_EQ((Peaks{100, 200, 0}.describe()), "100 GFLOP/s by f32 multiply-adds, 200 by bf16 dot products");
}

}  // namespace
}  // namespace petaflow
