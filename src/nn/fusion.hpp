// A stage in the making: runs of operations that execute as one.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "nn/lowering.hpp"

namespace petaflow {

/// A linear operation or a batch norm, or none, and the epilogue collected so far.
struct Fusion {
  std::variant<std::monostate, ConvOp, DenseOp, BatchNormOp> linear;
  std::size_t linear_layer = 0;  // the node that it is from
  EpilogueDesc epilogue;
  std::vector<std::size_t> layers;  // the nodes fused into it
  std::string name;
  std::size_t input = 0;                               // value
  std::optional<std::size_t> residual = std::nullopt;  // value that is added before activation and pooling
  /// A batch norm by running statistics that follows a convolution as a map of its channels.
  struct Norm {
    BatchNormOp op;
    std::size_t layer;
  };
  std::optional<Norm> norm = std::nullopt;

  /// Whether another value may be added to what is there already.
  bool takes_residual() const;
  /// Whether it is a convolution with no more than a bias, which a batch norm by running statistics may follow.
  bool takes_norm() const;
  /// Takes an operation of a layer into the epilogue; false where it cannot follow what is there already.
  bool take(const Operation& operation, std::size_t layer);
  /// A layer's operation is part of the stage; its name goes into the stage's.
  void note(const Operation& operation, std::size_t layer, const std::string& layer_name);
};

/// "max pool", as in the names of stages; empty where the layer's own name says it.
const char* name_of(const Operation& operation);

}  // namespace petaflow
