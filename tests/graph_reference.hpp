// Random networks, and what they compute written down again in f64: one loop per operation, no stages, no plan.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/launch.hpp"
#include "nn/graph.hpp"
#include "nn/layers/activation.hpp"
#include "nn/layers/add.hpp"
#include "nn/layers/batch_norm.hpp"
#include "nn/layers/concat.hpp"
#include "nn/layers/conv.hpp"
#include "nn/layers/pool.hpp"
#include "nn/stage.hpp"

namespace petaflow::testing_support {

/// y0 = 2 x, y1 = -x / 2: a layer that gives two values.
class Fork final : public Layer {
 public:
  std::vector<Shape> outputs(std::span<const Shape> x) const override { return {x[0], x[0]}; }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<ForkStage>()}); }

  class ForkStage final : public Stage {
   public:
    void forward(const Context& context) override {
      const auto* x = buffers.x[0].as<float>();
      auto *y0 = buffers.y[0].as<float>(), *y1 = buffers.y[1].as<float>();
      launch(
          context, "petaflow::fork::forward[kokkos]"_label, buffers.x[0].shape.elements(),
          KOKKOS_LAMBDA(std::int64_t i) { y0[i] = 2 * x[i], y1[i] = -0.5F * x[i]; });
    }
    void backward(const Context& context, float*) override {
      if (buffers.dx[0].data == nullptr) return;
      const auto *dy0 = buffers.dy[0].as<float>(), *dy1 = buffers.dy[1].as<float>();
      auto* dx = buffers.dx[0].as<float>();
      launch(
          context, "petaflow::fork::backward[kokkos]"_label, buffers.x[0].shape.elements(),
          KOKKOS_LAMBDA(std::int64_t i) { dx[i] = 2 * dy0[i] - 0.5F * dy1[i]; });
    }
  };
};

/// An array (N, C, H, W) with its gradient.
struct Array {
  Shape shape;
  std::vector<double> values, gradient;

  explicit Array(const Shape& s) : shape(s), values(static_cast<std::size_t>(s.elements())), gradient(values.size()) {}
  std::size_t at(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) const {
    return static_cast<std::size_t>(((n * shape.c + c) * shape.h + h) * shape.w + w);
  }
};

/// One operation: its values and parameters by number, and what it does with them.
struct ReferenceNode {
  std::vector<std::size_t> inputs, outputs;
  std::vector<double> parameters, gradient;  // trained ones, in the layer's order
  std::function<void(ReferenceNode&, std::vector<Array>&)> forward, backward;
};

/// A network in both forms.
struct RandomNetwork {
  Graph graph;
  std::vector<Array> arrays;
  std::vector<ReferenceNode> nodes;
  /// The smallest distance of an activation's input from 0, or of a maximum from the next value.
  double margin = 1;
  int nested = 0, strided = 0;  // concatenations of a concatenation, residual blocks with a stride

  /// @param smooth  activations with a slope of 0.99 and averages only: derivatives that no rounding decides
  RandomNetwork(std::uint32_t seed, std::int64_t batch, bool smooth = false);
  void forward();
  void backward();  // from the gradients of the outputs

 private:
  /// @param filters  0: drawn, as the stride and all else
  void conv(std::size_t x, std::int64_t filters = 0, std::int64_t stride = 0);
  void relu(std::size_t x);
  void pool(std::size_t x, PoolKind kind);
  void batch_norm(std::size_t x);
  void add(std::size_t a, std::size_t b);
  void concat(const std::vector<std::size_t>& parts);
  void fork(std::size_t x);
  /// Two convolutions, an activation between them, beside a third one, which has their stride.
  void residual(std::size_t x, std::int64_t stride);
  ReferenceNode& finish(std::vector<std::size_t> inputs, std::size_t parameters);
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_); }
  std::string next_name(const char* kind) { return fmt::format("part/{}{}", kind, nodes.size()); }

  bool smooth_;
  std::mt19937 random_;
};

