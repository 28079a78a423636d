// Fast detector simulation: partons to hadrons, hadrons to calorimeter towers and tracks, in the manner of Delphes
// (de Favereau et al., JHEP 02 (2014) 057) with resolutions of its ATLAS card.  Energies in GeV.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "hep/parton_shower.hpp"

namespace petaflow::hep {

struct Hadron {
  double pt = 0, eta = 0, phi = 0;
  int charge = 0;
  bool electromagnetic = false;  // a neutral pion: its photons stop in the electromagnetic layer
};

/// A calorimeter cell with signal: energies after resolution, at the barycentre of what hit it.
struct Tower {
  double energy = 0, energy_em = 0, eta = 0, phi = 0;
};

struct Track {
  double eta = 0, phi = 0;
};

struct DetectorResponse {
  std::vector<Tower> towers;
  std::vector<Track> tracks;
};

/// Hadrons of one parton: momentum fractions broken off one after the other, transverse momenta about 0.35 GeV.
void fragment(const Parton& parton, RandomSequence& random, std::vector<Hadron>& hadrons);

/// Underlying event and what pile-up subtraction leaves: about `mean_count` soft hadrons, flat in eta and phi.
void add_soft_hadrons(double mean_count, RandomSequence& random, std::vector<Hadron>& hadrons);

/// Towers of 0.1 x pi/32 up to |eta| = 3.2, tracks up to |eta| = 2.5; the granularity does not depend on any image.
DetectorResponse detect(std::span<const Hadron> hadrons, RandomSequence& random);

}  // namespace petaflow::hep
