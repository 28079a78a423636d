// The HEP event generator: kinematics, cascade, jets, spectrum and weights, cuts, reproducibility.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "hep/event_generator.hpp"
#include "hep/jet_finder.hpp"

namespace petaflow::hep {
namespace {

RandomSequence sequence(std::uint64_t index) { return {random_stream(1234, RandomPurpose::kGenerate, 77), index}; }

void expect_near(const FourVector& a, const FourVector& b, double tolerance) {
  EXPECT_NEAR(a.x, b.x, tolerance);
  EXPECT_NEAR(a.y, b.y, tolerance);
  EXPECT_NEAR(a.z, b.z, tolerance);
  EXPECT_NEAR(a.e, b.e, tolerance);
}

FourVector total(std::span<const Parton> partons) {
  FourVector sum;
  for (const Parton& parton : partons) sum += parton.p;
  return sum;
}

TEST(FourVector, BoostsAreInverse) {
  const FourVector frame = from_pt_y_phi_m(700, 1.1, 0.4, 1400), v{10, -20, 30, 50};
  expect_near(to_rest_frame(from_rest_frame(v, frame), frame), v, 1e-9);
  expect_near(to_rest_frame(frame, frame), {0, 0, 0, 1400}, 1e-9);
}

TEST(Decay, ConservesFourMomentumOnShell) {
  RandomSequence random = sequence(1);
  for (int i = 0; i < 1000; ++i) {
    const FourVector gluino = from_pt_y_phi_m(500, 0.7, -2.0, 1400);
    const auto [q1, q2, neutralino] = decay_three_body(gluino, 0, 5, 850, random);
    expect_near(q1 + q2 + neutralino, gluino, 1e-8);
    EXPECT_NEAR(q1.mass2(), 0, 1e-4);
    EXPECT_NEAR(q2.mass2(), 25, 1e-4);
    EXPECT_NEAR(neutralino.mass(), 850, 1e-7);
  }
}

// Flat three-body phase space of massless products: the energy fraction x = 2 E / M has density 2 x, mean 2/3, and the
// direction is isotropic.
TEST(Decay, FillsThreeBodyPhaseSpaceUniformly) {
  RandomSequence random = sequence(2);
  constexpr int kCount = 20000;
  double mean[3] = {}, square[3] = {}, cosine2[3] = {};
  for (int i = 0; i < kCount; ++i) {
    const auto products = decay_three_body({0, 0, 0, 100}, 0, 0, 0, random);
    for (int k = 0; k < 3; ++k) {
      const FourVector& p = products[static_cast<std::size_t>(k)];
      mean[k] += p.e / 50 / kCount;
      square[k] += p.e * p.e / 2500 / kCount;
      cosine2[k] += p.z * p.z / (p.e * p.e) / kCount;
    }
  }
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(mean[k], 2.0 / 3, 0.01);
    EXPECT_NEAR(square[k], 0.5, 0.01);
    EXPECT_NEAR(cosine2[k], 1.0 / 3, 0.015);
  }
}

TEST(HardProcess, GluinoPairHasTenQuarksAndItsMasses) {
  RandomSequence random = sequence(3);
  double pair_mass = 0;
  for (int i = 0; i < 200; ++i) {
    const HardProcess process = gluino_pair(1400, 850, random);
    ASSERT_GE(process.partons.size(), 10U);
    const std::span<const Parton> partons = process.partons;
    for (const Parton& parton : partons) EXPECT_NEAR(parton.p.mass2() / (parton.p.e * parton.p.e), 0, 1e-9);
    for (const std::size_t first : {0U, 5U}) {
      EXPECT_NEAR(total(partons.subspan(first, 5)).mass(), 1400, 1e-5);
      EXPECT_NEAR(total(partons.subspan(first + 2, 3)).mass(), 850, 1e-5);
    }
    EXPECT_NEAR(total(partons).pt(), 0, 1e-6);
    const FourVector pair = total(partons.first(10));
    EXPECT_GT(pair.mass(), 2800);
    pair_mass += pair.mass() / 200;
  }
  EXPECT_NEAR(pair_mass, 2800 * (1 + 1.5 * 0.14), 120);
}

TEST(HardProcess, SlicesFollowTheirCrossSections) {
  // sigma(> p) is one continuous falling curve: the exponents reproduce the published ratios.
  for (std::size_t i = 0; i + 1 < kQcdSlices.size(); ++i) {
    double from = 0;
    for (std::size_t j = i; j < kQcdSlices.size(); ++j) from += kQcdSlices[j].cross_section_pb;
    const double above = from * std::pow(kQcdSlices[i].high_gev / kQcdSlices[i].low_gev, -slice_exponent(i));
    EXPECT_NEAR(above / (from - kQcdSlices[i].cross_section_pb), 1, 1e-9);
    EXPECT_EQ(kQcdSlices[i].high_gev, kQcdSlices[i + 1].low_gev);
  }
}

TEST(HardProcess, PtHatFallsWithThePowerOfItsSlice) {
  for (std::size_t slice = 0; slice < kQcdSlices.size(); ++slice) {
    const auto& [name, low, high, cross_section] = kQcdSlices[slice];
    const double a = slice_exponent(slice), middle = std::sqrt(low * high);
    EXPECT_NEAR(slice_pt_hat(slice, 0), low, 1e-9 * low);
    EXPECT_NEAR(slice_pt_hat(slice, 1), high, 1e-9 * high);
    RandomSequence random = sequence(10 + slice);
    constexpr int kCount = 20000;
    int above = 0;
    for (int i = 0; i < kCount; ++i) above += qcd_jets(slice, random).scale_gev > middle ? 1 : 0;
    const double expected = (std::pow(middle, -a) - std::pow(high, -a)) / (std::pow(low, -a) - std::pow(high, -a));
    EXPECT_NEAR(static_cast<double>(above) / kCount, expected, 4 * std::sqrt(expected / kCount)) << name;
  }
  EXPECT_NEAR(slice_exponent(0), 5.6, 0.1);  // d sigma / d pT ~ pT^-6.6 at 400 GeV
}

TEST(PartonShower, ConservesFourMomentumAndOrdersEmissions) {
  for (std::uint64_t i = 0; i < 50; ++i) {
    RandomSequence random = sequence(100 + i);
    const HardProcess process = i % 2 == 0 ? qcd_jets(1, random) : gluino_pair(1400, 850, random);
    const FourVector before = total(process.partons);
    PartonShower shower(process.partons, process.dipoles, random);
    shower.run_to(50);
    const std::size_t coarse = shower.partons().size();
    shower.run_to(PartonShower::kLowestCutGev);
    EXPECT_GT(shower.partons().size(), coarse);
    expect_near(total(shower.partons()), before, 1e-6);
    for (const Parton& parton : shower.partons()) EXPECT_NEAR(parton.p.mass2() / before.mass2(), 0, 1e-9);
  }
}

// Gluons radiate more than quarks: the ratio tends to N_c / C_F = 9/4 from below.
TEST(PartonShower, GluonJetsHaveMorePartons) {
  double count[2] = {};
  for (const bool gluon : {false, true}) {
    RandomSequence random = sequence(200);
    for (int i = 0; i < 300; ++i) {
      std::vector<Dipole> lines = {{0, 1, 1000, 1, false}};
      if (gluon) lines.push_back(lines[0]);
      PartonShower shower({{{0, 0, 1000, 1000}, gluon}, {{0, 0, -1000, 1000}, gluon}}, lines, random);
      shower.run_to(PartonShower::kLowestCutGev);
      count[gluon] += static_cast<double>(shower.partons().size() - 2) / 300;
    }
  }
  EXPECT_GT(count[0], 5);
  EXPECT_GT(count[1] / count[0], 1.4);
  EXPECT_LT(count[1] / count[0], 2.25);
}

/// The difference of two azimuths, in [0, pi].
double delta_phi(double a, double b) {
  const double d = std::fmod(std::abs(a - b), 2 * std::numbers::pi);
  return std::min(d, 2 * std::numbers::pi - d);
}

/// The definition, in n^3: the smallest of all d_ij and d_iB, recomputed at every step.
std::vector<FourVector> brute_force_jets(std::vector<FourVector> p, JetAlgorithm algorithm, double radius) {
  const auto power = [&](const FourVector& v) {
    return algorithm == JetAlgorithm::kAntiKt ? std::pow(v.pt(), -2)
           : algorithm == JetAlgorithm::kKt   ? v.pt() * v.pt()
                                              : 1;
  };
  std::vector<FourVector> jets;
  while (!p.empty()) {
    double least = INFINITY;
    std::size_t a = 0, b = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      for (std::size_t j = i; j < p.size(); ++j) {
        const double dy = p[i].rapidity() - p[j].rapidity(), dphi = delta_phi(p[i].phi(), p[j].phi());
        const double pair = std::min(power(p[i]), power(p[j])) * (dy * dy + dphi * dphi) / (radius * radius);
        const double d = i == j ? power(p[i]) : pair;
        if (d < least) least = d, a = i, b = j;
      }
    }
    if (a == b) {
      jets.push_back(p[a]);
    } else {
      p[a] += p[b];
    }
    p.erase(p.begin() + static_cast<std::ptrdiff_t>(b));
  }
  std::sort(jets.begin(), jets.end(), [](const FourVector& u, const FourVector& v) { return u.pt() > v.pt(); });
  return jets;
}

