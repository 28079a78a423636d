// Universes: transforms on a mesh, Lagrangian displacements, power spectra against linear theory, counts and features.
#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "cosmoflow/spectrum.hpp"
#include "cosmoflow/universe.hpp"
#include "scratch_folder.hpp"

namespace petaflow::cosmoflow {
namespace {

using std::numbers::pi;
using test::error_of;

std::size_t site(int n, int x, int y, int z) { return static_cast<std::size_t>((x * n + y) * n + z); }

std::vector<float> noise_of(int n, std::int64_t universe) {
  std::vector<float> noise(static_cast<std::size_t>(n) * n * n);
  white_noise(11, universe, noise);
  return noise;
}

void fill(MeshField& field, std::span<const float> values) {
  const int n = field.shape().n;
  for (int x = 0; x < n; ++x) {
    for (int y = 0; y < n; ++y) std::copy_n(values.data() + site(n, x, y, 0), n, field.real(x, y));
  }
}

TEST(Mesh, TransformsAreTheDiscreteFourierTransform) {
  for (const int n : {4, 5, 6}) {
    const std::vector<float> values = noise_of(n, 1);
    const MeshTransform transform(n);
    MeshField field{MeshShape(n)};
    fill(field, values);
    transform.forward(field);
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < n; ++b) {
        for (int c = 0; c <= n / 2; ++c) {
          std::complex<double> sum = 0;
          for (int x = 0; x < n; ++x) {
            for (int y = 0; y < n; ++y) {
              for (int z = 0; z < n; ++z) {
                sum += std::polar<double>(values[site(n, x, y, z)], -2 * pi * (a * x + b * y + c * z) / n);
              }
            }
          }
          const std::complex<double> found(field.modes(a, b)[c]);
          ASSERT_LT(std::abs(found - sum), 1e-4) << n << ": " << a << " " << b << " " << c;
        }
      }
    }
    transform.backward(field);
    for (int x = 0; x < n; ++x) {
      for (int y = 0; y < n; ++y) {
        for (int z = 0; z < n; ++z) {
          ASSERT_NEAR(field.real(x, y)[z], values[site(n, x, y, z)] * std::pow(n, 3), 1e-3);
        }
      }
    }
  }
}

TEST(Mesh, BitsDoNotDependOnThreads) {
  constexpr int kEdge = 24;
  const std::vector<float> values = noise_of(kEdge, 2);
  MeshField one{MeshShape(kEdge)}, all{MeshShape(kEdge)};
  fill(one, values), fill(all, values);
  MeshTransform(kEdge, MeshThreads::kCalling).forward(one);
  MeshTransform(kEdge, MeshThreads::kAll).forward(all);
  for (int x = 0; x < kEdge; ++x) {
    for (int y = 0; y < kEdge; ++y) {
      EXPECT_TRUE(std::equal(one.modes(x, y), one.modes(x, y) + kEdge / 2 + 1, all.modes(x, y)));
    }
  }
}

TEST(WhiteNoise, IsNormalAndKeyed) {
  constexpr int kEdge = 32;
  const std::vector<float> noise = noise_of(kEdge, 3);
  double moments[5] = {};
  for (const float x : noise) {
    for (int i = 1; i <= 4; ++i) moments[i] += std::pow(x, i) / static_cast<double>(noise.size());
  }
  const double error = 4 / std::sqrt(static_cast<double>(noise.size()));
  EXPECT_NEAR(moments[1], 0, error);
  EXPECT_NEAR(moments[2], 1, std::sqrt(2) * error);
  EXPECT_NEAR(moments[3], 0, std::sqrt(15) * error);
  EXPECT_NEAR(moments[4], 3, std::sqrt(96) * error);
  EXPECT_EQ(noise, noise_of(kEdge, 3));
  double correlation = 0;
  const std::vector<float> other = noise_of(kEdge, 4);
  for (std::size_t i = 0; i < noise.size(); ++i) correlation += noise[i] * other[i] / static_cast<float>(noise.size());
  EXPECT_NEAR(correlation, 0, error);
  std::vector<float> first(5);  // a number belongs to its place, whatever is drawn with it
  white_noise(11, 3, first);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), noise.begin()));
}