inline RandomNetwork::RandomNetwork(std::uint32_t seed, std::int64_t batch, bool smooth)
    : graph(Shape{}), smooth_(smooth), random_(seed) {
  const auto size = [&] { return static_cast<std::int64_t>(6 + below(9)); };
  const Shape x{batch, static_cast<std::int64_t>(1 + below(5)), 1, size(), size()};
  graph = Graph(x);
  arrays.emplace_back(x);
  conv(0);
  const std::size_t layers = 3 + below(12);
  for (std::size_t i = 0; i < layers; ++i) {
    // Mostly one of the last values, sometimes any.
    const std::size_t last = arrays.size() - 1;
    const std::size_t a = below(4) == 0 ? below(arrays.size()) : last - below(std::min<std::size_t>(last + 1, 3));
    std::vector<std::size_t> alike, wide;
    for (std::size_t v = 0; v < arrays.size(); ++v) {
      if (arrays[v].shape == arrays[a].shape) alike.push_back(v);
      if (arrays[v].shape.extent() == arrays[a].shape.extent()) wide.push_back(v);
    }
    switch (below(11)) {
      case 0:
      case 1:
      case 2:
        conv(a);
        break;
      case 3:
        relu(a);
        break;
      case 4:
        arrays[a].shape.h > 3 && arrays[a].shape.w > 3 ? pool(a, PoolKind::kMax) : relu(a);
        break;
      case 5:
        arrays[a].shape.h > 3 && arrays[a].shape.w > 3 ? pool(a, PoolKind::kAverage) : conv(a);
        break;
      case 6:
        batch_norm(a);
        break;
      case 7:
        add(a, alike[below(alike.size())]);
        break;
      case 8: {
        std::vector<std::size_t> parts = {a};
        for (std::size_t k = 0; k < 1 + below(2); ++k) parts.push_back(wide[below(wide.size())]);
        concat(parts);
        if (below(2) == 0) concat({a, arrays.size() - 1});
        break;
      }
      case 9:
        residual(a, static_cast<std::int64_t>(1 + below(2)));
        break;
      default:
        below(3) == 0 ? fork(a) : add(a, alike[below(alike.size())]);
    }
  }
  // A value that nobody uses is an output, and sometimes more are.
  for (std::size_t v = 1; v < arrays.size(); ++v) {
    const bool used = std::ranges::any_of(
        nodes, [&](const ReferenceNode& n) { return std::ranges::find(n.inputs, v) != n.inputs.end(); });
    if (!used || below(8) == 0) graph.at({v}).mark_output();
  }
  for (double& value : arrays[0].values) value = std::normal_distribution<double>()(random_);
  for (const GraphValue output : graph.outputs()) {
    for (double& value : arrays[output.index].gradient) value = std::normal_distribution<double>()(random_);
  }
}

/// Arrays and parameters of the layer that the graph has just got.
inline ReferenceNode& RandomNetwork::finish(std::vector<std::size_t> inputs, std::size_t parameters) {
  ReferenceNode node;
  node.inputs = std::move(inputs);
  for (const GraphValue value : graph.nodes().back().outputs) {
    node.outputs.push_back(value.index);
    arrays.emplace_back(graph.shape(value).with_batch(arrays[0].shape.n));
  }
  node.parameters.resize(parameters);
  node.gradient.resize(parameters);
  nodes.push_back(std::move(node));
  return nodes.back();
}

