// Fat jets, the preselection and the cut-based signal region of the RPV-SUSY search (NERSC atlas_dl,
// physics_selections.py): the classical analysis that a network has to beat.  GeV throughout.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace petaflow::hep {

struct FatJet {
  double pt = 0, eta = 0, phi = 0, mass = 0;
};

/// The signal region: |delta eta| of the two leading jets, and the summed mass of the four leading ones.
struct SignalRegion {
  bool four_jets = false, five_jets = false;
  bool passed() const { return four_jets || five_jets; }
};

inline constexpr double kFatJetPtGev = 200, kFatJetEta = 2.0, kLeadingPtGev = 440;
inline constexpr std::size_t kPreselectedJets = 3;
inline constexpr double kDeltaEta = 1.4, kMassSum4JGev = 800, kMassSum5JGev = 600;

/// The jets with pT > 200 and |eta| < 2, hardest first.
std::vector<FatJet> analysis_jets(std::vector<FatJet> jets);

/// At least three analysis jets, the leading one above 440; `jets` as from analysis_jets.
bool passes_preselection(std::span<const FatJet> jets);

/// `jets` as from analysis_jets, any number of them.
SignalRegion signal_region(std::span<const FatJet> jets);

/// Scalar sum of the transverse momenta.
double sum_pt(std::span<const FatJet> jets);

/// Summed mass of the (up to) four leading jets.
double leading_mass_sum(std::span<const FatJet> jets);

}  // namespace petaflow::hep
