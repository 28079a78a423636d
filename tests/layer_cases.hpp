// THE list of layer cases: every layer alone and the runs of layers that become one stage.  test_layers.cpp checks each
// against PyTorch where tests/golden/layers.json has it, and its gradients numerically in any case.
#pragma once

#include <functional>
#include <ostream>

#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/add.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/broadcast.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/deconv.hpp"
#include "nn/layers/dense.hpp"
#include "nn/layers/dropout.hpp"
#include "nn/layers/periodic_pad.hpp"
#include "nn/layers/pool.hpp"
#include "nn/layers/resize.hpp"
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

/// Layers of batch norm, ReLU and a convolution, each of which reads what all before it gave (Huang et al. 2016,
/// arXiv:1608.06993).
inline void dense_block(Graph& g, int layers, std::int64_t growth) {
  for (int i = 1; i <= layers; ++i) {
    const GraphValue x = g.value();
    const std::string name = fmt::format("block/{}/", i);
    g.add<BatchNorm>(name + "norm").add<Relu>(name + "relu");
    g.add<Conv>(name + "conv", ConvOptions::same_2d(growth, 3));
    g.join<Concat>(name + "concat", {x, g.value()});
  }
}

/// Batch norm and ReLU in front of both convolutions (He et al. 2016, arXiv:1603.05027); a convolution of 1 x 1 on the
/// way around where there is a stride.
inline void residual_block(Graph& g, const std::string& name, std::int64_t filters, std::int64_t stride) {
  GraphValue x = g.value();
  g.add<BatchNorm>(name + "/norm1").add<Relu>(name + "/relu1");
  if (stride > 1) {
    const GraphValue y = g.value();
    x = g.add<Conv>(name + "/around", conv(filters, {1, 1, 1}, {0, 0, 0}, {1, stride, stride})).value();
    g.at(y);
  }
  g.add<Conv>(name + "/conv1", conv(filters, {1, 3, 3}, {0, 1, 1}, {1, stride, stride}));
  g.add<BatchNorm>(name + "/norm2").add<Relu>(name + "/relu2");
  g.add<Conv>(name + "/conv2", conv(filters, {1, 3, 3}, {0, 1, 1}));
  g.join<Add>(name + "/add", {g.value(), x});
}

/// Atrous spatial pyramid pooling: windows of several dilations and the mean of the map, side by side (Chen et al.
/// 2017, arXiv:1706.05587).
inline void pyramid(Graph& g, std::int64_t filters) {
  const GraphValue x = g.value();
  const Extent map = g.shape(x).extent();
  std::vector<GraphValue> branches = {
      g.add<Conv>("p/1", conv(filters, {1, 1, 1}, {0, 0, 0})).add<Relu>("p/1r").value()};
  for (const std::int64_t rate : {2, 4}) {
    ConvOptions dilated = conv(filters, {1, 3, 3}, {0, rate, rate});
    dilated.dilation = {1, rate, rate};
    const std::string name = fmt::format("p/{}", rate);
    branches.push_back(g.at(x).add<Conv>(name, dilated).add<Relu>(name + "r").value());
  }
  g.at(x).add<GlobalPool>("p/mean", PoolKind::kAverage).add<Conv>("p/image", conv(filters, {1, 1, 1}, {0, 0, 0}));
  branches.push_back(g.add<Relu>("p/image_r").add<Broadcast>("p/map", map).value());
  g.join<Concat>("p/concat", branches).add<Conv>("p/out", conv(filters, {1, 1, 1}, {0, 0, 0}));
}

/// One window per channel.
inline ConvOptions depthwise(std::int64_t channels, std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
  const std::int64_t pad = kernel / 2 * dilation;
  ConvOptions options = conv(channels, {1, kernel, kernel}, {0, pad, pad}, {1, stride, stride}, channels);
  options.dilation = {1, dilation, dilation};
  return options;
}

inline ConvOptions times(float gain, ConvOptions options) {
  options.gain = gain;
  return options;
}

