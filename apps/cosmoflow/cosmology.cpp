#include "cosmoflow/cosmology.hpp"

#include <cmath>
#include <numbers>

#include "base/error.hpp"

namespace petaflow::cosmoflow {
namespace {

constexpr double kCmbTemperature = 2.7255;  // K, Fixsen 2009

double square(double x) { return x * x; }
double cube(double x) { return x * x * x; }

/// Simpson's rule on [a, b] with an even number of intervals.
template <class F>
double integrate(double a, double b, int intervals, const F& f) {
  const double step = (b - a) / intervals;
  double sum = f(a) + f(b);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * f(a + i * step);
  return sum * step / 3;
}

/// sin(x) / x
double j0(double x) { return std::abs(x) < 1e-4 ? 1 - x * x / 6 : std::sin(x) / x; }

/// The Fourier transform of a sphere of radius 1.
double top_hat(double x) { return x < 1e-2 ? 1 - x * x / 10 : 3 * (std::sin(x) - x * std::cos(x)) / cube(x); }

/// T0~(q, alpha, beta): cold dark matter without oscillations (equations 19 and 20).
double pressureless(double q, double alpha, double beta) {
  const double c = 14.2 / alpha + 386 / (1 + 69.9 * std::pow(q, 1.08));
  const double l = std::log(std::numbers::e + 1.8 * beta * q);
  return l / (l + c * q * q);
}

/// H(a) / H_0, flat.
double expansion(double omega_m, double a) { return std::sqrt(omega_m / cube(a) + 1 - omega_m); }

}  // namespace

void check(const Cosmology& c) {
  const auto in = [](double x, double low, double high) { return x >= low && x <= high; };  // NaN is not
  if (!in(c.omega_m, 0.01, 1)) user_error("Omega_m is {}; it must be in [0.01, 1]", c.omega_m);
  if (!in(c.omega_b, 1e-4, 0.9 * c.omega_m)) {
    user_error("Omega_b is {}; it must be in [0.0001, 0.9 Omega_m = {}]", c.omega_b, 0.9 * c.omega_m);
  }
  if (!in(c.sigma_8, 0, 10)) user_error("sigma_8 is {}; it must be in [0, 10]", c.sigma_8);
  if (!in(c.n_s, 0, 2)) user_error("n_s is {}; it must be in [0, 2]", c.n_s);
  if (!in(c.h_0, 10, 200)) user_error("H_0 is {} km/s/Mpc; it must be in [10, 200]", c.h_0);
}

TransferFunction::TransferFunction(const Cosmology& cosmology) {
  check(cosmology);
  h_ = cosmology.h_0 / 100;
  baryon_share_ = cosmology.omega_b / cosmology.omega_m;
  const double m = cosmology.omega_m * square(h_), b = cosmology.omega_b * square(h_);  // Omega_0 h^2, Omega_b h^2
  const double theta2 = square(kCmbTemperature / 2.7);
  // Equality of matter and radiation, the drag epoch, their ratios of baryons to photons, the sound horizon (2 to 7).
  const double z_eq = 2.50e4 * m / square(theta2);
  k_eq_ = 7.46e-2 * m / theta2;
  const double drag_1 = 0.313 * std::pow(m, -0.419) * (1 + 0.607 * std::pow(m, 0.674));
  const double drag_2 = 0.238 * std::pow(m, 0.223);
  const double z_drag =
      1291 * std::pow(m, 0.251) / (1 + 0.659 * std::pow(m, 0.828)) * (1 + drag_1 * std::pow(b, drag_2));
  const auto baryons_to_photons = [&](double z) { return 31.5 * b / square(theta2) * (1e3 / z); };
  const double r_drag = baryons_to_photons(z_drag), r_eq = baryons_to_photons(z_eq);
  sound_horizon_ = 2 / (3 * k_eq_) * std::sqrt(6 / r_eq) *
                   std::log((std::sqrt(1 + r_drag) + std::sqrt(r_drag + r_eq)) / (1 + std::sqrt(r_eq)));
  k_silk_ = 1.6 * std::pow(b, 0.52) * std::pow(m, 0.73) * (1 + std::pow(10.4 * m, -0.95));
  // Cold dark matter (11, 12).
  const double a_1 = std::pow(46.9 * m, 0.670) * (1 + std::pow(32.1 * m, -0.532));
  const double a_2 = std::pow(12.0 * m, 0.424) * (1 + std::pow(45.0 * m, -0.582));
  alpha_c_ = std::pow(a_1, -baryon_share_) * std::pow(a_2, -cube(baryon_share_));
  const double b_1 = 0.944 / (1 + std::pow(458 * m, -0.708)), b_2 = std::pow(0.395 * m, -0.0266);
  beta_c_ = 1 / (1 + b_1 * (std::pow(1 - baryon_share_, b_2) - 1));
  // Baryons (14, 15, 23, 24).
  const double y = (1 + z_eq) / (1 + z_drag), root = std::sqrt(1 + y);
  const double g = y * (-6 * root + (2 + 3 * y) * std::log((root + 1) / (root - 1)));
  alpha_b_ = 2.07 * k_eq_ * sound_horizon_ * std::pow(1 + r_drag, -0.75) * g;
  beta_b_ = 0.5 + baryon_share_ + (3 - 2 * baryon_share_) * std::sqrt(square(17.2 * m) + 1);
  beta_node_ = 8.41 * std::pow(m, 0.435);
}

double TransferFunction::operator()(double k) const {
  if (k == 0) return 1;
  const double k_mpc = k * h_, q = k_mpc / (13.41 * k_eq_), ks = k_mpc * sound_horizon_;               // (10)
  const double f = 1 / (1 + square(square(ks / 5.4)));                                                 // (18)
  const double cold = f * pressureless(q, 1, beta_c_) + (1 - f) * pressureless(q, alpha_c_, beta_c_);  // (17)
  const double s = sound_horizon_ / std::cbrt(1 + cube(beta_node_ / ks));                              // (22)
  const double baryons = (pressureless(q, 1, 1) / (1 + square(ks / 5.2)) +
                          alpha_b_ / (1 + cube(beta_b_ / ks)) * std::exp(-std::pow(k_mpc / k_silk_, 1.4))) *
                         j0(k_mpc * s);                         // (21)
  return baryon_share_ * baryons + (1 - baryon_share_) * cold;  // (16)
}

LinearPower::LinearPower(const Cosmology& cosmology) : transfer_(cosmology), n_s_(cosmology.n_s) {
  amplitude_ = square(cosmology.sigma_8 / rms_in_spheres(*this, 8));
}

double LinearPower::operator()(double k) const { return amplitude_ * std::pow(k, n_s_) * square(transfer_(k)); }

double rms_in_spheres(const LinearPower& power, double radius) {
  // d ln k from where P is negligible to where the window has fallen to 1e-5; steps of 0.004.
  const auto f = [&](double log_k) {
    const double k = std::exp(log_k);
    return cube(k) * power(k) * square(top_hat(k * radius));
  };
  return std::sqrt(integrate(std::log(1e-5 / radius), std::log(1e3 / radius), 4600, f) /
                   (2 * square(std::numbers::pi)));
}

double growing_mode(double omega_m, double redshift) {
  // (5 Omega_m / 2) E(a) * integral of da / (a E)^3; a = t^2 makes the integrand smooth at 0.
  const double a = 1 / (1 + redshift);
  const auto f = [&](double t) {
    const double x = t * t;
    return x == 0 ? 0 : 2 * t / cube(x * expansion(omega_m, x));
  };
  return 2.5 * omega_m * expansion(omega_m, a) * integrate(0, std::sqrt(a), 1000, f);
}

double growth(double omega_m, double redshift) { return growing_mode(omega_m, redshift) / growing_mode(omega_m, 0); }

double second_order_growth(double omega_m, double redshift) {
  const double a = 1 / (1 + redshift), omega_at_z = omega_m / cube(a) / square(expansion(omega_m, a));
  return -3.0 / 7 * square(growth(omega_m, redshift)) * std::pow(omega_at_z, -1.0 / 143);
}

}  // namespace petaflow::cosmoflow
