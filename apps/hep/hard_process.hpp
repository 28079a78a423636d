// The hard collisions at 13 TeV: gluino pairs decaying to ten quarks, and QCD two-jet production in slices of pT-hat.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "hep/parton_shower.hpp"

namespace petaflow::hep {

inline constexpr double kCollisionEnergyGev = 13000;

/// One generated sample of the background: pT-hat range and cross section.
struct QcdSlice {
  const char* name;
  double low_gev, high_gev, cross_section_pb;
};

/// The slices JZ4 to JZ12 of the ATLAS RPV-SUSY sample (NERSC atlas_dl, DelphesXSec; 1 mb = 1e9 pb).
/// JZ3 (160 to 400 GeV, 1.643e5 pb) is left out: one collision in 18,000 passes the preselection (none of 60 such
/// events the cuts), and the weighted background would grow by 9 %.
inline constexpr std::array<QcdSlice, 9> kQcdSlices = {{{"JZ4", 400, 800, 1.997e3},
                                                        {"JZ5", 800, 1300, 4.138e1},
                                                        {"JZ6", 1300, 1800, 1.565},
                                                        {"JZ7", 1800, 2500, 1.173e-1},
                                                        {"JZ8", 2500, 3200, 4.269e-3},
                                                        {"JZ9", 3200, 3900, 1.602e-4},
                                                        {"JZ10", 3900, 4600, 4.955e-6},
                                                        {"JZ11", 4600, 5300, 8.095e-8},
                                                        {"JZ12", 5300, 6000, 3.365e-10}}};

/// Partons before radiation from the final state, their colour lines, and the scale of the collision.
struct HardProcess {
  std::vector<Parton> partons;
  std::vector<Dipole> dipoles;
  double scale_gev = 0;  // pT-hat, or the gluino mass
};

/// The exponent a of sigma(> pT) ~ pT^-a inside a slice, which reproduces the cross sections of all slices.
double slice_exponent(std::size_t slice);
/// pT-hat in GeV with the falling spectrum of the slice; u uniform in [0, 1).
double slice_pt_hat(std::size_t slice, double u);

/// Two gluinos, gluino -> q q neutralino, neutralino -> q q q (R-parity violating), with initial-state radiation.
HardProcess gluino_pair(double gluino_mass_gev, double neutralino_mass_gev, RandomSequence& random);
/// Two jets with pT-hat in a slice, with initial-state radiation.
HardProcess qcd_jets(std::size_t slice, RandomSequence& random);

}  // namespace petaflow::hep
