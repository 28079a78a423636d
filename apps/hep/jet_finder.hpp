// Sequential recombination of particles into jets: anti-kT, Cambridge/Aachen and kT.
// Cacciari, Salam, Soyez, JHEP 04 (2008) 063; nearest neighbours as in Cacciari and Salam, Phys. Lett. B 641 (2006) 57.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hep/four_vector.hpp"

namespace petaflow::hep {

enum class JetAlgorithm { kAntiKt, kCambridgeAachen, kKt };

struct JetOptions {
  JetAlgorithm algorithm = JetAlgorithm::kAntiKt;
  double radius = 1.0;
  double min_pt_gev = 0;
};

struct Jet {
  FourVector p;                           // sum of the constituents
  std::vector<std::size_t> constituents;  // indices of the particles, ascending
};

/// Jets above the threshold, hardest first.  Distances are in rapidity and azimuth; n^2 time and n memory.
std::vector<Jet> find_jets(std::span<const FourVector> particles, const JetOptions& options);

/// The jet without its soft parts: constituents clustered with kT at `radius`, subjets under `share` of the jet's pT
/// dropped (Krohn, Thaler, Wang, JHEP 02 (2010) 084).
FourVector trimmed(const Jet& jet, std::span<const FourVector> particles, double radius, double share);

}  // namespace petaflow::hep