inline void RandomNetwork::conv(std::size_t x, std::int64_t filters, std::int64_t stride) {
  ConvOptions o;
  const Shape in = arrays[x].shape;
  const bool grouped = in.c % 2 == 0 && below(4) == 0;
  o.groups = grouped ? 2 : 1;
  o.filters = static_cast<std::int64_t>(1 + below(20)) * o.groups;
  if (filters > 0) o.groups = 1, o.filters = filters;
  const std::int64_t kernel = below(3) == 0 ? 1 : 3;
  const std::int64_t dilation = kernel == 3 && below(4) == 0 && in.h > 4 && in.w > 4 ? 2 : 1;
  if (stride == 0) stride = below(4) == 0 ? 2 : 1;
  o.kernel = {1, kernel, kernel};
  o.dilation = {1, dilation, dilation};
  o.stride = {1, stride, stride};
  o.pad = {0, dilation * (kernel / 2), dilation * (kernel / 2)};
  o.bias = below(3) > 0;
  graph.at({x}).add<Conv>(next_name("conv"), o);
  const std::int64_t depth = in.c / o.groups, per_group = o.filters / o.groups, window = kernel * kernel;
  const auto weights = static_cast<std::size_t>(o.filters * depth * window);
  ReferenceNode& node = finish({x}, weights + (o.bias ? static_cast<std::size_t>(o.filters) : 0));
  const double spread = 1 / std::sqrt(static_cast<double>(depth * window));
  for (double& p : node.parameters) p = spread * std::normal_distribution<double>()(random_);
  // Calls f(input element, output element, weight element) for each product.
  const auto products = [=](const Array& a, const Array& y, const auto& f) {
    for (std::int64_t n = 0; n < y.shape.n; ++n)
      for (std::int64_t k = 0; k < y.shape.c; ++k)
        for (std::int64_t h = 0; h < y.shape.h; ++h)
          for (std::int64_t w = 0; w < y.shape.w; ++w)
            for (std::int64_t c = 0; c < depth; ++c)
              for (std::int64_t t = 0; t < window; ++t) {
                const std::int64_t i = h * stride + t / kernel * dilation - o.pad.h;
                const std::int64_t j = w * stride + t % kernel * dilation - o.pad.w;
                if (i < 0 || i >= a.shape.h || j < 0 || j >= a.shape.w) continue;
                f(a.at(n, k / per_group * depth + c, i, j), y.at(n, k, h, w),
                  static_cast<std::size_t>((k * depth + c) * window + t));
              }
  };
  const auto biases = [=](const Array& y, const auto& f) {
    for (std::size_t e = 0; o.bias && e < y.values.size(); ++e) {
      f(e, weights + e / static_cast<std::size_t>(y.shape.pixels()) % static_cast<std::size_t>(o.filters));
    }
  };
  node.forward = [=](ReferenceNode& self, std::vector<Array>& all) {
    const Array& a = all[self.inputs[0]];
    Array& y = all[self.outputs[0]];
    products(a, y,
             [&](std::size_t i, std::size_t e, std::size_t p) { y.values[e] += a.values[i] * self.parameters[p]; });
    biases(y, [&](std::size_t e, std::size_t p) { y.values[e] += self.parameters[p]; });
  };
  node.backward = [=](ReferenceNode& self, std::vector<Array>& all) {
    Array& a = all[self.inputs[0]];
    const Array& y = all[self.outputs[0]];
    products(a, y, [&](std::size_t i, std::size_t e, std::size_t p) {
      a.gradient[i] += y.gradient[e] * self.parameters[p];
      self.gradient[p] += y.gradient[e] * a.values[i];
    });
    biases(y, [&](std::size_t e, std::size_t p) { self.gradient[p] += y.gradient[e]; });
  };
}

inline void RandomNetwork::residual(std::size_t x, std::int64_t stride) {
  strided += stride > 1 ? 1 : 0;
  const auto filters = static_cast<std::int64_t>(1 + below(20));
  conv(x, filters, stride);
  relu(arrays.size() - 1);
  conv(arrays.size() - 1, filters, 1);
  const std::size_t y = arrays.size() - 1;
  conv(x, filters, stride);
  add(y, arrays.size() - 1);
}

inline void RandomNetwork::relu(std::size_t x) {
  const float drawn = below(2) == 0 ? 0.0F : 0.25F, slope = smooth_ ? 0.99F : drawn;
  graph.at({x}).add<Relu>(next_name("relu"), slope);
  ReferenceNode& node = finish({x}, 0);
  node.forward = [this, slope](ReferenceNode& self, std::vector<Array>& all) {
    for (std::size_t i = 0; i < all[self.inputs[0]].values.size(); ++i) {
      const double v = all[self.inputs[0]].values[i];
      if (v != 0) margin = std::min(margin, std::abs(v));
      all[self.outputs[0]].values[i] = v > 0 ? v : static_cast<double>(slope) * v;
    }
  };
  node.backward = [slope](ReferenceNode& self, std::vector<Array>& all) {
    for (std::size_t i = 0; i < all[self.inputs[0]].values.size(); ++i) {
      const double factor = all[self.inputs[0]].values[i] > 0 ? 1 : static_cast<double>(slope);
      all[self.inputs[0]].gradient[i] += factor * all[self.outputs[0]].gradient[i];
    }
  };
}

