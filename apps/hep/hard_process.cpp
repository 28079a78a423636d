#include "hep/hard_process.hpp"

namespace petaflow::hep {

namespace {

/// Initial-state gluons, d N = 2 C alpha_s(k) / pi (1 - k / scale)^2 d ln k d y, |y| < 3; the square stands for the
/// fall of the parton densities.  The hard system `partons` recoils as a whole: its mass and rapidity stay.
void radiate_initial_state(HardProcess& process, RandomSequence& random) {
  constexpr double kLowestGev = 5, kHighestRapidity = 3, kColour = 2.5;  // C between C_F and C_A
  const double density = 2 * kColour * alpha_s(kLowestGev) / kPi * 2 * kHighestRapidity;
  std::vector<FourVector> emissions;
  FourVector recoil;
  for (double k = process.scale_gev;;) {
    k *= std::exp(-random.exponential() / density);
    if (k < kLowestGev) break;
    const double room = 1 - k / process.scale_gev;
    if (random.uniform() * alpha_s(kLowestGev) >= alpha_s(k) * room * room) continue;
    const double y = kHighestRapidity * (2 * random.uniform() - 1);
    emissions.push_back(from_pt_y_phi_m(k, y, 2 * kPi * random.uniform(), 0));
    recoil += emissions.back();
  }
  FourVector system;
  for (const Parton& parton : process.partons) system += parton.p;
  const FourVector balanced = from_pt_y_phi_m(recoil.pt(), system.rapidity(), recoil.phi() + kPi, system.mass());
  for (Parton& parton : process.partons) parton.p = from_rest_frame(to_rest_frame(parton.p, system), balanced);

  for (const FourVector& emission : emissions) {
    const std::size_t gluon = process.partons.size();
    process.partons.push_back({emission, true});
    for (const std::size_t partner : {0, 1}) process.dipoles.push_back({gluon, partner, emission.pt(), 1, true});
  }
}

/// x f(x) of a parton up to a constant: a rough common shape of quarks and gluons at high scales.
double parton_density(double x) {
  const double valence = (1 - x) * (1 - x);
  return x < 1 ? std::pow(x, -0.4) * valence * valence : 0.0;
}

/// Leading-order g g -> g g at fixed pT, d sigma / d y1 d y2 up to a constant, at most 1; it depends on y* = (y1 - y2)
/// / 2.
double gluon_matrix_element(double y_star) {
  const double c = std::tanh(y_star), t = 0.5 * (1 - c), u = 0.5 * (1 + c);  // -t / s, -u / s
  const double bracket = 3 - t * u + u / (t * t) + t / (u * u), cosh = std::cosh(y_star);
  return bracket / (16 * cosh * cosh * cosh * cosh);
}

}  // namespace

double slice_exponent(std::size_t slice) {
  double above = 0;
  for (std::size_t i = slice + 1; i < kQcdSlices.size(); ++i) above += kQcdSlices[i].cross_section_pb;
  const auto& [name, low, high, cross_section] = kQcdSlices[slice];
  // The last slice has nothing above it: it continues with the exponent of the one before.
  return above > 0 ? std::log1p(cross_section / above) / std::log(high / low) : slice_exponent(slice - 1);
}

double slice_pt_hat(std::size_t slice, double u) {
  const auto& [name, low, high, cross_section] = kQcdSlices[slice];
  const double a = slice_exponent(slice);
  return low * std::pow(1 - u * (1 - std::pow(low / high, a)), -1 / a);
}

HardProcess gluino_pair(double gluino_mass_gev, double neutralino_mass_gev, RandomSequence& random) {
  // Pair mass 2 m (1 + x): threshold factor sqrt(x) and falling parton luminosity exp(-x / 0.14), so x ~ Gamma(3/2).
  constexpr double kFall = 0.14, kRapidityWidth = 0.55;
  double pair_mass = 0, rapidity = 0;
  do {
    const double normal = random.normal();
    pair_mass = 2 * gluino_mass_gev * (1 + kFall * (random.exponential() + 0.5 * normal * normal));
    rapidity = kRapidityWidth * random.normal();
  } while (pair_mass * std::exp(std::abs(rapidity)) >= kCollisionEnergyGev);
  const FourVector pair = from_pt_y_phi_m(0, rapidity, 0, pair_mass);

  HardProcess process;
  process.scale_gev = gluino_mass_gev;
  for (const FourVector& gluino : decay_two_body(pair, gluino_mass_gev, gluino_mass_gev, random)) {
    const auto [q1, q2, neutralino] = decay_three_body(gluino, 0, 0, neutralino_mass_gev, random);
    process.partons.insert(process.partons.end(), {{q1, false}, {q2, false}});
    for (const FourVector& q : decay_three_body(neutralino, 0, 0, 0, random)) process.partons.push_back({q, false});
  }
  // The octets of the two gluinos are joined by two lines; a neutralino is a singlet with a junction.
  const double start = 0.5 * gluino_mass_gev;
  process.dipoles = {{0, 6, start, 1, false}, {5, 1, start, 1, false}};
  for (const std::size_t k : {2, 7}) {
    for (const std::size_t i : {0, 1, 2}) process.dipoles.push_back({k + i, k + (i + 1) % 3, start, 0.5, false});
  }
  radiate_initial_state(process, random);
  return process;
}

HardProcess qcd_jets(std::size_t slice, RandomSequence& random) {
  constexpr double kHighestRapidity = 2.8;
  HardProcess process;
  const double pt = process.scale_gev = slice_pt_hat(slice, random.uniform());
  // Rapidities of the two partons: parton densities times matrix element, largest near (0, 0).
  const double x_central = std::min(0.999, 2 * pt / kCollisionEnergyGev);
  const double bound = parton_density(x_central) * parton_density(x_central) * 1.05;
  double y1 = 0, y2 = 0, density = 0;
  do {
    y1 = kHighestRapidity * (2 * random.uniform() - 1), y2 = kHighestRapidity * (2 * random.uniform() - 1);
    const double x1 = pt / kCollisionEnergyGev * (std::exp(y1) + std::exp(y2));
    const double x2 = pt / kCollisionEnergyGev * (std::exp(-y1) + std::exp(-y2));
    density = gluon_matrix_element(0.5 * (y1 - y2)) * parton_density(x1) * parton_density(x2);
  } while (random.uniform() * bound >= density);
  const double phi = 2 * kPi * random.uniform();
  // Gluon share of the jets: about 3/4 at 100 GeV, 1/2 at 500 GeV, 1/3 at 1.2 TeV.
  const double gluon_share = 1 / (1 + std::pow(pt / 500, 0.8));
  process.partons = {{from_pt_y_phi_m(pt, y1, phi, 0), random.uniform() < gluon_share},
                     {from_pt_y_phi_m(pt, y2, phi + kPi, 0), random.uniform() < gluon_share}};
  const bool gluon0 = process.partons[0].gluon, gluon1 = process.partons[1].gluon;
  // One line joins the two; the second colour of a gluon ends in the beam, or in the other gluon.
  process.dipoles = {{0, 1, pt, 1, false}};
  if (gluon0) process.dipoles.push_back({0, 1, pt, 1, !gluon1});
  if (gluon1 && !gluon0) process.dipoles.push_back({1, 0, pt, 1, true});
  radiate_initial_state(process, random);
  return process;
}

}  // namespace petaflow::hep