// Two plane waves at right angles, along (i + j) and (i - j): delta = a cos u + b cos v.  By hand, with k the length of
// either wave vector's components and c = 2 pi m / n:
//   -nabla phi_1 along i:  -(a sin u + b sin v) / (2 c), in cells
//   source of phi_2:       a b cos u cos v = a b / 2 (cos 2 c i + cos 2 c j),  nabla phi_2 along i: a b / (4 c) sin(2 c
//   i)
TEST(LagrangianField, CrossedPlaneWavesByHand) {
  constexpr int kEdge = 16;
  constexpr double kBox = 50, kA = 0.3, kB = 0.2, kWave = 2 * pi * 2 / kEdge;
  const auto flat = [](double) { return std::pow(kBox / kEdge, 3); };  // with it the contrast is the noise
  LagrangianField field(kEdge, kBox);
  for (const auto& [i, j] : {std::pair{0, 1}, std::pair{0, 2}, std::pair{2, 1}}) {
    std::vector<float> delta(kEdge * kEdge * kEdge);
    const auto for_each = [&](const auto& f) {
      for (int x = 0; x < kEdge; ++x) {
        for (int y = 0; y < kEdge; ++y) {
          for (int z = 0; z < kEdge; ++z) {
            const int at[3] = {x, y, z};
            f(x, y, z, kWave * at[i], kWave * at[j]);
          }
        }
      }
    };
    for_each([&](int x, int y, int z, double p, double q) {
      delta[site(kEdge, x, y, z)] = static_cast<float>(kA * std::cos(p + q) + kB * std::cos(p - q));
    });
    field.start(delta, flat);
    const std::vector<float> density = field.density();
    for (std::size_t k = 0; k < delta.size(); ++k) ASSERT_NEAR(density[k], delta[k], 1e-6);
    field.displace();
    const int other = 3 - i - j;
    for_each([&](int x, int y, int z, double p, double q) {
      const double u = kA * std::sin(p + q) / (2 * kWave), v = kB * std::sin(p - q) / (2 * kWave);
      const double second = kA * kB / (4 * kWave);
      ASSERT_NEAR(field.first_order(i).real(x, y)[z], -(u + v), 1e-6) << x << y << z;
      ASSERT_NEAR(field.first_order(j).real(x, y)[z], -(u - v), 1e-6);
      ASSERT_NEAR(field.first_order(other).real(x, y)[z], 0, 1e-6);
      ASSERT_NEAR(field.second_order(i).real(x, y)[z], second * std::sin(2 * p), 1e-6);
      ASSERT_NEAR(field.second_order(j).real(x, y)[z], second * std::sin(2 * q), 1e-6);
      ASSERT_NEAR(field.second_order(other).real(x, y)[z], 0, 1e-6);
    });
  }
}

TEST(LagrangianField, CountsParticlesWhereTheyMoved) {
  constexpr int kEdge = 8;
  LagrangianField field(kEdge, 1);
  std::vector<float> delta(kEdge * kEdge * kEdge);
  for (std::size_t i = 0; i < delta.size(); ++i)
    delta[i] = static_cast<float>(std::cos(2 * pi * static_cast<double>(i % kEdge) / kEdge));
  field.start(delta, [](double) { return std::pow(1.0 / kEdge, 3); });
  field.displace();
  std::vector<std::int32_t> counts(delta.size());
  field.count(0, 0, counts);
  EXPECT_EQ(std::ranges::count(counts, 1), std::ssize(counts));
  // Along z by -1.2 * 8 / (2 pi) sin(2 pi z / 8) cells: 1 and 3 move down by 1.08, 2 by 1.53, 5, 6 and 7 up and around.
  field.count(1.2, 0, counts);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), kEdge * kEdge * kEdge);
  const std::vector<std::int32_t> found(counts.begin(), counts.begin() + kEdge);
  EXPECT_EQ(found, (std::vector<std::int32_t>{5, 0, 1, 0, 1, 0, 1, 0}));
  EXPECT_TRUE(std::equal(found.begin(), found.end(), counts.end() - kEdge));
  // Nine fold, all around the box and back: 1 and 3 by -8.1, 2 by -11.5 cells.
  field.count(9, 0, counts);
  EXPECT_EQ(std::vector<std::int32_t>(counts.begin(), counts.begin() + kEdge),
            (std::vector<std::int32_t>{1, 2, 0, 1, 1, 1, 0, 2}));
}