/// 2 x 2, stride 2.
inline void RandomNetwork::pool(std::size_t x, PoolKind kind) {
  if (smooth_) kind = PoolKind::kAverage;
  graph.at({x}).add<Pool>(next_name("pool"), Pool::square(kind, 2));
  ReferenceNode& node = finish({x}, 0);
  // Calls f(output element, the four input elements, the largest of them).
  const auto windows = [](const Array& a, const Array& y, const auto& f) {
    for (std::int64_t n = 0; n < y.shape.n; ++n)
      for (std::int64_t c = 0; c < y.shape.c; ++c)
        for (std::int64_t h = 0; h < y.shape.h; ++h)
          for (std::int64_t w = 0; w < y.shape.w; ++w) {
            std::vector<std::size_t> four;
            for (std::int64_t t = 0; t < 4; ++t) four.push_back(a.at(n, c, 2 * h + t / 2, 2 * w + t % 2));
            std::ranges::stable_sort(four, [&](std::size_t p, std::size_t q) { return a.values[p] > a.values[q]; });
            f(y.at(n, c, h, w), four);
          }
  };
  node.forward = [this, kind, windows](ReferenceNode& self, std::vector<Array>& all) {
    const Array& a = all[self.inputs[0]];
    Array& y = all[self.outputs[0]];
    windows(a, y, [&](std::size_t e, const std::vector<std::size_t>& four) {
      const double first = a.values[four[0]], second = a.values[four[1]];
      if (kind == PoolKind::kMax && first != second) margin = std::min(margin, first - second);
      for (const std::size_t i : four) y.values[e] += a.values[i] / 4;
      if (kind == PoolKind::kMax) y.values[e] = first;
    });
  };
  node.backward = [kind, windows](ReferenceNode& self, std::vector<Array>& all) {
    Array& a = all[self.inputs[0]];
    const Array& y = all[self.outputs[0]];
    windows(a, y, [&](std::size_t e, const std::vector<std::size_t>& four) {
      if (kind == PoolKind::kMax) {
        a.gradient[four[0]] += y.gradient[e];
      } else {
        for (const std::size_t i : four) a.gradient[i] += y.gradient[e] / 4;
      }
    });
  };
}

/// Over the pass, with weight and bias.
inline void RandomNetwork::batch_norm(std::size_t x) {
  constexpr double kEpsilon = 1e-2;  // channels of a dead activation have no variance
  graph.at({x}).add<BatchNorm>(next_name("norm"), BatchNormOptions{.epsilon = static_cast<float>(kEpsilon)});
  const auto channels = static_cast<std::size_t>(arrays[x].shape.c);
  ReferenceNode& node = finish({x}, 2 * channels);
  for (double& p : node.parameters) p = 0.5 + std::abs(std::normal_distribution<double>()(random_));
  const auto elements = [](const Array& a, std::int64_t c, const auto& f) {
    for (std::int64_t n = 0; n < a.shape.n; ++n)
      for (std::int64_t h = 0; h < a.shape.h; ++h)
        for (std::int64_t w = 0; w < a.shape.w; ++w) f(a.at(n, c, h, w));
  };
  struct Statistics {
    double count = 0, mean = 0, rstd = 0;
  };
  const auto statistics = [=](const Array& a, std::int64_t c) {
    Statistics s;
    double variance = 0;
    elements(a, c, [&](std::size_t i) { s.count += 1, s.mean += a.values[i]; });
    s.mean /= s.count;
    elements(a, c, [&](std::size_t i) { variance += std::pow(a.values[i] - s.mean, 2) / s.count; });
    s.rstd = 1 / std::sqrt(variance + static_cast<double>(static_cast<float>(kEpsilon)));
    return s;
  };
  node.forward = [=](ReferenceNode& self, std::vector<Array>& all) {
    const Array& a = all[self.inputs[0]];
    for (std::int64_t c = 0; c < a.shape.c; ++c) {
      const Statistics s = statistics(a, c);
      const auto k = static_cast<std::size_t>(c);
      elements(a, c, [&](std::size_t i) {
        all[self.outputs[0]].values[i] =
            self.parameters[k] * (a.values[i] - s.mean) * s.rstd + self.parameters[channels + k];
      });
    }
  };
  node.backward = [=](ReferenceNode& self, std::vector<Array>& all) {
    Array& a = all[self.inputs[0]];
    const Array& y = all[self.outputs[0]];
    for (std::int64_t c = 0; c < a.shape.c; ++c) {
      const Statistics s = statistics(a, c);
      const auto k = static_cast<std::size_t>(c);
      double sum = 0, sum_normal = 0;
      elements(a, c, [&](std::size_t i) {
        sum += y.gradient[i], sum_normal += y.gradient[i] * (a.values[i] - s.mean) * s.rstd;
      });
      elements(a, c, [&](std::size_t i) {
        const double normal = (a.values[i] - s.mean) * s.rstd;
        a.gradient[i] += self.parameters[k] * s.rstd * (y.gradient[i] - sum / s.count - normal * sum_normal / s.count);
      });
      self.gradient[k] = sum_normal, self.gradient[channels + k] = sum;
    }
  };
}

