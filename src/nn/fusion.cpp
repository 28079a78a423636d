#include "nn/fusion.hpp"

namespace petaflow {

bool Fusion::takes_residual() const {
  const bool stage_does = std::holds_alternative<BatchNormOp>(linear) || std::holds_alternative<ConvOp>(linear);
  return stage_does && !residual && !epilogue.saves();
}

bool Fusion::takes_norm() const {
  return std::holds_alternative<ConvOp>(linear) && !norm && !residual && !epilogue.saves();
}

bool Fusion::take(const Operation& operation, std::size_t layer) {
  if (epilogue.dropout > 0) return false;
  if (std::holds_alternative<BiasOp>(operation)) {
    const bool has_bias = std::holds_alternative<ConvOp>(linear) || std::holds_alternative<DenseOp>(linear);
    const bool follows = has_bias && !norm && !epilogue.bias && !epilogue.activation;
    if (!follows || epilogue.pool.kind != PoolKind::kNone) return false;
    epilogue.bias = true;
  } else if (const auto* pool = std::get_if<PoolOp>(&operation)) {
    if (epilogue.pool.kind != PoolKind::kNone) return false;
    epilogue.pool = pool->geometry;
    if (epilogue.pool.window.volume() == 0) {  // global
      epilogue.pool.window = epilogue.v.extent();
      epilogue.pool.stride = epilogue.v.extent();
    }
    const Extent out = epilogue.pool.output(epilogue.v.extent());
    epilogue.y = {epilogue.v.n, epilogue.v.c, out.d, out.h, out.w};
  } else if (const auto* activation = std::get_if<ActivationOp>(&operation)) {
    // A pixel is activated before an average is taken, so an activation behind an average starts a stage; with maxima
    // the order does not matter (any monotone activation).
    if (epilogue.activation || epilogue.pool.kind == PoolKind::kAverage) return false;
    epilogue.activation = true;
    epilogue.negative_slope = activation->negative_slope;
  } else if (const auto* dropout = std::get_if<DropoutOp>(&operation)) {
    epilogue.dropout = dropout->probability;
    epilogue.layer = static_cast<int>(layer);
  } else {
    return false;
  }
  return true;
}

void Fusion::note(const Operation& operation, std::size_t layer, const std::string& layer_name) {
  if (layers.empty() || layers.back() != layer) layers.push_back(layer);
  const std::string what = name_of(operation);
  if (name.empty()) {
    name = layer_name;
  } else if (!what.empty()) {
    name += " + " + what;
  }
}

const char* name_of(const Operation& operation) {
  if (const auto* pool = std::get_if<PoolOp>(&operation))
    return pool->geometry.kind == PoolKind::kMax ? "max pool" : "average pool";
  if (const auto* activation = std::get_if<ActivationOp>(&operation))
    return activation->negative_slope > 0 ? "leaky relu" : "relu";
  if (std::holds_alternative<DropoutOp>(operation)) return "dropout";
  if (std::holds_alternative<BatchNormOp>(operation)) return "batch norm";
  if (std::holds_alternative<AddOp>(operation)) return "add";
  return "";
}

}  // namespace petaflow
