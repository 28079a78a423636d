// Bounds of what arithmetic in bf16 or fp16 changes of a network's values and gradients, from the roundings of its
// layers.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>
#include <vector>

#include "nn/graph.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/deconv.hpp"
#include "nn/lowering.hpp"
#include "nn/network.hpp"
#include "op_support.hpp"

namespace petaflow::testing_support {

/// Relative errors in L2.
struct RoundingBounds {
  double values = 0, gradient = 0;
  double rounded = 0;  // of gradients where all activations and maxima are decided alike
};

/// Bounds for random inputs, weights and gradients of outputs; zero where no layer is a convolution: only those
/// compute in the network's precision.
///
/// Roundings to the nearest are independent and of relative size up to u = roundoff(precision), u / sqrt(3) in the mean
/// square, so n of them in a row make sqrt(n / 3) u (Higham & Mary 2019, A New Approach to Probabilistic Rounding
/// Error Analysis, SIAM J. Sci. Comput. 41).  A layer rounds its result; a convolution its weights and its sum, too.
/// Winograd's products are those of rounded transforms: the mean of their squares over those of the taps,
/// sum_j A_ij^2 |G_j|^2 |B_j|^2 / 3, is 4.76 for F(4, 3) in the points 0, +-2/3, +-3/2 and infinity, squared for two
/// directions, for each of two transforms.  Backward rounds as often again.
///
/// An activation whose input has the relative error d takes the other side for d / pi of the elements (two normal
/// numbers of correlation 1 / sqrt(1 + d^2)), where the gradient changes by 1 - s times it, s being the negative slope:
/// 2 d / pi (1 - s)^2 / (1 + s^2) of the square of all, half of which passes by 1 and half by s.  A maximum is another
/// number of its window with a probability of 0.6 d to d (4 to 27 numbers), and both places have another gradient: 2 d.
/// A few elements decide in a small network: twice the mean is the bound; in fp16, where an eighth as many do, four
/// times.
inline RoundingBounds rounding_bounds(const Graph& graph, const std::vector<StageReport>& stages,
                                      DType precision = DType::kBf16) {
  const bool winograd = std::ranges::any_of(stages, [](const StageReport& s) {
    return (s.forward + s.backward_data + s.backward_weights).find("winograd") != std::string::npos;
  });
  const double rounding = roundoff(precision) * roundoff(precision) / 3;
  constexpr double kConvolution = 2, kWinograd = 2 * 4.76 * 4.76;
  std::vector<double> error(graph.values(), rounding);  // squares, relative
  double decided = 0, most = 0;
  bool convolves = false;
  for (const Graph::Node& node : graph.nodes()) {
    double squares = 0;
    for (const GraphValue x : node.inputs) squares = std::max(squares, error[x.index]);
    const Layer* layer = node.layer.get();
    if (dynamic_cast<const Conv*>(layer) != nullptr || dynamic_cast<const Deconv*>(layer) != nullptr) {
      convolves = true;
      squares += rounding * (kConvolution + (winograd ? kWinograd : 0));
    }
    Lowering lowering;
    layer->lower(lowering);
    for (const Operation& operation : lowering.operations()) {
      if (const auto* activation = std::get_if<ActivationOp>(&operation)) {
        const auto slope = static_cast<double>(activation->negative_slope);
        const double change = (1 - slope) * (1 - slope) / (1 + slope * slope);
        decided += 2 * std::numbers::inv_pi * change * std::sqrt(squares);
      }
      const auto* pool = std::get_if<PoolOp>(&operation);
      if (pool != nullptr && pool->geometry.kind == PoolKind::kMax) decided += 2 * std::sqrt(squares);
    }
    for (const GraphValue y : node.outputs) error[y.index] = squares + rounding;
    most = std::max(most, squares + rounding);
  }
  if (!convolves) return {};
  const double few = precision == DType::kFp16 ? 4 : 2;
  return {std::sqrt(most), std::sqrt(2 * most + few * decided), std::sqrt(2 * most)};
}

}  // namespace petaflow::testing_support