inline void RandomNetwork::add(std::size_t a, std::size_t b) {
  graph.join<Add>(next_name("add"), {{a}, {b}});
  ReferenceNode& node = finish({a, b}, 0);
  node.forward = [](ReferenceNode& self, std::vector<Array>& all) {
    for (const std::size_t x : self.inputs) {
      for (std::size_t i = 0; i < all[x].values.size(); ++i) all[self.outputs[0]].values[i] += all[x].values[i];
    }
  };
  node.backward = [](ReferenceNode& self, std::vector<Array>& all) {
    for (const std::size_t x : self.inputs) {
      for (std::size_t i = 0; i < all[x].values.size(); ++i) all[x].gradient[i] += all[self.outputs[0]].gradient[i];
    }
  };
}

inline void RandomNetwork::concat(const std::vector<std::size_t>& parts) {
  std::vector<GraphValue> values;
  for (const std::size_t part : parts) values.push_back({part});
  nested += std::ranges::any_of(graph.nodes(), [&](const Graph::Node& n) {
    return dynamic_cast<const Concat*>(n.layer.get()) != nullptr && std::ranges::count(values, n.outputs[0]) > 0;
  });
  graph.join<Concat>(next_name("concat"), values);
  ReferenceNode& node = finish(parts, 0);
  // Calls f(part, its element, the element of the whole).
  const auto elements = [](const ReferenceNode& self, const std::vector<Array>& all, const auto& f) {
    const Array& y = all[self.outputs[0]];
    std::int64_t first = 0;
    for (const std::size_t part : self.inputs) {
      const Shape& s = all[part].shape;
      for (std::int64_t n = 0; n < s.n; ++n)
        for (std::int64_t c = 0; c < s.c; ++c)
          for (std::int64_t h = 0; h < s.h; ++h)
            for (std::int64_t w = 0; w < s.w; ++w) f(part, all[part].at(n, c, h, w), y.at(n, first + c, h, w));
      first += s.c;
    }
  };
  node.forward = [=](ReferenceNode& self, std::vector<Array>& all) {
    elements(self, all, [&](std::size_t part, std::size_t i, std::size_t e) {
      all[self.outputs[0]].values[e] = all[part].values[i];
    });
  };
  node.backward = [=](ReferenceNode& self, std::vector<Array>& all) {
    elements(self, all, [&](std::size_t part, std::size_t i, std::size_t e) {
      all[part].gradient[i] += all[self.outputs[0]].gradient[e];
    });
  };
}

inline void RandomNetwork::fork(std::size_t x) {
  graph.join<Fork>(next_name("fork"), {{x}});
  ReferenceNode& node = finish({x}, 0);
  node.forward = [](ReferenceNode& self, std::vector<Array>& all) {
    for (std::size_t i = 0; i < all[self.inputs[0]].values.size(); ++i) {
      all[self.outputs[0]].values[i] = 2 * all[self.inputs[0]].values[i];
      all[self.outputs[1]].values[i] = -0.5 * all[self.inputs[0]].values[i];
    }
  };
  node.backward = [](ReferenceNode& self, std::vector<Array>& all) {
    for (std::size_t i = 0; i < all[self.inputs[0]].values.size(); ++i) {
      all[self.inputs[0]].gradient[i] += 2 * all[self.outputs[0]].gradient[i] - 0.5 * all[self.outputs[1]].gradient[i];
    }
  };
}

inline void RandomNetwork::forward() {
  for (ReferenceNode& node : nodes) node.forward(node, arrays);
}

inline void RandomNetwork::backward() {
  for (std::size_t i = nodes.size(); i-- > 0;) nodes[i].backward(nodes[i], arrays);
}

}  // namespace petaflow::testing_support
