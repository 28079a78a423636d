// Lists of layers as text, perf/shapes/*.txt: what they mean stands at the head of perf/shapes/hep.txt.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "kernels/conv.hpp"
#include "kernels/epilogue.hpp"

namespace petaflow::perf {

/// A convolution with what follows it.
struct ConvLayer {
  std::string name;
  ConvDesc conv;
  EpilogueDesc epilogue;
};

/// A batch norm with what follows it.
struct NormLayer {
  std::string name;
  EpilogueDesc epilogue;
  bool affine = true, residual = false;
};

/// y (n, outputs) = x (n, inputs) w^T.
struct DenseLayer {
  std::string name;
  std::int64_t n = 0, inputs = 0, outputs = 0;
};

struct LayerList {
  std::string name;
  std::vector<ConvLayer> convolutions;
  std::vector<NormLayer> norms;
  std::vector<DenseLayer> dense;

  /// Elements of all weights and biases.
  std::int64_t weights() const {
    std::int64_t sum = 0;
    for (const ConvLayer& layer : convolutions) sum += layer.conv.weight_elements() + layer.conv.out_channels;
    for (const NormLayer& layer : norms) sum += 2 * layer.epilogue.v.c;
    for (const DenseLayer& layer : dense) sum += (layer.inputs + 1) * layer.outputs;
    return sum;
  }
};

/// One line of a list, word by word; an error names the file and the line.
class Line {
 public:
  Line(const std::string& file, int number, const std::string& text) : where_(fmt::format("{}:{}", file, number)) {
    std::istringstream stream(text.substr(0, text.find('#')));
    for (std::string word; stream >> word;) words_.push_back(word);
  }

  bool done() const { return next_ == words_.size(); }

  const std::string& word(const char* what) {
    if (done()) user_error("{}: {} is missing", where_, what);
    return words_[next_++];
  }

  double number(const char* what, const std::string& text, double least, double most) const {
    double value = NAN;
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data(), end, value).ptr != end || !(value >= least && value <= most)) {
      user_error("{}: {} must be a number from {} to {}, found \"{}\"", where_, what, least, most, text);
    }
    return value;
  }
  double number(const char* what, double least, double most) { return number(what, word(what), least, most); }

  std::int64_t count(const char* what, const std::string& text, std::int64_t least) const {
    const double value = number(what, text, static_cast<double>(least), 1e9);
    if (value != std::floor(value)) user_error("{}: {} must be a whole number, found \"{}\"", where_, what, text);
    return static_cast<std::int64_t>(value);
  }
  std::int64_t count(const char* what) { return count(what, word(what), 1); }

  /// "8x9x10", "9x10" (two dimensions: d is `flat`), or one number for each of the `directions` (2 or 3).
  Extent extent(const char* what, const std::string& text, std::int64_t least, std::int64_t flat,
                int directions) const {
    std::vector<std::int64_t> sizes;
    std::istringstream stream(text);
    for (std::string part; std::getline(stream, part, 'x');) sizes.push_back(count(what, part, least));
    if (sizes.size() == 1 && directions > 0) sizes.resize(static_cast<std::size_t>(directions), sizes[0]);
    if (sizes.size() == 2) sizes.insert(sizes.begin(), flat);
    if (sizes.size() != 3) user_error("{}: {} must be DxHxW or HxW, found \"{}\"", where_, what, text);
    return {sizes[0], sizes[1], sizes[2]};
  }
  Extent extent(const char* what, std::int64_t least, std::int64_t flat, int directions) {
    return extent(what, word(what), least, flat, directions);
  }

  template <typename... Args>
  [[noreturn]] void error(fmt::format_string<Args...> text, Args&&... args) const {
    user_error("{}: {}", where_, fmt::format(text, std::forward<Args>(args)...));
  }

 private:
  std::string where_;
  std::vector<std::string> words_;
  std::size_t next_ = 0;
};

/// A convolution of dense channels-last tensors.
inline ConvDesc describe(std::int64_t n, std::int64_t in_channels, std::int64_t out_channels, const Extent& in,
                         const ConvGeometry& geometry) {
  ConvDesc desc;
  desc.n = n, desc.in_channels = in_channels, desc.out_channels = out_channels;
  desc.in = in, desc.out = window_output(in, geometry), desc.geometry = geometry;
  desc.x_strides = Strides::of(desc.in, in_channels);
  desc.y_strides = Strides::of(desc.out, out_channels);
  return desc;
}

