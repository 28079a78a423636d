// THE list of layer cases: every layer alone and the runs of layers that become one stage.  test_layers.cpp checks each
// against PyTorch where tests/golden/layers.json has it, and its gradients numerically in any case.
#pragma once

#include <functional>
#include <ostream>

#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/dense.hpp"
#include "nn/layers/dropout.hpp"
#include "nn/layers/periodic_pad.hpp"
#include "nn/layers/pool.hpp"
#include "nn/layers/scaled_tanh.hpp"
#include "nn/layers/space_to_depth.hpp"

namespace petaflow::cases {

struct LayerCase {
  const char* name;
  Shape x;  // with the batch
  std::function<void(Graph&)> add;
};

inline void PrintTo(const LayerCase& c, std::ostream* out) { *out << c.name; }

inline ConvOptions conv(std::int64_t filters, Extent kernel, Extent pad, Extent stride = {}, std::int64_t groups = 1) {
  ConvOptions options;
  options.filters = filters;
  options.kernel = kernel;
  options.pad = pad;
  options.stride = stride;
  options.groups = groups;
  return options;
}

inline const LayerCase kLayerCases[] = {
    // clang-format off
    {"relu",                {2, 5, 1, 4, 3},   [](Graph& g) { g.add<Relu>("a"); }},
    {"leaky_relu",          {2, 70, 1, 4, 3},  [](Graph& g) { g.add<Relu>("a", 0.3F); }},
    {"max_pool_2",          {2, 5, 1, 7, 6},   [](Graph& g) { g.add<Pool>("p", Pool::square(PoolKind::kMax, 2)); }},
    {"max_pool_3_2_1",      {2, 66, 1, 7, 8},  [](Graph& g) { g.add<Pool>("p", PoolGeometry{PoolKind::kMax, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}}); }},
    {"max_pool_3d",         {1, 3, 5, 6, 4},   [](Graph& g) { g.add<Pool>("p", PoolGeometry{PoolKind::kMax, {2, 3, 2}, {2, 2, 1}, {0, 1, 0}}); }},
    {"average_pool_2",      {2, 5, 1, 7, 6},   [](Graph& g) { g.add<Pool>("p", Pool::square(PoolKind::kAverage, 2)); }},
    {"average_pool_3_2_1",  {2, 9, 1, 7, 8},   [](Graph& g) { g.add<Pool>("p", PoolGeometry{PoolKind::kAverage, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}}); }},
    {"average_pool_3d",     {1, 3, 4, 6, 4},   [](Graph& g) { g.add<Pool>("p", PoolGeometry{PoolKind::kAverage, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}}); }},
    {"global_average",      {3, 70, 1, 5, 4},  [](Graph& g) { g.add<GlobalPool>("p", PoolKind::kAverage); }},
    {"global_max",          {2, 6, 1, 13, 16}, [](Graph& g) { g.add<GlobalPool>("p", PoolKind::kMax); }},
    {"dense",               {5, 3, 1, 2, 4},   [](Graph& g) { g.add<Dense>("d", 7); }},
    {"dense_relu_dense",    {5, 6, 1, 1, 1},   [](Graph& g) { g.add<Dense>("d", 16).add<Relu>("a").add<Dense>("e", 3); }},
    {"conv",                {2, 4, 1, 9, 8},   [](Graph& g) { g.add<Conv>("c", conv(6, {1, 3, 3}, {0, 1, 1})); }},
    {"conv_relu",           {2, 4, 1, 9, 8},   [](Graph& g) { g.add<Conv>("c", conv(6, {1, 3, 3}, {0, 1, 1})).add<Relu>("a"); }},
    {"conv_relu_max",       {2, 3, 1, 24, 20}, [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Relu>("a").add<Pool>("p", Pool::square(PoolKind::kMax, 2)); }},
    {"conv_max_leaky",      {3, 16, 1, 16, 6}, [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Pool>("p", Pool::square(PoolKind::kMax, 2)).add<Relu>("a", 0.1F); }},
    {"conv_relu_max_odd",   {2, 3, 1, 23, 9},  [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Relu>("a").add<Pool>("p", Pool::square(PoolKind::kMax, 2)); }},
    {"conv_relu_overlap",   {2, 3, 1, 24, 10}, [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Relu>("a").add<Pool>("p", PoolGeometry{PoolKind::kMax, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}}); }},
    {"conv_leaky_average",  {2, 3, 1, 20, 12}, [](Graph& g) { g.add<Conv>("c", conv(20, {1, 3, 3}, {0, 1, 1})).add<Relu>("a", 0.3F).add<Pool>("p", Pool::square(PoolKind::kAverage, 2)); }},
    {"conv_average_leaky",  {2, 3, 1, 20, 12}, [](Graph& g) { g.add<Conv>("c", conv(20, {1, 3, 3}, {0, 1, 1})).add<Pool>("p", Pool::square(PoolKind::kAverage, 2)).add<Relu>("a", 0.3F); }},
    {"conv_relu_global",    {8, 16, 1, 6, 6},  [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Relu>("a").add<GlobalPool>("p", PoolKind::kAverage); }},
    {"conv_stride_2",       {2, 4, 1, 21, 11}, [](Graph& g) { g.add<Conv>("c", conv(8, {1, 5, 5}, {0, 2, 2}, {1, 2, 2})).add<Relu>("a"); }},
    {"conv_k1_stride_2",    {2, 4, 1, 17, 6},  [](Graph& g) { g.add<Conv>("c", conv(8, {1, 1, 1}, {0, 0, 0}, {1, 2, 2})); }},
    {"conv_groups",         {2, 8, 1, 16, 7},  [](Graph& g) { g.add<Conv>("c", conv(12, {1, 3, 3}, {0, 1, 1}, {}, 4)).add<Relu>("a"); }},
    {"conv_valid",          {2, 4, 1, 18, 9},  [](Graph& g) { g.add<Conv>("c", conv(8, {1, 4, 4}, {0, 0, 0})).add<Relu>("a"); }},
    {"conv_conv",           {8, 4, 1, 18, 9},  [](Graph& g) { g.add<Conv>("c", conv(8, {1, 3, 3}, {0, 1, 1})).add<Relu>("a").add<Conv>("c2", conv(4, {1, 3, 3}, {0, 1, 1})); }},
    {"conv_3d",             {2, 3, 8, 5, 6},   [](Graph& g) { g.add<Conv>("c", conv(16, {3, 3, 3}, {1, 1, 1})).add<Relu>("a", 0.01F).add<Pool>("p", PoolGeometry{PoolKind::kAverage, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}}); }},
    {"conv_3d_max",         {1, 4, 9, 8, 6},   [](Graph& g) { g.add<Conv>("c", conv(8, {3, 3, 3}, {1, 1, 1})).add<Relu>("a", 0.3F).add<Pool>("p", PoolGeometry{PoolKind::kMax, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}}); }},
    {"conv_3d_to_plane",    {8, 2, 3, 6, 5},   [](Graph& g) { g.add<Conv>("c", conv(8, {3, 3, 3}, {0, 1, 1})).add<Relu>("a"); }},
    {"conv_wide",           {2, 16, 1, 24, 36}, [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Relu>("a").add<Pool>("p", Pool::square(PoolKind::kMax, 2)); }},
    {"conv_wide_3d",        {2, 16, 4, 12, 20}, [](Graph& g) { g.add<Conv>("c", conv(16, {3, 3, 3}, {1, 1, 1})).add<Relu>("a", 0.3F).add<Pool>("p", Pool::cube(PoolKind::kAverage, 2)); }},
    {"conv_32_average",     {2, 3, 1, 8, 11},  [](Graph& g) { g.add<Conv>("c", conv(32, {1, 3, 3}, {0, 1, 1})).add<Relu>("a", 0.3F).add<Pool>("p", Pool::square(PoolKind::kAverage, 2)); }},
    {"conv_average_overlap", {2, 3, 1, 9, 15}, [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Relu>("a", 0.3F).add<Pool>("p", PoolGeometry{PoolKind::kAverage, {1, 3, 3}, {1, 2, 2}, {0, 0, 0}}); }},
    {"dropout",             {4, 70, 1, 6, 5},  [](Graph& g) { g.add<Dropout>("o", 0.4F); }},
    {"conv_relu_max_drop",  {4, 3, 1, 16, 12}, [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Relu>("a").add<Pool>("p", Pool::square(PoolKind::kMax, 2)).add<Dropout>("o", 0.5F); }},
    {"conv_average_drop",   {4, 3, 1, 16, 12}, [](Graph& g) { g.add<Conv>("c", conv(16, {1, 3, 3}, {0, 1, 1})).add<Relu>("a").add<Pool>("p", Pool::square(PoolKind::kAverage, 2)).add<Dropout>("o", 0.25F); }},
    {"batch_norm",          {3, 5, 1, 4, 6},   [](Graph& g) { g.add<BatchNorm>("b"); }},
    {"batch_norm_plain",    {3, 5, 1, 4, 6},   [](Graph& g) { g.add<BatchNorm>("b", BatchNormOptions{.affine = false}); }},
    {"batch_norm_conv_3d",  {3, 4, 4, 5, 6},   [](Graph& g) { g.add<BatchNorm>("b", BatchNormOptions{.affine = false}).add<Conv>("c", conv(8, {3, 3, 3}, {1, 1, 1})); }},
    {"batch_norm_4",        {3, 4, 1, 4, 6},   [](Graph& g) { g.add<BatchNorm>("b"); }},
    {"batch_norm_8_odd",    {2, 8, 1, 5, 3},   [](Graph& g) { g.add<BatchNorm>("b"); }},
    {"batch_norm_3d",       {2, 43, 3, 4, 5},  [](Graph& g) { g.add<BatchNorm>("b"); }},
    {"conv_3d_batch_norm",  {2, 3, 8, 5, 6},   [](Graph& g) { g.add<Conv>("c", conv(16, {3, 3, 3}, {1, 1, 1})).add<BatchNorm>("b").add<Relu>("a", 0.01F).add<Pool>("p", PoolGeometry{PoolKind::kMax, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}}); }},
    {"dense_batch_norm",    {6, 4, 1, 1, 1},   [](Graph& g) { g.add<Dense>("d", 5).add<BatchNorm>("b").add<Relu>("a", 0.1F).add<Dense>("e", 3); }},
    {"periodic_pad",        {2, 5, 1, 4, 6},   [](Graph& g) { g.add<PeriodicPad>("w", 2); }},
    {"scaled_tanh",         {3, 5, 1, 4, 3},   [](Graph& g) { g.add<ScaledTanh>("t", 1.2F); }},
    {"dense_tanh",          {5, 6, 1, 1, 1},   [](Graph& g) { g.add<Dense>("d", 4).add<ScaledTanh>("t", 1.2F); }},
    {"space_to_depth",      {2, 3, 4, 6, 8},   [](Graph& g) { g.add<SpaceToDepth>("s", 2); }},
    {"space_to_depth_conv", {2, 2, 12, 8, 6},  [](Graph& g) { g.add<SpaceToDepth>("s", 2).add<Conv>("c", ConvOptions::same_3d(8, 3)).add<Relu>("a", 0.3F).add<Pool>("p", Pool::cube(PoolKind::kMax, 2)); }},
    {"conv_3d_valid_2",     {2, 4, 9, 8, 7},   [](Graph& g) { g.add<Conv>("c", ConvOptions::valid_3d(8, 3, 2)).add<Relu>("a", 0.01F); }},
    // clang-format on
};

}  // namespace petaflow::cases
