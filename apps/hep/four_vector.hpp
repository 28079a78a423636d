// Four-momenta in GeV and the kinematics of decays: Particle Data Group, "Kinematics" (rev. 2022), sections 49.1-49.4.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/random.hpp"

namespace petaflow::hep {

inline constexpr double kPi = std::numbers::pi;

struct FourVector {
  double x = 0, y = 0, z = 0, e = 0;

  FourVector& operator+=(const FourVector& o) {
    x += o.x, y += o.y, z += o.z, e += o.e;
    return *this;
  }
  friend FourVector operator+(FourVector a, const FourVector& b) { return a += b; }
  friend FourVector operator*(double k, const FourVector& a) { return {k * a.x, k * a.y, k * a.z, k * a.e}; }

  double pt() const { return std::sqrt(x * x + y * y); }
  double p() const { return std::sqrt(x * x + y * y + z * z); }
  /// In [-pi, pi].
  double phi() const { return std::atan2(y, x); }
  /// Pseudorapidity; finite (about +-30) along the beam.
  double eta() const { return std::asinh(z / std::max(pt(), 1e-13 * std::abs(z) + 1e-300)); }
  double rapidity() const { return 0.5 * std::log((e + z) / (e - z)); }
  double mass2() const { return (e - z) * (e + z) - x * x - y * y; }
  double mass() const { return std::sqrt(std::max(0.0, mass2())); }
};

inline FourVector from_pt_y_phi_m(double pt, double rapidity, double phi, double mass) {
  const double mt = std::sqrt(pt * pt + mass * mass);
  return {pt * std::cos(phi), pt * std::sin(phi), mt * std::sinh(rapidity), mt * std::cosh(rapidity)};
}

/// v, given in the rest frame of `frame` (mass > 0), in the frame in which `frame` is given.
inline FourVector from_rest_frame(const FourVector& v, const FourVector& frame) {
  const double m = frame.mass(), e = (v.e * frame.e + v.x * frame.x + v.y * frame.y + v.z * frame.z) / m;
  const double k = (e + v.e) / (frame.e + m);
  return {v.x + k * frame.x, v.y + k * frame.y, v.z + k * frame.z, e};
}

/// The inverse of from_rest_frame.
inline FourVector to_rest_frame(const FourVector& v, const FourVector& frame) {
  return from_rest_frame(v, {-frame.x, -frame.y, -frame.z, frame.e});
}

/// Momentum of the two products of a decay at rest.
inline double decay_momentum(double mass, double m1, double m2) {
  const double sum = m1 + m2, difference = m1 - m2;
  return std::sqrt(std::max(0.0, (mass - sum) * (mass + sum) * (mass - difference) * (mass + difference))) / (2 * mass);
}

/// Isotropic decay of `parent` into masses m1 + m2 <= parent's mass.
inline std::array<FourVector, 2> decay_two_body(const FourVector& parent, double m1, double m2,
                                                RandomSequence& random) {
  const double p = decay_momentum(parent.mass(), m1, m2), cosine = 2 * random.uniform() - 1;
  const double pt = p * std::sqrt(1 - cosine * cosine), phi = 2 * std::numbers::pi * random.uniform();
  const double x = pt * std::cos(phi), y = pt * std::sin(phi), z = p * cosine;
  return {from_rest_frame({x, y, z, std::sqrt(p * p + m1 * m1)}, parent),
          from_rest_frame({-x, -y, -z, std::sqrt(p * p + m2 * m2)}, parent)};
}

/// Decay of `parent` into three masses, flat in phase space: d Phi_3 ~ p*(M; m12, m3) p*(m12; m1, m2) d m12.
inline std::array<FourVector, 3> decay_three_body(const FourVector& parent, double m1, double m2, double m3,
                                                  RandomSequence& random) {
  const double mass = parent.mass(), low = m1 + m2, high = mass - m3;
  const double bound = decay_momentum(mass, low, m3) * decay_momentum(high, m1, m2);
  double m12 = 0, density = 0;
  do {
    m12 = low + (high - low) * random.uniform();
    density = decay_momentum(mass, m12, m3) * decay_momentum(m12, m1, m2);
  } while (random.uniform() * bound >= density);
  const auto [pair, third] = decay_two_body(parent, m12, m3, random);
  const auto [first, second] = decay_two_body(pair, m1, m2, random);
  return {first, second, third};
}

}  // namespace petaflow::hep