/// An epilogue that pools; no window: it does not pool.
inline EpilogueDesc follow(const Shape& v, PoolKind kind, const Extent& window) {
  EpilogueDesc desc;
  if (kind != PoolKind::kNone) desc.pool = {kind, window, window, {0, 0, 0}};
  const Extent y = desc.pool.output(v.extent());
  desc.v = v;
  desc.y = {v.n, v.c, y.d, y.h, y.w};
  return desc;
}
/// Behind a convolution, with its bias.
inline EpilogueDesc follow(const ConvDesc& conv, PoolKind kind, const Extent& window) {
  EpilogueDesc desc = follow(Shape{conv.n, conv.out_channels, conv.out.d, conv.out.h, conv.out.w}, kind, window);
  desc.bias = true;
  return desc;
}

/// Pooling, activation and dropout behind v.
inline EpilogueDesc read_epilogue(Line& line, const Shape& v) {
  const std::string pool = line.word("the pooling");
  const std::string slope = line.word("the activation's slope"), dropout = line.word("the dropout");
  const std::size_t split = pool.find_first_of("0123456789");
  const std::string kind = pool.substr(0, split);
  if (pool != "-" && (split == std::string::npos || (kind != "max" && kind != "average"))) {
    line.error("the pooling must be -, or max or average and its window (max2), found \"{}\"", pool);
  }
  const Extent window =
      pool == "-" ? Extent{} : line.extent("the pooling's window", pool.substr(split), 1, 1, v.d > 1 ? 3 : 2);
  EpilogueDesc desc = follow(v,
                             pool == "-"     ? PoolKind::kNone
                             : kind == "max" ? PoolKind::kMax
                                             : PoolKind::kAverage,
                             window);
  if (desc.y.pixels() == 0) line.error("the pooling's window does not fit into the output");
  desc.activation = slope != "-";
  if (slope != "-") desc.negative_slope = static_cast<float>(line.number("the activation's slope", slope, 0, 1));
  if (dropout != "-") desc.dropout = static_cast<float>(line.number("the dropout", dropout, 0, 0.99));
  return desc;
}

inline NormLayer read_norm(Line& line, const std::string& name) {
  const std::int64_t n = line.count("the batch"), channels = line.count("the number of channels");
  const Extent in = line.extent("the input", 1, 1, 0);
  NormLayer layer{name, read_epilogue(line, {n, channels, in.d, in.h, in.w})};
  const std::string residual = line.word("the residual");
  if (residual != "-" && residual != "add") line.error("the residual must be - or add, found \"{}\"", residual);
  layer.residual = residual == "add";
  return layer;
}

/// @param depthwise  one filter for each channel, whose number stands once
inline ConvLayer read_convolution(Line& line, const std::string& name, bool depthwise) {
  const std::int64_t n = line.count("the batch"),
                     in_channels = line.count(depthwise ? "the number of channels" : "the number of input channels"),
                     out_channels = depthwise ? in_channels : line.count("the number of output channels");
  const Extent in = line.extent("the input", 1, 1, 0);
  const int directions = in.d > 1 ? 3 : 2;
  ConvGeometry g;
  g.kernel = line.extent("the kernel", 1, 1, directions);
  g.stride = line.extent("the stride", 1, 1, directions);
  g.pad_begin = g.pad_end = line.extent("the padding", 0, 0, directions);
  g.dilation = line.extent("the dilation", 1, 1, directions);
  if (depthwise) g.groups = in_channels;
  const ConvDesc conv = describe(n, in_channels, out_channels, in, g);
  if (conv.out.volume() == 0) line.error("the kernel does not fit into the padded input");

  ConvLayer layer{name, conv, read_epilogue(line, {n, out_channels, conv.out.d, conv.out.h, conv.out.w})};
  layer.epilogue.bias = true;
  return layer;
}

/// The layers of a file; the list has the file's name without folder and ending.
inline LayerList read_layer_list(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) user_error("{} cannot be read; the lists are perf/shapes/*.txt of the checkout", file);
  LayerList list;
  list.name = file.substr(file.rfind('/') + 1);
  list.name = list.name.substr(0, list.name.rfind('.'));
  int number = 0;
  for (std::string text; std::getline(stream, text);) {
    Line line(file, ++number, text);
    if (line.done()) continue;
    const std::string kind = line.word("the kind"), name = line.word("the name");
    if (kind == "conv" || kind == "depthwise") {
      list.convolutions.push_back(read_convolution(line, name, kind == "depthwise"));
    } else if (kind == "norm") {
      list.norms.push_back(read_norm(line, name));
    } else if (kind == "dense") {
      const std::int64_t n = line.count("the batch"), inputs = line.count("the number of inputs");
      list.dense.push_back({name, n, inputs, line.count("the number of outputs")});
    } else {
      line.error("a line begins with conv, depthwise, norm or dense, found \"{}\"", kind);
    }
    if (!line.done()) line.error("there is more than expected: \"{}\"", line.word(""));
  }
  if (list.convolutions.empty() && list.norms.empty() && list.dense.empty())
    user_error("{} holds no layers; each line of such a list is one, as in perf/shapes/hep.txt", file);
  return list;
}

}  // namespace petaflow::perf
