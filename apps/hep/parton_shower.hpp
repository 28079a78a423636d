// Colour-dipole cascade: gluon radiation ordered in transverse momentum, every emission conserving four-momentum.
// Gustafson and Pettersson, Nucl. Phys. B 306 (1988) 746; Lonnblad (ARIADNE), Comput. Phys. Commun. 71 (1992) 15.
#pragma once

#include <cstddef>
#include <vector>

#include "base/random.hpp"
#include "hep/four_vector.hpp"

namespace petaflow::hep {

struct Parton {
  FourVector p;  // massless
  bool gluon = false;
};

/// A colour line between two partons.  A silent end takes recoil only: its radiation belongs to the initial state.
struct Dipole {
  std::size_t first = 0, second = 0;
  double start_gev = 0;  // no emission above this transverse momentum
  double strength = 1;   // 1/2 where three quarks meet in a junction
  bool second_silent = false;
};

/// Strong coupling at a transverse momentum in GeV: one loop, five flavours, 0.118 at the Z mass.
double alpha_s(double pt_gev);

/// The cascade of one event; run it down to a resolution, look, and continue.
class PartonShower {
 public:
  PartonShower(std::vector<Parton> partons, const std::vector<Dipole>& dipoles, RandomSequence& random);

  /// Emits every gluon with transverse momentum above `cut_gev` (>= kLowestCutGev).
  void run_to(double cut_gev);
  const std::vector<Parton>& partons() const { return partons_; }

  static constexpr double kLowestCutGev = 1.0;

 private:
  struct Candidate {
    double log_pt2, y;  // the next emission of a dipole, y > 0 towards its first end
    std::size_t dipole;
    bool operator<(const Candidate& o) const { return log_pt2 < o.log_pt2; }
  };

  double mass2(const Dipole& dipole) const;
  void add_candidate(std::size_t dipole, double log_pt2);
  void emit(const Candidate& candidate);

  std::vector<Parton> partons_;
  std::vector<Dipole> dipoles_;
  std::vector<Candidate> heap_;  // one per dipole that can still emit
  RandomSequence& random_;
};

}  // namespace petaflow::hep
