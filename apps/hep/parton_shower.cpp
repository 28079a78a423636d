#include "hep/parton_shower.hpp"

#include <utility>

namespace petaflow::hep {

namespace {

constexpr double kQuarkDipole = 4.0 / 3.0;  // C_F
constexpr double kGluonDipole = 3.0 / 2.0;  // N_c / 2

/// Energy fractions x = 2 E / sqrt(s) of an emission: pt^2 = s (1 - x1) (1 - x3), y = 1/2 ln((1 - x1) / (1 - x3)).
std::pair<double, double> energy_fractions(double log_pt2, double y, double s) {
  const double t = std::exp(0.5 * (log_pt2 - std::log(s)));
  return {1 - t * std::exp(y), 1 - t * std::exp(-y)};
}

}  // namespace

double alpha_s(double pt_gev) {
  constexpr double kAtZ = 0.118, kZMassGev = 91.19, kBeta0 = 23.0 / (12.0 * std::numbers::pi);
  return kAtZ / (1 + kBeta0 * kAtZ * 2 * std::log(pt_gev / kZMassGev));
}

PartonShower::PartonShower(std::vector<Parton> partons, const std::vector<Dipole>& dipoles, RandomSequence& random)
    : partons_(std::move(partons)), dipoles_(dipoles), random_(random) {
  for (std::size_t i = 0; i < dipoles_.size(); ++i) add_candidate(i, 2 * std::log(dipoles_[i].start_gev));
}

double PartonShower::mass2(const Dipole& dipole) const {
  return (partons_[dipole.first].p + partons_[dipole.second].p).mass2();
}

/// Veto algorithm below log_pt2: proposals with the coupling at the lowest cut and the whole triangle |y| < L / 2,
/// L = ln(s / pt^2), thinned to d P = C alpha_s / (2 pi) (x1^n1 + x3^n3) d ln pt^2 d y, n = 2 for a quark, 3 for a
/// gluon.
void PartonShower::add_candidate(std::size_t index, double log_pt2) {
  static const double highest_coupling = alpha_s(kLowestCutGev);
  const Dipole& dipole = dipoles_[index];
  const double s = mass2(dipole);
  if (s <= 4 * kLowestCutGev * kLowestCutGev) return;
  const bool gluon1 = partons_[dipole.first].gluon, gluon3 = partons_[dipole.second].gluon;
  const double colour = dipole.strength * (gluon1 || gluon3 ? kGluonDipole : kQuarkDipole);
  const double log_s = std::log(s), lowest = 2 * std::log(kLowestCutGev);
  double length = log_s - std::min(log_pt2, log_s - 2 * std::numbers::ln2);  // pt <= sqrt(s) / 2
  while (true) {
    const double step = 2 * std::numbers::pi / (colour * highest_coupling) * random_.exponential();
    length = std::sqrt(length * length + step);
    log_pt2 = log_s - length;
    if (log_pt2 <= lowest) return;
    const double y = length * (random_.uniform() - 0.5);
    if (dipole.second_silent && y < 0) continue;
    const auto [x1, x3] = energy_fractions(log_pt2, y, s);
    if (x1 + x3 <= 1) continue;
    const double shape = 0.5 * (x1 * x1 * (gluon1 ? x1 : 1) + x3 * x3 * (gluon3 ? x3 : 1));
    if (random_.uniform() * highest_coupling < shape * alpha_s(std::exp(0.5 * log_pt2))) {
      heap_.push_back({log_pt2, y, index});
      std::push_heap(heap_.begin(), heap_.end());
      return;
    }
  }
}

void PartonShower::emit(const Candidate& candidate) {
  const Dipole dipole = dipoles_[candidate.dipole];
  FourVector& p1 = partons_[dipole.first].p;
  FourVector& p3 = partons_[dipole.second].p;
  const FourVector sum = p1 + p3;
  const double s = sum.mass2();  // may differ from the candidate's: emissions of neighbours recoil
  const auto [x1, x3] = energy_fractions(candidate.log_pt2, candidate.y, s);
  if (s <= 0 || x1 + x3 <= 1 || x1 <= 0 || x3 <= 0) {
    add_candidate(candidate.dipole, candidate.log_pt2);
    return;
  }
  // In the dipole's rest frame, axis n along p1: both ends turn away from the gluon, the harder one less.
  const double e1 = 0.5 * x1 * std::sqrt(s), e3 = 0.5 * x3 * std::sqrt(s);
  const double cosine = std::clamp(1 - 2 * (x1 + x3 - 1) / (x1 * x3), -1.0, 1.0);
  const double opening = std::numbers::pi - std::acos(cosine);
  const double turn1 = opening * x3 * x3 / (x1 * x1 + x3 * x3), turn3 = opening - turn1;
  const FourVector axis = to_rest_frame(p1, sum);
  const double norm = axis.p();
  const double n[3] = {axis.x / norm, axis.y / norm, axis.z / norm};
  const double transverse = std::hypot(n[0], n[1]), psi = 2 * std::numbers::pi * random_.uniform();
  const double c = std::cos(psi), d = std::sin(psi);
  double u[3] = {c, d, 0};  // unit vector orthogonal to n at azimuth psi
  if (transverse > 1e-9) {
    const double a[3] = {-n[1] / transverse, n[0] / transverse, 0};
    const double b[3] = {n[2] * n[0] / transverse, n[2] * n[1] / transverse, -transverse};
    for (int k = 0; k < 3; ++k) u[k] = c * a[k] + d * b[k];
  }
  const auto vector = [&](double along, double across, double energy) {
    const FourVector v{along * n[0] + across * u[0], along * n[1] + across * u[1], along * n[2] + across * u[2],
                       energy};
    return from_rest_frame(v, sum);
  };
  const double along1 = e1 * std::cos(turn1), across1 = -e1 * std::sin(turn1);
  const double along3 = -e3 * std::cos(turn3), across3 = -e3 * std::sin(turn3);
  p1 = vector(along1, across1, e1);
  p3 = vector(along3, across3, e3);
  const FourVector gluon = vector(-along1 - along3, -across1 - across3, std::sqrt(s) - e1 - e3);

  const std::size_t g = partons_.size();
  partons_.push_back({gluon, true});
  const double pt = std::exp(0.5 * candidate.log_pt2);
  dipoles_[candidate.dipole] = {dipole.first, g, pt, 1, false};
  dipoles_.push_back({g, dipole.second, pt, 1, dipole.second_silent});
  add_candidate(candidate.dipole, candidate.log_pt2);
  add_candidate(dipoles_.size() - 1, candidate.log_pt2);
}

void PartonShower::run_to(double cut_gev) {
  const double log_cut2 = 2 * std::log(cut_gev);
  while (!heap_.empty() && heap_.front().log_pt2 > log_cut2) {
    std::pop_heap(heap_.begin(), heap_.end());
    const Candidate next = heap_.back();
    heap_.pop_back();
    emit(next);
  }
}

}  // namespace petaflow::hep