/// The mean over the modes of each bin of f(k).
std::vector<double> mean_over_modes(int n, double box, const std::function<double(double)>& f) {
  std::vector<double> sum(static_cast<std::size_t>(n)), count(sum.size());
  for (int x = -n / 2 + 1; x <= n / 2; ++x) {
    for (int y = -n / 2 + 1; y <= n / 2; ++y) {
      for (int z = -n / 2 + 1; z <= n / 2; ++z) {
        const double m = std::sqrt(x * x + y * y + z * z);
        const auto bin = static_cast<std::size_t>(std::lround(m));
        if (bin == 0 || bin >= sum.size()) continue;
        sum[bin] += f(2 * pi / box * m), count[bin] += 1;
      }
    }
  }
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] /= count[i];
  sum.erase(sum.begin());
  return sum;
}

TEST(PowerSpectrum, OfAPlaneWave) {
  constexpr int kEdge = 12;
  constexpr double kBox = 30;
  std::vector<float> field(kEdge * kEdge * kEdge);
  for (int x = 0; x < kEdge; ++x) {
    for (int y = 0; y < kEdge; ++y) {
      for (int z = 0; z < kEdge; ++z)
        field[site(kEdge, x, y, z)] = static_cast<float>(0.4 * std::cos(2 * pi * 3 * y / kEdge));
    }
  }
  const auto bins = SpectrumMeter(kEdge).measure(field, kBox);
  ASSERT_EQ(bins.size(), 6U);
  EXPECT_EQ(bins[0].modes, 18);  // (1, 0, 0) and (1, 1, 0) with all signs
  EXPECT_NEAR(bins[0].k, 2 * pi / kBox * (6 + 12 * std::sqrt(2)) / 18, 1e-9);
  for (std::size_t i = 0; i < bins.size(); ++i) {
    const double sum = i == 2 ? std::pow(kBox, 3) * 2 * 0.2 * 0.2 : 0;  // k and -k with amplitude 0.2
    EXPECT_NEAR(bins[i].power * static_cast<double>(bins[i].modes), sum, 1e-3) << i;
  }
}

TEST(PowerSpectrum, OfLinearFieldsFollowsLinearTheory) {
  constexpr int kEdge = 64, kFields = 6;
  constexpr double kBox = 128;
  const LinearPower power(Cosmology{});
  const std::vector<double> expected = mean_over_modes(kEdge, kBox, power);
  const SpectrumMeter meter(kEdge);
  LagrangianField field(kEdge, kBox);
  double chi2 = 0, excess = 0, all_modes = 0;
  for (int universe = 0; universe < kFields; ++universe) {
    field.start(noise_of(kEdge, universe), power);
    const auto bins = meter.measure(field.density(), kBox);
    for (std::size_t i = 0; i < bins.size(); ++i) {
      const auto modes = static_cast<double>(bins[i].modes);
      const double deviation = bins[i].power / expected[i] - 1;
      chi2 += deviation * deviation * modes / 2;
      excess += deviation * modes, all_modes += modes;
    }
  }
  constexpr double kFreedom = kFields * kEdge / 2;
  EXPECT_NEAR(chi2, kFreedom, 4 * std::sqrt(2 * kFreedom));
  EXPECT_NEAR(excess / all_modes, 0, 4 * std::sqrt(2 / all_modes));
}

