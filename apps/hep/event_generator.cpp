#include "hep/event_generator.hpp"

#include <numeric>

#include "base/error.hpp"
#include "hep/detector.hpp"
#include "hep/jet_finder.hpp"

namespace petaflow::hep {

namespace {

constexpr double kFatJetRadius = 1.0, kTrimRadius = 0.2, kTrimShare = 0.05;  // as in the ATLAS search

/// Loose cuts on partons above 20 GeV, before the costly part: what fails them does not reach the preselection.
bool worth_simulating(const std::vector<Parton>& partons) {
  constexpr double kMargin = 0.85, kMarginEta = 0.5;
  std::vector<FourVector> momenta;
  momenta.reserve(partons.size());
  for (const Parton& parton : partons) momenta.push_back(parton.p);
  std::size_t jets = 0;
  double leading = 0;
  for (const Jet& jet : find_jets(momenta, {JetAlgorithm::kAntiKt, kFatJetRadius, kMargin * kFatJetPtGev})) {
    if (std::abs(jet.p.eta()) > kFatJetEta + kMarginEta) continue;
    ++jets;
    leading = std::max(leading, jet.p.pt());
  }
  return jets >= kPreselectedJets && leading > kMargin * kLeadingPtGev;
}

/// The trimmed jets of the analysis; none where there are too few for the preselection.
std::vector<FatJet> fat_jets(const std::vector<Tower>& towers) {
  std::vector<FourVector> momenta;
  momenta.reserve(towers.size());
  for (const Tower& tower : towers) {
    momenta.push_back(from_pt_y_phi_m(tower.energy / std::cosh(tower.eta), tower.eta, tower.phi, 0));
  }
  const std::vector<Jet> found = find_jets(momenta, {JetAlgorithm::kAntiKt, kFatJetRadius, kFatJetPtGev});
  std::vector<FatJet> jets;
  if (found.size() < kPreselectedJets) return jets;
  for (const Jet& jet : found) {
    const FourVector p = trimmed(jet, momenta, kTrimRadius, kTrimShare);
    jets.push_back({p.pt(), p.eta(), p.phi(), p.mass()});
  }
  return analysis_jets(std::move(jets));
}

void fill_images(const DetectorResponse& response, std::size_t size, Event& event) {
  event.hist.assign(size * size, 0);
  event.hist_em.assign(size * size, 0);
  event.hist_track.assign(size * size, 0);
  const double scale = static_cast<double>(size);
  const auto add = [&](std::vector<float>& image, double eta, double phi, double value) {
    if (std::abs(eta) >= kImageEta) return;
    const auto row = std::min(size - 1, static_cast<std::size_t>(scale * (eta + kImageEta) / (2 * kImageEta)));
    const auto column = static_cast<std::size_t>(scale * (phi + kImagePhi) / (2 * kImagePhi));
    image[row * size + column] += static_cast<float>(value);
  };
  constexpr double kMevPerGev = 1000;
  for (const Tower& tower : response.towers) {
    add(event.hist, tower.eta, tower.phi, kMevPerGev * tower.energy);
    add(event.hist_em, tower.eta, tower.phi, kMevPerGev * tower.energy_em);
  }
  for (const Track& track : response.tracks) add(event.hist_track, track.eta, track.phi, 1);
}

std::size_t draw_slice(const GeneratorOptions& options, double u) {
  u *= std::accumulate(options.slice_shares.begin(), options.slice_shares.end(), 0.0);
  std::size_t slice = 0, last = 0;
  for (; slice < kQcdSlices.size(); ++slice) {
    if (options.slice_shares[slice] <= 0) continue;
    last = slice;
    if (u < options.slice_shares[slice]) break;
    u -= options.slice_shares[slice];
  }
  return last;
}

}  // namespace

void check(const GeneratorOptions& options) {
  const auto require = [](bool good, const char* what) {
    if (!good) user_error("generator: {}", what);
  };
  require(options.image_size >= 1 && options.image_size <= 4096, "image size must be between 1 and 4096 pixels");
  require(options.neutralino_mass_gev > 0 && options.neutralino_mass_gev < options.gluino_mass_gev,
          "the neutralino mass must be positive and below the gluino mass");
  require(options.gluino_mass_gev <= 4000, "the gluino mass must be at most 4000 GeV");
  require(options.signal_cross_section_pb > 0, "the signal cross section must be positive");
  require(options.luminosity_per_pb > 0, "the luminosity must be positive");
  require(options.signal_fraction >= 0 && options.signal_fraction <= 1, "the signal fraction must be within 0 and 1");
  require(options.soft_hadrons >= 0 && options.soft_hadrons <= 1e5, "soft hadrons must be within 0 and 1e5");
  double sum = 0;
  for (const double share : options.slice_shares) {
    require(share >= 0, "the slice shares must not be negative");
    sum += share;
  }
  require(sum > 0, "one slice share must be positive");
}

bool draw_label(const GeneratorOptions& options, std::uint64_t seed, std::uint64_t index) {
  return RandomSequence(random_stream(seed, RandomPurpose::kGenerate, 2), index).uniform() < options.signal_fraction;
}

Event generate_event(const GeneratorOptions& options, bool signal, std::uint64_t seed, std::uint64_t index) {
  RandomSequence random(random_stream(seed, RandomPurpose::kGenerate, signal ? 1 : 0), index);
  Event event;
  event.y = signal ? 1 : 0;
  event.sample = signal ? kQcdSlices.size() : draw_slice(options, random.uniform());
  const double cross_section = signal ? options.signal_cross_section_pb : kQcdSlices[event.sample].cross_section_pb;
  event.weight = cross_section * options.luminosity_per_pb;

  constexpr double kFilterGev = 20;
  std::vector<Hadron> hadrons;
  while (true) {
    ++event.tries;
    HardProcess process = signal ? gluino_pair(options.gluino_mass_gev, options.neutralino_mass_gev, random)
                                 : qcd_jets(event.sample, random);
    PartonShower shower(std::move(process.partons), process.dipoles, random);
    shower.run_to(kFilterGev);
    if (!worth_simulating(shower.partons())) continue;
    shower.run_to(PartonShower::kLowestCutGev);

    hadrons.clear();
    for (const Parton& parton : shower.partons()) fragment(parton, random, hadrons);
    add_soft_hadrons(options.soft_hadrons, random, hadrons);
    const DetectorResponse response = detect(hadrons, random);
    event.fat_jets = fat_jets(response.towers);
    if (!passes_preselection(event.fat_jets)) continue;

    event.pt_hat_gev = process.scale_gev;
    event.selection = signal_region(event.fat_jets);
    event.ht_gev = sum_pt(event.fat_jets);
    fill_images(response, options.image_size, event);
    return event;
  }
}

void normalise_weights(std::span<const std::size_t> sample, std::span<const std::uint64_t> tries,
                       std::span<double> weight) {
  PETAFLOW_REQUIRE(sample.size() == tries.size() && sample.size() == weight.size(), "{} samples, {} tries, {} weights",
                   sample.size(), tries.size(), weight.size());
  std::array<double, kQcdSlices.size() + 1> generated{};
  for (std::size_t i = 0; i < sample.size(); ++i) generated.at(sample[i]) += static_cast<double>(tries[i]);
  for (std::size_t i = 0; i < sample.size(); ++i) weight[i] /= generated[sample[i]];
}

}  // namespace petaflow::hep
