#include "hep/selection.hpp"

#include <algorithm>
#include <cmath>

namespace petaflow::hep {

std::vector<FatJet> analysis_jets(std::vector<FatJet> jets) {
  std::erase_if(jets, [](const FatJet& jet) { return !(jet.pt > kFatJetPtGev && std::abs(jet.eta) < kFatJetEta); });
  std::stable_sort(jets.begin(), jets.end(), [](const FatJet& a, const FatJet& b) { return a.pt > b.pt; });
  return jets;
}

bool passes_preselection(std::span<const FatJet> jets) {
  return jets.size() >= kPreselectedJets && jets[0].pt > kLeadingPtGev;
}

SignalRegion signal_region(std::span<const FatJet> jets) {
  if (jets.size() < 4 || !(std::abs(jets[0].eta - jets[1].eta) < kDeltaEta)) return {};
  const double mass = leading_mass_sum(jets);
  return {mass > kMassSum4JGev, jets.size() >= 5 && mass > kMassSum5JGev};
}

double sum_pt(std::span<const FatJet> jets) {
  double sum = 0;
  for (const FatJet& jet : jets) sum += jet.pt;
  return sum;
}

double leading_mass_sum(std::span<const FatJet> jets) {
  double sum = 0;
  for (const FatJet& jet : jets.first(std::min<std::size_t>(4, jets.size()))) sum += jet.mass;
  return sum;
}

}  // namespace petaflow::hep
