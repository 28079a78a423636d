// A flat universe of cold dark matter, baryons and a cosmological constant: the linear power spectrum of its matter and
// how structure grows in it.  Wave numbers are in h/Mpc, spectra in (Mpc/h)^3.
#pragma once

namespace petaflow::cosmoflow {

struct Cosmology {
  double omega_m = 0.3;    // matter today, baryons included, in units of the critical density
  double sigma_8 = 0.8;    // rms of the linear density contrast today in spheres of 8 Mpc/h
  double n_s = 0.96;       // index of the primordial spectrum
  double h_0 = 70;         // Hubble's constant, km/s/Mpc
  double omega_b = 0.045;  // baryons today; as in the simulations of Mathuriya et al., SC18
};

/// Throws a user error where a parameter has a value that no formula here holds for.
void check(const Cosmology& cosmology);

/// The full fit, with the acoustic oscillations, of Eisenstein & Hu 1998 (astro-ph/9709112), for a cosmic microwave
/// background of 2.7255 K: delta(k) today over its primordial value, 1 for k -> 0.  Its k is in h/Mpc.
class TransferFunction {
 public:
  explicit TransferFunction(const Cosmology& cosmology);
  double operator()(double k) const;

 private:
  // The symbols of the paper, lengths in Mpc.
  double h_, baryon_share_, k_eq_, sound_horizon_, k_silk_;
  double alpha_c_, beta_c_, alpha_b_, beta_b_, beta_node_;
};

/// The linear power spectrum today, A k^n_s T(k)^2, normalised to sigma_8.
class LinearPower {
 public:
  explicit LinearPower(const Cosmology& cosmology);
  /// (Mpc/h)^3 at k > 0 in h/Mpc.
  double operator()(double k) const;

 private:
  TransferFunction transfer_;
  double n_s_, amplitude_ = 1;
};

/// The rms of the density contrast with this spectrum in spheres of so many Mpc/h (top-hat window).
double rms_in_spheres(const LinearPower& power, double radius);

/// The growing mode at a redshift (Heath 1977, MNRAS 179, 351), 1/(1 + z) in the early universe, where matter rules.
double growing_mode(double omega_m, double redshift);

/// D(z): the growing mode, 1 today.
double growth(double omega_m, double redshift);

/// D_2(z) = -3/7 D(z)^2 Omega_m(z)^(-1/143): what the second order of Lagrangian perturbation theory grows with
/// (Bouchet et al. 1995, astro-ph/9406013, for flat universes).
double second_order_growth(double omega_m, double redshift);

}  // namespace petaflow::cosmoflow