// On large scales counts follow linear theory, the better the earlier; the voxel takes sinc^2 of each component of k.
TEST(PowerSpectrum, OfCountsFollowsLinearTheory) {
  constexpr int kEdge = 64, kUniverses = 4;
  constexpr double kBox = 128, kVoxel = kBox / kEdge;
  constexpr std::size_t kBins = 5;  // up to 0.25 h/Mpc
  const LinearPower power(Cosmology{});
  const std::vector<double> expected = mean_over_modes(kEdge, kBox, power);
  const SpectrumMeter meter(kEdge);
  LagrangianField field(kEdge, kBox);
  UniverseMaker maker({kEdge, kBox});
  double chi2 = 0, linear = 0, evolved[kRedshifts.size()] = {};  // sums over modes
  for (int universe = 0; universe < kUniverses; ++universe) {
    field.start(noise_of(kEdge, universe), power);
    const auto truth = meter.measure(field.density(), kBox);
    const auto counts = maker.make({0.3, 0.8, 0.96, 70}, 11, universe);
    for (std::size_t c = 0; c < kRedshifts.size(); ++c) {
      std::vector<float> contrast(counts.size() / kRedshifts.size());
      for (std::size_t i = 0; i < contrast.size(); ++i) {
        contrast[i] = static_cast<float>(counts[kRedshifts.size() * i + c]) - 1;
      }
      const auto bins = meter.measure(contrast, kBox);
      const double d = growth(0.3, kRedshifts[c]);
      for (std::size_t i = 0; i < kBins; ++i) {
        const auto modes = static_cast<double>(bins[i].modes);
        const double window = 1 - std::pow(bins[i].k * kVoxel, 2) / 12;  // to second order, over all directions
        const double found = bins[i].power / (window * d * d);
        evolved[c] += found * modes;
        if (c == 0) linear += truth[i].power * modes;
        if (c == 3) {
          EXPECT_NEAR(found / truth[i].power, 1, 0.15) << universe << " " << bins[i].k;
          chi2 += std::pow(found / expected[i] - 1, 2) * modes / 2;
        }
      }
    }
  }
  EXPECT_NEAR(evolved[3] / linear, 1, 0.02);
  EXPECT_NEAR(evolved[2] / linear, 1, 0.04);
  EXPECT_NEAR(evolved[1] / linear, 1, 0.1);
  EXPECT_NEAR(evolved[0] / linear, 1, 0.25);  // particles have crossed
  constexpr double kFreedom = kUniverses * kBins;
  EXPECT_NEAR(chi2, kFreedom, 4 * std::sqrt(2 * kFreedom));
}

// The second order makes dense places denser and empty ones emptier: the skewness of counts grows with it.
TEST(UniverseMaker, SecondOrderActs) {
  constexpr int kEdge = 32;
  LagrangianField field(kEdge, 256);  // voxels of 8 Mpc/h, early
  field.start(noise_of(kEdge, 5), LinearPower(Cosmology{}));
  field.displace();
  std::vector<std::int32_t> counts(kEdge * kEdge * kEdge);
  double skewness[2];
  for (const bool second : {false, true}) {
    field.count(growth(0.3, 0), second ? second_order_growth(0.3, 0) : 0, counts);
    double variance = 0, third = 0;
    for (const std::int32_t count : counts) variance += std::pow(count - 1, 2), third += std::pow(count - 1, 3);
    skewness[second] = third * static_cast<double>(counts.size()) / (variance * variance);
  }
  EXPECT_GT(skewness[1], 1.1 * skewness[0]);
}

