// The lists of layers that perf/bench times: those of the networks, and what is refused in such a file.
#include <fstream>

#include <gtest/gtest.h>

#include "../perf/layer_list.hpp"
#include "cosmoflow/model.hpp"
#include "hep/model.hpp"
#include "nn/network.hpp"
#include "scratch_folder.hpp"

namespace petaflow::perf {
namespace {

/// The layers that compute, in order: the network's shapes and flop, and all of its weights.
void expect_list_of(const LayerList& list, const Graph& graph) {
  std::size_t convolution = 0, dense = 0;
  std::int64_t weights = 0;
  for (const Graph::Node& node : graph.nodes()) {
    for (const ParamSpec& spec : node.layer->parameters(node.input)) weights += spec.elements();
    const double flop = node.layer->cost(node.input).flop;
    if (node.name.starts_with("conv")) {
      ASSERT_LT(convolution, list.convolutions.size());
      const ConvLayer& layer = list.convolutions[convolution++];
      EXPECT_EQ(layer.name, node.name);
      EXPECT_EQ(layer.conv.in, node.input.extent());
      EXPECT_EQ(layer.conv.out, node.output.extent());
      EXPECT_DOUBLE_EQ(layer.conv.flop(), flop * static_cast<double>(layer.conv.n)) << node.name;
    } else if (node.name.starts_with("pool") || node.name == "global_pool") {
      EXPECT_EQ(list.convolutions[convolution - 1].epilogue.y.extent(), node.output.extent()) << node.name;
    } else if (flop > 0) {
      ASSERT_LT(dense, list.dense.size());
      const DenseLayer& layer = list.dense[dense++];
      EXPECT_EQ(layer.name, node.name);
      EXPECT_EQ(layer.inputs, node.input.sample_size());
      EXPECT_EQ(layer.outputs, node.output.c);
    }
  }
  EXPECT_EQ(convolution, list.convolutions.size());
  EXPECT_EQ(dense, list.dense.size());
  EXPECT_EQ(list.weights(), weights);
}

TEST(LayerLists, AreThoseOfTheNetworks) {
  expect_list_of(read_layer_list("perf/shapes/hep.txt"), hep::model({}, {1, 3, 1, 224, 224}));
  Graph sc18({1, 1, 128, 128, 128}), mlperf({1, 4, 128, 128, 128});
  cosmoflow::add_network(sc18, {}, 3);
  expect_list_of(read_layer_list("perf/shapes/cosmoflow.txt"), sc18);
  cosmoflow::ModelOptions options;
  options.kind = "mlperf";
  cosmoflow::add_network(mlperf, options, 4);
  expect_list_of(read_layer_list("perf/shapes/cosmoflow_mlperf.txt"), mlperf);
}

TEST(LayerLists, OfNetworksWithoutOneOfAllTheirLayersAreRead) {
  const LayerList deepcam = read_layer_list("perf/shapes/deepcam.txt");
  EXPECT_EQ(deepcam.convolutions.size(), 19U);
  EXPECT_EQ(deepcam.convolutions[2].conv.geometry.groups, 64);
  EXPECT_EQ(deepcam.convolutions[2].conv.weight_elements(), 9 * 64);
  EXPECT_EQ(read_layer_list("perf/shapes/detection.txt").convolutions.size(), 8U);
  EXPECT_EQ(read_layer_list("perf/shapes/deeplab.txt").convolutions.size(), 15U);
  EXPECT_EQ(read_layer_list("perf/shapes/tiramisu.txt").convolutions.size(), 3U);
}

TEST(LayerLists, RefuseWhatTheyDoNotUnderstand) {
  const test::ScratchFolder folder;
  const auto refusal = [&](const std::string& line) {
    const std::string file = folder / "list.txt";
    std::ofstream(file) << "# a comment\n\n" << line << "\n";
    try {
      read_layer_list(file);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      const std::string text = error.what();
      EXPECT_TRUE(text.starts_with(file + ":3: ")) << text;
      return text.substr(std::min(text.size(), file.size() + 4));
    }
    return std::string();
  };
  EXPECT_EQ(refusal("conv a 1 2 3 8x9 3x1 1 1x0 1 max2 0.1 0.5 # fine"), "");
  EXPECT_EQ(refusal("dense a 1 2 3"), "");
  EXPECT_EQ(refusal("pool a"), "a line begins with conv, depthwise, norm or dense, found \"pool\"");
  EXPECT_EQ(refusal("dense a 1 2"), "the number of outputs is missing");
  EXPECT_EQ(refusal("dense a 1 2 3 4"), "there is more than expected: \"4\"");
  EXPECT_EQ(refusal("dense a 1 2.5 3"), "the number of inputs must be a whole number, found \"2.5\"");
  EXPECT_EQ(refusal("dense a 1 two 3"), "the number of inputs must be a number from 1 to 1000000000, found \"two\"");
  EXPECT_EQ(refusal("conv a 1 2 3 8 3 1 1 1 - - -"), "the input must be DxHxW or HxW, found \"8\"");
  EXPECT_EQ(refusal("conv a 1 2 3 2x2 5 1 1 1 - - -"), "the kernel does not fit into the padded input");
  EXPECT_EQ(refusal("conv a 1 2 3 8x8 3 1 1 1 min2 - -"),
            "the pooling must be -, or max or average and its window (max2), found \"min2\"");
  EXPECT_EQ(refusal("conv a 1 2 3 8x8 3 1 1 1 max9 - -"), "the pooling's window does not fit into the output");
  EXPECT_THROW(read_layer_list(folder / "missing.txt"), Error);

  const std::string file = folder / "empty.txt";
  for (const char* text : {"", "# a comment alone\n\n"}) {
    std::ofstream(file) << text;
    try {
      read_layer_list(file);
      ADD_FAILURE() << "\"" << text << "\" is taken";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find(file + " holds no layers"), 0U) << error.what();
    }
  }
}

}  // namespace
}  // namespace petaflow::perf
