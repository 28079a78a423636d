// Events of the RPV-SUSY gluino search at 13 TeV as detector images: gluino-pair cascades against QCD multijets.
// An event is a pure function of (options, label, seed, index).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "hep/hard_process.hpp"
#include "hep/selection.hpp"

namespace petaflow::hep {

struct GeneratorOptions {
  std::size_t image_size = 64;  // pixels in eta and in phi
  double gluino_mass_gev = 1400;
  double neutralino_mass_gev = 850;
  double signal_cross_section_pb = 1.436e-2;  // GG_RPV10_1400_850
  double luminosity_per_pb = 36000;
  double signal_fraction = 0.5;  // share of events with label 1
  double soft_hadrons = 150;     // mean number from underlying event and pile-up, |eta| < 3.2
  /// Shares of the slices among background events (normalised here); the weights undo the choice.
  std::array<double, kQcdSlices.size()> slice_shares = {0.40, 0.30, 0.15, 0.08, 0.04, 0.015, 0.008, 0.004, 0.003};
};

inline constexpr double kImageEta = 2.5, kImagePhi = 3.15;  // half ranges of the images

struct Event {
  std::vector<float> hist;        // tower energy, MeV, image_size x image_size, rows eta, columns phi
  std::vector<float> hist_em;     // electromagnetic part, MeV
  std::vector<float> hist_track;  // number of tracks
  int y = 0;                      // 1 signal, 0 background
  std::size_t sample = 0;         // slice of the background; kQcdSlices.size() for signal
  double weight = 0;              // cross section x luminosity of the sample; see normalise_weights
  std::uint64_t tries = 0;        // collisions generated until this one passed the preselection
  double pt_hat_gev = 0;          // background: hard scale
  std::vector<FatJet> fat_jets;   // pT > 200 GeV, |eta| < 2, hardest first
  SignalRegion selection;         // passSR4J, passSR5J, passSR
  double ht_gev = 0;              // scalar sum of the fat jets' pT
};

/// Throws a user error where an option is out of range.
void check(const GeneratorOptions& options);

/// The label of event `index`, 1 with probability signal_fraction.
bool draw_label(const GeneratorOptions& options, std::uint64_t seed, std::uint64_t index);

/// One event that passes the preselection.
Event generate_event(const GeneratorOptions& options, bool signal, std::uint64_t seed, std::uint64_t index);

/// Turns the weights of a whole sample into expected events: w = sigma L / (collisions generated in the event's
/// sample). All spans run over the events; `weight` is read and written.
void normalise_weights(std::span<const std::size_t> sample, std::span<const std::uint64_t> tries,
                       std::span<double> weight);

}  // namespace petaflow::hep