TEST(UniverseMaker, CountsAllParticlesInEveryChannel) {
  constexpr std::size_t kEdge = 32, kVoxels = kEdge * kEdge * kEdge, kChannels = kRedshifts.size();
  UniverseMaker maker({kEdge, 256});
  const auto counts = maker.make(draw_parameters({}, 7, 3), 7, 3);
  ASSERT_EQ(counts.size(), kVoxels * kChannels);
  double variance[kChannels] = {};
  for (std::size_t c = 0; c < kChannels; ++c) {
    std::int64_t sum = 0;
    for (std::size_t i = c; i < counts.size(); i += kChannels) {
      EXPECT_GE(counts[i], 0);
      sum += counts[i];
      variance[c] += std::pow(counts[i] - 1, 2) / kVoxels;
    }
    EXPECT_EQ(sum, kVoxels);
  }
  for (std::size_t c = 1; c < kChannels; ++c) EXPECT_LT(variance[c], variance[c - 1]);  // latest first
}

TEST(UniverseMaker, IsAFunctionOfParametersSeedAndUniverse) {
  const UniverseOptions options{16, 32};
  UniverseMaker maker(options), other(options);
  const auto make = [](UniverseMaker& of, const Parameters& p, std::uint64_t seed, std::int64_t universe) {
    const auto counts = of.make(p, seed, universe);
    return std::vector<std::int16_t>(counts.begin(), counts.end());
  };
  const Parameters p = draw_parameters({}, 1, 0);
  const auto first = make(maker, p, 1, 5);
  EXPECT_NE(make(maker, p, 1, 6), first);
  EXPECT_NE(make(maker, p, 2, 5), first);
  for (std::size_t i = 0; i < p.size(); ++i) {
    Parameters changed = p;
    changed[i] *= i == 2 ? 0.9 : 1.05;
    EXPECT_NE(make(maker, changed, 1, 5), first) << kParameterNames[i];
  }
  EXPECT_EQ(make(maker, p, 1, 5), first);
  EXPECT_EQ(make(other, p, 1, 5), first);
}

TEST(UniverseMaker, RefusesOddMeshes) {
  const auto error = [](UniverseOptions options) { return error_of([&] { UniverseMaker{options}; }); };
  EXPECT_HOLDS(error({127, 256}), "generate.particles is 127; it must be even");
}

TEST(Parameters, AreUniformInTheirRanges) {
  const ParameterRanges ranges;
  constexpr int kCount = 4000;
  double mean[4] = {}, square[4] = {}, product = 0;
  for (int i = 0; i < kCount; ++i) {
    const Parameters labels = to_labels(ranges, draw_parameters(ranges, 9, i));
    for (std::size_t k = 0; k < labels.size(); ++k) {
      ASSERT_LE(std::abs(labels[k]), 1);
      mean[k] += labels[k] / kCount;
      square[k] += labels[k] * labels[k] / kCount;
    }
    product += labels[0] * labels[1] / kCount;
  }
  for (std::size_t k = 0; k < 4; ++k) {
    EXPECT_NEAR(mean[k], 0, 4 / std::sqrt(3.0 * kCount));
    EXPECT_NEAR(square[k], 1.0 / 3, 4 * std::sqrt(4.0 / 45 / kCount));
  }
  EXPECT_NEAR(product, 0, 4 / (3 * std::sqrt(kCount)));
  const Parameters labels = to_labels(ranges, {0.33, 0.72, 0.96, 73.5});
  for (std::size_t k = 0; k < 4; ++k) EXPECT_NEAR(labels[k], (Parameters{1, -1, 0, 0.5}[k]), 1e-12);
}

