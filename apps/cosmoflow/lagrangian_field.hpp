// A Gaussian random field and where its matter goes: Lagrangian perturbation theory of second order, with one particle
// per cell of a periodic mesh.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cosmoflow/mesh.hpp"

namespace petaflow::cosmoflow {

/// With nabla^2 phi_1 = delta and nabla^2 phi_2 = sum over i > j of phi_1,ii phi_1,jj - phi_1,ij^2, a particle from q
/// is at
///   x = q - D nabla phi_1 + D_2 nabla phi_2
/// (Scoccimarro 1998, astro-ph/9711187, appendix D; Bouchet et al. 1995, astro-ph/9406013).
class LagrangianField {
 public:
  /// n^3 particles, n even, in a box of so many Mpc/h.
  LagrangianField(int n, double box);

  /// Takes the density contrast delta today whose modes are those of white noise (n^3 numbers of unit variance, x
  /// slowest) times sqrt(P(k)); P in (Mpc/h)^3, k in h/Mpc.  Its mean is 0.
  void start(std::span<const float> noise, const std::function<double(double)>& power);
  /// delta: n^3 numbers, x slowest.  After start() and before displace().
  std::vector<float> density();
  /// Computes the displacements, in place of delta.
  void displace();
  /// -nabla phi_1 and nabla phi_2 along an axis, in cells.
  const MeshField& first_order(int axis) const { return first_[static_cast<std::size_t>(axis)]; }
  const MeshField& second_order(int axis) const { return *second_[static_cast<std::size_t>(axis)]; }

  /// The particles in each cell (n^3, x slowest; they add up to n^3) for growth factors D and D_2.  A particle starts
  /// in the middle of its cell.
  void count(double growth, double second_order_growth, std::span<std::int32_t> counts) const;

 private:
  MeshShape shape_;
  double box_;
  MeshTransform transform_;
  MeshField density_;
  std::array<MeshField, 3> first_, work_;
  std::array<MeshField*, 3> second_;  // work_[1], work_[2] and density_
};

}  // namespace petaflow::cosmoflow
