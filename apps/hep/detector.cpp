#include "hep/detector.hpp"

#include <cstddef>

namespace petaflow::hep {

namespace {

constexpr std::size_t kTowerRows = 64, kTowerColumns = 64;  // eta, phi
constexpr double kCalorimeterEta = 3.2, kTrackerEta = 2.5;
constexpr double kTrackPtGev = 0.5,
                 kLoopPtGev = 0.345;  // a track below 0.15 x 2 T x 1.15 m never reaches the calorimeter
constexpr double kMinEmGev = 0.5, kMinHadronicGev = 1.0;

double wrapped(double phi) { return phi - 2 * kPi * std::floor((phi + kPi) / (2 * kPi)); }

/// One hadron with a species: 30 % neutral pions, 58 % charged, the rest neutrons and long-lived kaons.
Hadron hadron(double pt, double eta, double phi, RandomSequence& random) {
  constexpr double kNeutralPions = 0.30, kCharged = 0.58;
  const double species = random.uniform();
  const bool charged = species >= kNeutralPions && species < kNeutralPions + kCharged;
  return {pt, eta, wrapped(phi), charged ? (random.uniform() < 0.5 ? 1 : -1) : 0, species < kNeutralPions};
}

/// Energy after a resolution `stochastic` / sqrt(E) + `constant` (in quadrature); 0 below the threshold.
double measured(double energy, double stochastic, double constant, double threshold, RandomSequence& random) {
  if (energy <= 0) return 0;
  const double width = std::sqrt(stochastic * stochastic * energy + constant * constant * energy * energy);
  const double value = energy + width * random.normal();
  return value > threshold ? value : 0;
}

double track_efficiency(double pt, double eta) {
  return pt < 1 ? (std::abs(eta) < 1.5 ? 0.70 : 0.60) : (std::abs(eta) < 1.5 ? 0.95 : 0.85);
}

}  // namespace

void fragment(const Parton& parton, RandomSequence& random, std::vector<Hadron>& hadrons) {
  constexpr double kPionPtGev = 0.25;  // per transverse direction
  constexpr double kLastGev = 0.8;     // what is left below this is one hadron
  const double pt = parton.p.pt(), eta = parton.p.eta(), phi = parton.p.phi();
  if (std::abs(eta) > kCalorimeterEta + 1) return;
  for (double rest = pt; rest > 0;) {
    // f(z) ~ 1 - z, the Lund form without its cut at small z; a mean of 1/3.
    const double z = rest < kLastGev ? 1 : 1 - std::sqrt(1 - random.uniform());
    const double part = z * rest;
    rest = z < 1 ? rest - part : 0;
    if (part < 0.1) continue;
    const double across_eta = kPionPtGev * random.normal(), across_phi = kPionPtGev * random.normal();
    hadrons.push_back(
        hadron(std::hypot(part, across_phi), eta + across_eta / part, phi + std::atan2(across_phi, part), random));
  }
}

void add_soft_hadrons(double mean_count, RandomSequence& random, std::vector<Hadron>& hadrons) {
  constexpr double kMeanPtGev = 0.8, kActivityWidth = 0.3;
  const double mean = mean_count * std::exp(kActivityWidth * random.normal());
  const double count = mean + std::sqrt(mean) * random.normal();
  for (double i = 0.5; i < count; ++i) {
    const double eta = kCalorimeterEta * (2 * random.uniform() - 1), phi = kPi * (2 * random.uniform() - 1);
    hadrons.push_back(hadron(kMeanPtGev * random.exponential(), eta, phi, random));
  }
}

DetectorResponse detect(std::span<const Hadron> hadrons, RandomSequence& random) {
  struct Cell {
    double em = 0, hadronic = 0, eta = 0, phi = 0;  // eta, phi: offsets from the centre, weighted with energy
  };
  std::array<Cell, kTowerRows * kTowerColumns> cells{};
  constexpr double kEtaStep = 2 * kCalorimeterEta / kTowerRows, kPhiStep = 2 * kPi / kTowerColumns;
  const auto centre_eta = [](std::size_t row) { return (static_cast<double>(row) + 0.5) * kEtaStep - kCalorimeterEta; };
  const auto centre_phi = [](std::size_t column) { return (static_cast<double>(column) + 0.5) * kPhiStep - kPi; };

  DetectorResponse response;
  for (const Hadron& h : hadrons) {
    double phi = h.phi;
    if (h.charge != 0) {
      if (h.pt > kTrackPtGev && std::abs(h.eta) < kTrackerEta && random.uniform() < track_efficiency(h.pt, h.eta)) {
        response.tracks.push_back({h.eta, h.phi});
      }
      if (h.pt <= kLoopPtGev) continue;
      phi = wrapped(phi + h.charge * std::asin(kLoopPtGev / h.pt));
    }
    if (std::abs(h.eta) >= kCalorimeterEta) continue;
    const auto row = static_cast<std::size_t>((h.eta + kCalorimeterEta) / kEtaStep);
    const auto column = std::min(static_cast<std::size_t>((phi + kPi) / kPhiStep), kTowerColumns - 1);
    Cell& cell = cells[row * kTowerColumns + column];
    const double energy = h.pt * std::cosh(h.eta);
    (h.electromagnetic ? cell.em : cell.hadronic) += energy;
    cell.eta += energy * (h.eta - centre_eta(row));
    cell.phi += energy * (phi - centre_phi(column));
  }
  for (std::size_t row = 0; row < kTowerRows; ++row) {
    for (std::size_t column = 0; column < kTowerColumns; ++column) {
      const Cell& cell = cells[row * kTowerColumns + column];
      const double sum = cell.em + cell.hadronic;
      if (sum <= 0) continue;
      const double em = measured(cell.em, 0.101, 0.0017, kMinEmGev, random);
      const double energy = em + measured(cell.hadronic, 0.52, 0.03, kMinHadronicGev, random);
      if (energy <= 0) continue;
      response.towers.push_back({energy, em, centre_eta(row) + cell.eta / sum, centre_phi(column) + cell.phi / sum});
    }
  }
  return response;
}

}  // namespace petaflow::hep