TEST(Parameters, RangesAreSettings) {
  ParameterRanges ranges;
  ranges.omega_m = {0.25, 0.35};
  ranges.h_0 = {70, 70};
  const Parameters physical = draw_parameters(ranges, 9, 0), usual = draw_parameters({}, 9, 0);
  EXPECT_NEAR(to_labels(ranges, physical)[0], to_labels({}, usual)[0], 1e-12);
  EXPECT_NEAR(physical[0] - 0.3, (usual[0] - 0.3) * 5 / 3, 1e-12);
  EXPECT_EQ(physical[3], 70);
  EXPECT_EQ(to_labels(ranges, physical)[3], 0);
  EXPECT_NO_THROW(check(ranges));
  const auto error = [](auto change) {
    ParameterRanges wrong;
    change(wrong);
    return error_of([&] { check(wrong); });
  };
  EXPECT_HOLDS(error([](auto& r) { r.omega_m = {0.3}; }), "data.omega_m must be two numbers");
  EXPECT_HOLDS(error([](auto& r) { r.n_s = {1, 0.9}; }), "data.n_s must be two numbers");
  EXPECT_HOLDS(error([](auto& r) { r.omega_m = {0.01, 0.3}; }), "Omega_b is 0.045");
  EXPECT_HOLDS(error([](auto& r) { r.h_0 = {0.6, 0.8}; }), "H_0 is 0.6");
}

TEST(SubCube, PartsInOrderOfIJK) {
  constexpr std::int64_t kEdge = 4, kChannels = 2;
  std::vector<std::int16_t> cube(kEdge * kEdge * kEdge * kChannels);
  std::iota(cube.begin(), cube.end(), std::int16_t{0});
  for (std::int64_t index = 0; index < 8; ++index) {
    const auto part = sub_cube(cube, kEdge, 2, index);
    ASSERT_EQ(part.size(), cube.size() / 8);
    const std::int64_t i = index / 4, j = index / 2 % 2, k = index % 2;
    for (std::int64_t x = 0; x < 2; ++x) {
      for (std::int64_t y = 0; y < 2; ++y) {
        for (std::int64_t z = 0; z < 2; ++z) {
          for (std::int64_t c = 0; c < kChannels; ++c) {
            const std::int64_t from = (((2 * i + x) * kEdge + 2 * j + y) * kEdge + 2 * k + z) * kChannels + c;
            EXPECT_EQ(part[static_cast<std::size_t>(((x * 2 + y) * 2 + z) * kChannels + c)],
                      cube[static_cast<std::size_t>(from)]);
          }
        }
      }
    }
  }
}

TEST(Features, SpectrumOfLogCountsAndMean) {
  constexpr int kEdge = 8;
  std::vector<std::int16_t> counts(2 * kEdge * kEdge * kEdge);
  for (std::size_t i = 0; i < counts.size(); i += 2) {
    counts[i] = 3;                                             // even
    counts[i + 1] = i / 2 / (kEdge * kEdge) % 2 == 0 ? 0 : 7;  // log 1 and log 8 by turns along x: the mode (4, 0, 0)
  }
  const SpectrumMeter meter(kEdge);
  const std::vector<double> features = meter.features(counts);
  ASSERT_EQ(features.size(), 2U * (1 + kEdge / 2));
  EXPECT_EQ(features[0], 3);
  EXPECT_EQ(features[5], 3.5);
  for (const int i : {1, 2, 3, 4, 6, 7, 8}) EXPECT_LT(features[static_cast<std::size_t>(i)], -20) << i;
  // |delta_k|^2 V = (log(8) / 2)^2 512 in one mode of the bin.
  const auto modes = static_cast<double>(meter.measure(std::vector<float>(512), kEdge)[3].modes);
  EXPECT_NEAR(features[9], std::log(std::pow(std::log(8) / 2, 2) * 512 / modes), 1e-5);
}

TEST(Features, HistogramOfCounts) {
  const std::vector<std::int16_t> counts = {0, 9, 1, 9, 1, 2, 5, 0};  // two channels
  EXPECT_EQ(histogram_features(counts, 2, 3), (std::vector<double>{0.25, 0.5, 0.25, 0.25, 0, 0.75}));
}

}  // namespace
}  // namespace petaflow::cosmoflow