TEST(JetFinder, AgreesWithBruteForce) {
  RandomSequence random = sequence(300);
  for (const std::size_t n : {1U, 2U, 31U, 33U, 90U}) {
    std::vector<FourVector> particles;
    for (std::size_t i = 0; i < n; ++i) {
      const double pt = 0.1 / (1.001 - random.uniform()), y = 2 * random.normal();
      particles.push_back(from_pt_y_phi_m(pt, y, 7 * random.uniform(), random.uniform()));
    }
    for (const auto algorithm : {JetAlgorithm::kAntiKt, JetAlgorithm::kCambridgeAachen, JetAlgorithm::kKt}) {
      const auto expected = brute_force_jets(particles, algorithm, 0.8);
      const auto jets = find_jets(particles, {algorithm, 0.8, 0});
      ASSERT_EQ(jets.size(), expected.size()) << n;
      std::vector<std::size_t> used;
      for (std::size_t k = 0; k < jets.size(); ++k) {
        expect_near(jets[k].p, expected[k], 1e-9 * (1 + expected[k].e));
        used.insert(used.end(), jets[k].constituents.begin(), jets[k].constituents.end());
      }
      std::sort(used.begin(), used.end());
      std::vector<std::size_t> all(n);
      std::iota(all.begin(), all.end(), 0U);
      EXPECT_EQ(used, all);
      // The threshold only drops jets, also where it ends the clustering early.
      const auto hard = find_jets(particles, {algorithm, 0.8, 20});
      const auto above = std::count_if(expected.begin(), expected.end(), [](const auto& p) { return p.pt() >= 20; });
      ASSERT_EQ(hard.size(), static_cast<std::size_t>(above));
      for (std::size_t k = 0; k < hard.size(); ++k) expect_near(hard[k].p, expected[k], 1e-9 * expected[k].e);
    }
  }
}