inline DeconvOptions deconv(const ConvOptions& of, Extent output_padding = {0, 0, 0}) {
  DeconvOptions options{of};
  options.output_padding = output_padding;
  return options;
}

/// Two levels down by pooling and up by deconvolutions, each level beside what went down (Ronneberger et al. 2015,
/// arXiv:1505.04597).
inline void u_net(Graph& g, std::int64_t filters) {
  const auto pair = [&](const std::string& name, std::int64_t out) {
    for (const char* which : {"/1", "/2"})
      g.add<Conv>(name + which, conv(out, {1, 3, 3}, {0, 1, 1})).add<Relu>(name + which + "/relu");
    return g.value();
  };
  const GraphValue fine = pair("down1", filters);
  g.add<Pool>("pool1", Pool::square(PoolKind::kMax, 2));
  const GraphValue middle = pair("down2", 2 * filters);
  g.add<Pool>("pool2", Pool::square(PoolKind::kMax, 2));
  pair("bottom", 4 * filters);
  g.add<Deconv>("up2", deconv(conv(2 * filters, {1, 2, 2}, {0, 0, 0}, {1, 2, 2})));
  g.join<Concat>("beside2", {middle, g.value()});
  pair("out2", 2 * filters);
  g.add<Deconv>("up1", deconv(conv(filters, {1, 2, 2}, {0, 0, 0}, {1, 2, 2})));
  g.join<Concat>("beside1", {fine, g.value()});
  pair("out1", filters);
  g.add<Conv>("classes", conv(3, {1, 1, 1}, {0, 0, 0}));
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
    {"deconv",         {2, 4, 1, 9, 8},   [](Graph& g) { g.add<Deconv>("c", deconv(conv(6, {1, 3, 3}, {0, 1, 1}, {1, 2, 2}), {0, 1, 1})); }},
    {"deconv_relu",    {2, 4, 1, 13, 8},  [](Graph& g) { g.add<Deconv>("c", deconv(conv(6, {1, 5, 4}, {0, 2, 1}, {1, 2, 2}))).add<Relu>("a"); }},
    {"deconv_stride_1", {2, 16, 1, 28, 28}, [](Graph& g) { g.add<Deconv>("c", deconv(conv(16, {1, 3, 3}, {0, 1, 1}))).add<Relu>("a", 0.3F).add<Pool>("p", Pool::square(PoolKind::kMax, 2)); }},
    {"deconv_stride_3", {2, 3, 1, 7, 6},  [](Graph& g) { g.add<Deconv>("c", deconv(conv(5, {1, 2, 2}, {0, 0, 0}, {1, 3, 3}), {0, 2, 0})); }},
    {"deconv_groups",  {2, 8, 1, 12, 7},  [](Graph& g) { g.add<Deconv>("c", deconv(conv(12, {1, 3, 3}, {0, 1, 1}, {1, 2, 2}, 4), {0, 1, 0})).add<Relu>("a"); }},
    {"deconv_large",   {2, 16, 1, 30, 40}, [](Graph& g) { g.add<Deconv>("c", deconv(conv(16, {1, 3, 3}, {0, 1, 1}, {1, 2, 2}), {0, 1, 1})).add<Relu>("a").add<Pool>("p", Pool::square(PoolKind::kMax, 2)); }},
    {"deconv_3d",      {2, 3, 4, 5, 6},   [](Graph& g) { g.add<Deconv>("c", deconv(conv(8, {3, 3, 3}, {1, 1, 1}, {2, 2, 2}), {1, 0, 1})).add<Relu>("a", 0.1F); }},
    {"conv_3d_valid_2",     {2, 4, 9, 8, 7},   [](Graph& g) { g.add<Conv>("c", ConvOptions::valid_3d(8, 3, 2)).add<Relu>("a", 0.01F); }},
    {"conv_dilation",       {2, 4, 1, 13, 11}, [](Graph& g) { ConvOptions o = conv(8, {1, 3, 3}, {0, 2, 2}); o.dilation = {1, 2, 2}; g.add<Conv>("c", o).add<Relu>("a"); }},
    {"conv_gain",           {2, 4, 1, 9, 8},   [](Graph& g) { g.add<Conv>("c", times(0.5F, conv(6, {1, 3, 3}, {0, 1, 1}))); }},
    {"deconv_gain",         {2, 4, 1, 9, 8},   [](Graph& g) { g.add<Deconv>("c", deconv(times(0.5F, conv(6, {1, 3, 3}, {0, 1, 1}, {1, 2, 2})), {0, 1, 1})); }},
    {"conv_depthwise",      {2, 20, 1, 13, 14}, [](Graph& g) { g.add<Conv>("c", depthwise(20, 3, 1, 1)).add<Relu>("a", 0.1F); }},
    {"conv_depthwise_2",    {2, 20, 1, 12, 14}, [](Graph& g) { g.add<Conv>("c", depthwise(20, 3, 2, 1)).add<Relu>("a"); }},
    {"conv_depthwise_6",    {2, 36, 1, 16, 14}, [](Graph& g) { g.add<Conv>("c", depthwise(36, 3, 1, 6)); }},
    {"conv_depthwise_3d",   {2, 6, 5, 6, 7},   [](Graph& g) { g.add<Conv>("c", conv(6, {3, 3, 3}, {1, 1, 1}, {2, 2, 2}, 6)).add<Relu>("a"); }},
    {"conv_affine",         {3, 20, 1, 1, 1},  [](Graph& g) { g.add<Conv>("c", depthwise(20, 1, 1, 1)).add<Relu>("a"); }},
    {"conv_separable",      {2, 12, 1, 12, 14}, [](Graph& g) { g.add<Conv>("c", depthwise(12, 3, 1, 1)).add<Conv>("e", conv(20, {1, 1, 1}, {0, 0, 0})).add<Relu>("a"); }},
    {"resize",              {2, 5, 1, 4, 3},   [](Graph& g) { g.add<Resize>("r", 7, 12); }},
    {"resize_down",         {2, 21, 1, 9, 8},  [](Graph& g) { g.add<Resize>("r", 4, 5); }},
    {"conv_resize",         {2, 4, 1, 6, 5},   [](Graph& g) { g.add<Conv>("c", conv(8, {1, 3, 3}, {0, 1, 1})).add<Relu>("a", 0.1F).add<Resize>("r", 24, 20).add<Conv>("d", conv(3, {1, 1, 1}, {0, 0, 0})); }},
    {"broadcast",           {3, 5, 1, 1, 1},   [](Graph& g) { g.add<Broadcast>("b", Extent{1, 4, 3}); }},
    {"add",                 {2, 5, 1, 4, 3},   [](Graph& g) { const GraphValue x = g.value(); g.add<Relu>("a", 0.3F).join<Add>("s", {g.value(), x}); }},
    {"concat",              {2, 5, 1, 4, 3},   [](Graph& g) { const GraphValue x = g.value(); g.add<Relu>("a").join<Concat>("c", {g.value(), x, g.value()}).add<Relu>("e", 0.1F); }},
    {"conv_batch_norm_dense_block", {2, 6, 1, 9, 8},   [](Graph& g) { dense_block(g.add<Conv>("c", conv(6, {1, 3, 3}, {0, 1, 1})), 5, 4); }},
    {"conv_batch_norm_residual", {2, 4, 1, 12, 10}, [](Graph& g) { residual_block(g.add<Conv>("c", conv(8, {1, 3, 3}, {0, 1, 1})), "r", 8, 1); }},
    {"conv_batch_norm_residual_2", {3, 4, 1, 12, 10}, [](Graph& g) { residual_block(g.add<Conv>("c", conv(8, {1, 3, 3}, {0, 1, 1})), "r", 12, 2); }},
    {"conv_pyramid",        {2, 4, 1, 14, 12}, [](Graph& g) { pyramid(g.add<Conv>("c", conv(8, {1, 3, 3}, {0, 1, 1})).add<Relu>("a"), 8); }},
    {"conv_u_net",     {2, 3, 1, 8, 12},  [](Graph& g) { u_net(g, 4); }},
    // clang-format on
};

}  // namespace petaflow::cases
