// The linear theory of structure: transfer function, power spectrum, growth.
#include <cmath>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cosmoflow/cosmology.hpp"
#include "scratch_folder.hpp"

namespace petaflow::cosmoflow {
namespace {

using test::error_of;

TEST(Cosmology, AgreesWithColossus) {
  std::ifstream file("tests/golden/cosmology.json");
  const auto golden = nlohmann::json::parse(file);
  for (const auto& item : golden.at("cases")) {
    const Cosmology cosmology{item.at("omega_m"), item.at("sigma_8"), item.at("n_s"), item.at("h_0"),
                              item.at("omega_b")};
    SCOPED_TRACE(item.at("omega_m").dump() + " " + item.at("omega_b").dump());
    const TransferFunction transfer(cosmology);
    const LinearPower power(cosmology);
    for (std::size_t i = 0; i < golden.at("k").size(); ++i) {
      const double k = golden.at("k")[i], expected = item.at("transfer")[i], expected_power = item.at("power")[i];
      EXPECT_NEAR(transfer(k) / expected, 1, 1e-6) << k;
      EXPECT_NEAR(power(k) / expected_power, 1, 2e-3) << k;  // it interpolates
    }
    for (std::size_t i = 0; i < golden.at("redshifts").size(); ++i) {
      const double z = golden.at("redshifts")[i], expected = item.at("growth")[i];
      EXPECT_NEAR(growth(cosmology.omega_m, z) / expected, 1, 1e-4) << z;
    }
  }
}

TEST(Cosmology, TransferFunctionIsOneOnLargeScales) {
  const TransferFunction transfer(Cosmology{});
  EXPECT_EQ(transfer(0), 1);
  EXPECT_NEAR(transfer(1e-6), 1, 1e-5);
  EXPECT_LT(transfer(0.1), transfer(0.01));
}

TEST(Cosmology, SpectrumIsNormalisedToSigma8) {
  Cosmology cosmology;
  for (const double sigma_8 : {0.72, 0.88}) {
    cosmology.sigma_8 = sigma_8;
    const LinearPower power(cosmology);
    EXPECT_NEAR(rms_in_spheres(power, 8), sigma_8, 1e-12);
    // Independent of the integral's steps: a sum over k in even steps.
    double sum = 0;
    constexpr double kStep = 2e-4;
    for (int i = 1; i < 50000; ++i) {
      const double k = kStep * i, x = 8 * k, w = 3 * (std::sin(x) - x * std::cos(x)) / (x * x * x);
      sum += kStep * k * k * power(k) * w * w / (2 * M_PI * M_PI);
    }
    EXPECT_NEAR(std::sqrt(sum), sigma_8, 1e-5);
  }
}

TEST(Cosmology, GrowthInAnEinsteinDeSitterUniverse) {
  for (const double z : {0.0, 0.5, 1.5, 3.0, 9.0}) {
    EXPECT_NEAR(growing_mode(1, z), 1 / (1 + z), 1e-9);
    EXPECT_NEAR(growth(1, z), 1 / (1 + z), 1e-9);
    EXPECT_NEAR(second_order_growth(1, z), -3.0 / 7 / ((1 + z) * (1 + z)), 1e-9);
  }
}

TEST(Cosmology, GrowthWithACosmologicalConstant) {
  EXPECT_NEAR(growing_mode(0.3, 0), 0.779, 5e-4);  // Carroll, Press & Turner 1992: 0.7789
  EXPECT_NEAR(growing_mode(0.3, 99) * 100, 1, 1e-3);
  EXPECT_EQ(growth(0.3, 0), 1);
  EXPECT_NEAR(second_order_growth(0.3, 0), -3.0 / 7 * std::pow(0.3, -1.0 / 143), 1e-12);
  // Omega_m(z = 1) = 0.3 * 8 / (0.3 * 8 + 0.7)
  EXPECT_NEAR(second_order_growth(0.3, 1), -3.0 / 7 * std::pow(growth(0.3, 1), 2) * std::pow(2.4 / 3.1, -1.0 / 143),
              1e-12);
}

TEST(Cosmology, RefusesWhatNoFormulaHoldsFor) {
  const auto error = [](auto change) {
    Cosmology cosmology;
    change(cosmology);
    return error_of([&] { check(cosmology); });
  };
  EXPECT_NO_THROW(check(Cosmology{}));
  EXPECT_HOLDS(error([](auto& c) { c.omega_m = 0; }), "Omega_m is 0");
  EXPECT_HOLDS(error([](auto& c) { c.omega_m = NAN; }), "Omega_m is nan");
  EXPECT_HOLDS(error([](auto& c) { c.omega_b = 0.3; }), "Omega_b is 0.3");
  EXPECT_HOLDS(error([](auto& c) { c.sigma_8 = -1; }), "sigma_8 is -1");
  EXPECT_HOLDS(error([](auto& c) { c.n_s = 3; }), "n_s is 3");
  EXPECT_HOLDS(error([](auto& c) { c.h_0 = 0.7; }), "H_0 is 0.7 km/s/Mpc");
}

}  // namespace
}  // namespace petaflow::cosmoflow