// Two hard particles 1.5 apart share a soft one between them: anti-kT gives it to the harder; across phi = pi likewise.
TEST(JetFinder, HandMadeConfiguration) {
  const double pi = std::numbers::pi;
  const std::vector<FourVector> particles = {from_pt_y_phi_m(100, 0, pi - 0.1, 0),
                                             from_pt_y_phi_m(80, 1.5, pi - 0.1, 0),
                                             from_pt_y_phi_m(1, 0.75, -pi + 0.1, 0), from_pt_y_phi_m(5, -3, 0, 0)};
  const auto jets = find_jets(particles, {JetAlgorithm::kAntiKt, 1.0, 0});
  ASSERT_EQ(jets.size(), 3U);
  EXPECT_EQ(jets[0].constituents, (std::vector<std::size_t>{0, 2}));
  EXPECT_EQ(jets[1].constituents, (std::vector<std::size_t>{1}));
  EXPECT_EQ(jets[2].constituents, (std::vector<std::size_t>{3}));
  // m^2 = 2 pt1 pt2 (cosh dy - cos dphi)
  EXPECT_NEAR(jets[0].p.mass(), std::sqrt(2 * 100 * 1 * (std::cosh(0.75) - std::cos(0.2))), 1e-9);
}

TEST(JetFinder, TrimmingDropsSoftSubjets) {
  const std::vector<FourVector> particles = {from_pt_y_phi_m(100, 0, 0, 0), from_pt_y_phi_m(60, 0.6, 0, 0),
                                             from_pt_y_phi_m(4, 0.3, 0.5, 0), from_pt_y_phi_m(3, 0.05, 0, 0)};
  const auto jets = find_jets(particles, {JetAlgorithm::kAntiKt, 1.0, 0});
  ASSERT_EQ(jets.size(), 1U);
  expect_near(trimmed(jets[0], particles, 0.2, 0.05), particles[0] + particles[1] + particles[3], 1e-9);
}

TEST(Selection, AnalysisJetsAtTheBoundaries) {
  const auto jets = analysis_jets({{200, 0, 0, 1}, {200.1, 1.99, 0, 2}, {300, -2.0, 0, 3}, {500, 0, 0, 4}});
  ASSERT_EQ(jets.size(), 2U);
  EXPECT_EQ(jets[0].mass, 4);
  EXPECT_EQ(jets[1].mass, 2);
}

TEST(Selection, Preselection) {
  EXPECT_TRUE(passes_preselection(std::vector<FatJet>{{440.1}, {201}, {201}}));
  EXPECT_FALSE(passes_preselection(std::vector<FatJet>{{440}, {201}, {201}}));
  EXPECT_FALSE(passes_preselection(std::vector<FatJet>{{900}, {800}}));
  EXPECT_FALSE(passes_preselection({}));
}

TEST(Selection, SignalRegionAtTheBoundaries) {
  const auto region = [](std::size_t count, double mass, double delta_eta) {
    std::vector<FatJet> jets(count, FatJet{300, 0.3, 0, mass});
    jets[0].eta += delta_eta;
    return signal_region(jets);
  };
  EXPECT_FALSE(region(3, 1000, 0).passed());
  EXPECT_FALSE(region(4, 200, 0).passed());
  EXPECT_TRUE(region(4, 200.1, 0).four_jets);
  EXPECT_FALSE(region(4, 200.1, 0).five_jets);
  EXPECT_FALSE(region(5, 150, 0).passed());
  EXPECT_TRUE(region(5, 150.1, 0).five_jets);
  EXPECT_FALSE(region(5, 150.1, 0).four_jets);
  EXPECT_TRUE(region(6, 150.1, 0).passed());
  EXPECT_TRUE(region(5, 300, 1.39).passed());
  EXPECT_FALSE(region(5, 300, 1.41).passed());
  EXPECT_FALSE(region(5, 300, -1.41).passed());
  EXPECT_EQ(
      leading_mass_sum(std::vector<FatJet>{{9, 0, 0, 1}, {8, 0, 0, 2}, {7, 0, 0, 4}, {6, 0, 0, 8}, {5, 0, 0, 16}}), 15);
}

TEST(EventGenerator, IsAFunctionOfOptionsSeedAndIndex) {
  const GeneratorOptions options;
  const Event a = generate_event(options, true, 5, 17), b = generate_event(options, true, 5, 17);
  EXPECT_EQ(a.hist, b.hist);
  EXPECT_EQ(a.hist_em, b.hist_em);
  EXPECT_EQ(a.hist_track, b.hist_track);
  EXPECT_EQ(a.tries, b.tries);
  EXPECT_NE(a.hist, generate_event(options, true, 5, 18).hist);
  EXPECT_NE(a.hist, generate_event(options, true, 6, 17).hist);
  EXPECT_NE(a.hist, generate_event(options, false, 5, 17).hist);
}

TEST(EventGenerator, FatJetsDoNotDependOnTheImageSize) {
  GeneratorOptions options;
  const Event coarse = generate_event(options, true, 5, 3);
  options.image_size = 224;
  const Event fine = generate_event(options, true, 5, 3);
  ASSERT_EQ(coarse.fat_jets.size(), fine.fat_jets.size());
  for (std::size_t i = 0; i < fine.fat_jets.size(); ++i) EXPECT_EQ(coarse.fat_jets[i].mass, fine.fat_jets[i].mass);
  const auto sum = [](const std::vector<float>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  EXPECT_EQ(fine.hist.size(), 224U * 224U);
  EXPECT_NEAR(sum(coarse.hist) / sum(fine.hist), 1, 1e-5);
  EXPECT_EQ(sum(coarse.hist_track), sum(fine.hist_track));
}

TEST(EventGenerator, ImagesAndPreselectionAreConsistent) {
  const GeneratorOptions options;
  double electromagnetic = 0, energy = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const Event event = generate_event(options, i % 2 == 0, 8, i);
    EXPECT_TRUE(passes_preselection(event.fat_jets));
    EXPECT_EQ(event.y, i % 2 == 0 ? 1 : 0);
    EXPECT_EQ(event.selection.passed(), signal_region(event.fat_jets).passed());
    EXPECT_NEAR(event.ht_gev, sum_pt(event.fat_jets), 1e-9);
    for (std::size_t k = 0; k < event.hist.size(); ++k) {
      ASSERT_GE(event.hist_em[k], 0);
      ASSERT_LE(event.hist_em[k], event.hist[k] * (1 + 1e-6F));
      ASSERT_EQ(event.hist_track[k], std::floor(event.hist_track[k]));
      energy += event.hist[k];
      electromagnetic += event.hist_em[k];
    }
    // MeV: the leading jets alone hold more than a quarter of HT.
    EXPECT_GT(std::accumulate(event.hist.begin(), event.hist.end(), 0.0), 250 * event.ht_gev);
  }
  EXPECT_NEAR(electromagnetic / energy, 0.3, 0.04);
}

TEST(EventGenerator, AzimuthIsUniform) {
  const GeneratorOptions options;
  double cosine[2] = {}, sine[2] = {}, eta = 0;  // of phi and 2 phi: two jets back to back hide the first
  constexpr int kCount = 600;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const FatJet jet = generate_event(options, i % 2 == 0, 9, i).fat_jets[0];
    for (int k = 0; k < 2; ++k) {
      cosine[k] += std::cos((k + 1) * jet.phi) / kCount;
      sine[k] += std::sin((k + 1) * jet.phi) / kCount;
    }
    eta += jet.eta / kCount;
  }
  for (int k = 0; k < 2; ++k) {
    EXPECT_NEAR(cosine[k], 0, 4 / std::sqrt(2.0 * kCount));
    EXPECT_NEAR(sine[k], 0, 4 / std::sqrt(2.0 * kCount));
  }
  EXPECT_NEAR(eta, 0, 4 * 0.8 / std::sqrt(1.0 * kCount));
}

TEST(EventGenerator, LabelsHaveTheAskedShare) {
  GeneratorOptions options;
  options.signal_fraction = 0.2;
  int signal = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) signal += draw_label(options, 1, i) ? 1 : 0;
  EXPECT_NEAR(signal, 2000, 160);
}

TEST(EventGenerator, WeightsAddUpToCrossSectionTimesEfficiency) {
  // Two accepted events after 4 and 6 tries in one slice, one after 5 in another: w = sigma L / tries of the slice.
  const std::vector<std::size_t> sample = {0, 1, 0};
  const std::vector<std::uint64_t> tries = {4, 5, 6};
  std::vector<double> weight = {1000, 50, 1000};
  normalise_weights(sample, tries, weight);
  EXPECT_EQ(weight, (std::vector<double>{100, 10, 100}));
}

// The weighted number of events after the preselection does not depend on how the slices are shared out.
TEST(EventGenerator, WeightsUndoTheSliceShares) {
  const auto expected_events = [](std::array<double, kQcdSlices.size()> shares, std::size_t slice) {
    GeneratorOptions options;
    options.slice_shares = shares;
    std::vector<std::size_t> sample;
    std::vector<std::uint64_t> tries;
    std::vector<double> weight;
    for (std::uint64_t i = 0; i < 900; ++i) {
      const Event event = generate_event(options, false, 21, i);
      EXPECT_GE(event.pt_hat_gev, kQcdSlices[event.sample].low_gev);
      EXPECT_LE(event.pt_hat_gev, kQcdSlices[event.sample].high_gev);
      EXPECT_NEAR(event.weight, kQcdSlices[event.sample].cross_section_pb * 36000, 1e-9 * event.weight);
      sample.push_back(event.sample), tries.push_back(event.tries), weight.push_back(event.weight);
    }
    normalise_weights(sample, tries, weight);
    double sum = 0;
    for (std::size_t i = 0; i < weight.size(); ++i) sum += sample[i] == slice ? weight[i] : 0;
    return sum;
  };
  const double one = expected_events({0, 0.5, 0.5}, 1), other = expected_events({0, 0.8, 0, 0.2}, 1);
  EXPECT_NEAR(one / other, 1, 0.2);
  EXPECT_LT(one, kQcdSlices[1].cross_section_pb * 36000);
}

TEST(EventGenerator, RefusesOptionsOutOfRange) {
  const auto refuses = [](auto change) {
    GeneratorOptions options;
    change(options);
    EXPECT_THROW(check(options), Error);
  };
  EXPECT_NO_THROW(check(GeneratorOptions{}));
  refuses([](auto& o) { o.image_size = 0; });
  refuses([](auto& o) { o.neutralino_mass_gev = 1400; });
  refuses([](auto& o) { o.gluino_mass_gev = NAN; });
  refuses([](auto& o) { o.signal_fraction = 1.5; });
  refuses([](auto& o) { o.luminosity_per_pb = 0; });
  refuses([](auto& o) { o.signal_cross_section_pb = -1; });
  refuses([](auto& o) { o.soft_hadrons = -1; });
  refuses([](auto& o) { o.slice_shares = {}; });
  refuses([](auto& o) { o.slice_shares[2] = -0.1; });
}

}  // namespace
}  // namespace petaflow::hep
