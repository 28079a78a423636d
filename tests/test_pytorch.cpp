// The Python text of networks: one case for each kind of layer, and how they are put together.  check_pytorch.py runs
// it.
#include "nn/pytorch.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layer_cases.hpp"
#include "nn/layers/counts.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

std::string twin_of(const Graph& graph) { return pytorch_twin(graph, "Some head.", "w.safetensors"); }

/// The lines of __init__ and forward of a network of one layer.
template <class L, class... Args>
std::vector<std::string> lines_of(const Shape& x, const std::string& name, Args&&... args) {
  Graph graph(x);
  const std::string text = twin_of(graph.add<L>(name, std::forward<Args>(args)...));
  std::vector<std::string> lines;
  for (std::size_t begin = text.find("super().__init__()\n"), end = 0; end != std::string::npos; begin = end + 1) {
    end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (line.find("return x") != std::string::npos) break;
    if (line.starts_with("        ")) lines.push_back(line.substr(8));
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Pytorch, EveryKindOfLayerHasItsText) {
  const Shape plane{1, 8, 1, 6, 5}, volume{1, 8, 4, 6, 8}, pixel{1, 8};
  EXPECT_EQ(lines_of<Relu>(plane, "r"), (Lines{"x1 = F.relu(x0)  # r: (N, 8, 6, 5)"}));
  EXPECT_EQ(lines_of<Relu>(pixel, "r", 0.3F), (Lines{"x1 = F.leaky_relu(x0, 0.3)  # r: (N, 8)"}));
  EXPECT_EQ(lines_of<ScaledTanh>(pixel, "t", 1.2F), (Lines{"x1 = 1.2 * torch.tanh(x0)  # t: (N, 8)"}));
  EXPECT_EQ(lines_of<Dropout>(pixel, "d", 0.5F), (Lines{"x1 = F.dropout(x0, 0.5, self.training)  # d: (N, 8)"}));
  EXPECT_EQ(lines_of<Dense>(pixel, "fc", 2), (Lines{"self.fc = nn.Linear(8, 2)", "x1 = self.fc(x0)  # (N, 2)"}));
  EXPECT_EQ(lines_of<Dense>(plane, "fc", 2),
            (Lines{"self.fc = nn.Linear(240, 2)", "x1 = self.fc(x0.permute(0, 2, 3, 1).flatten(1))  # (N, 2)"}));
  EXPECT_EQ(lines_of<Dense>(volume, "fc", 2).back(), "x1 = self.fc(x0.permute(0, 2, 3, 4, 1).flatten(1))  # (N, 2)");
  EXPECT_EQ(lines_of<BatchNorm>(plane, "b"),
            (Lines{"self.b = nn.BatchNorm2d(8, eps=1e-05, momentum=0.1)", "x1 = self.b(x0)  # (N, 8, 6, 5)"}));
  EXPECT_EQ(lines_of<BatchNorm>(pixel, "b", BatchNormOptions{.affine = false}).front(),
            "self.b = nn.BatchNorm1d(8, eps=1e-05, momentum=0.1, affine=False)");
  EXPECT_EQ(lines_of<BatchNorm>(volume, "b").front(), "self.b = nn.BatchNorm3d(8, eps=1e-05, momentum=0.1)");
  EXPECT_EQ(lines_of<Conv>(plane, "c", cases::conv(4, {1, 3, 3}, {0, 1, 1}, {1, 2, 2}, 2)),
            (Lines{"self.c = nn.Conv2d(8, 4, (3, 3), stride=(2, 2), padding=(1, 1), groups=2)",
                   "x1 = self.c(x0)  # (N, 4, 3, 3)"}));
  ConvOptions to_plane = ConvOptions::valid_3d(4, 4);
  to_plane.bias = false;
  to_plane.dilation = {1, 1, 2};
  EXPECT_EQ(lines_of<Conv>(volume, "c", to_plane),
            (Lines{"self.c = nn.Conv3d(8, 4, (4, 4, 4), dilation=(1, 1, 2), bias=False)",
                   "x1 = self.c(x0).squeeze(2)  # (N, 4, 3, 2)"}));
  EXPECT_EQ(lines_of<Conv>(pixel, "c", ConvOptions::same_2d(4, 1)),
            (Lines{"self.c = nn.Conv2d(8, 4, (1, 1))", "x1 = self.c(x0[:, :, None, None]).flatten(1)  # (N, 4)"}));
  EXPECT_EQ(lines_of<Deconv>(plane, "u", cases::deconv(cases::conv(4, {1, 3, 3}, {0, 1, 1}, {1, 2, 2}), {0, 1, 0})),
            (Lines{"self.u = nn.ConvTranspose2d(8, 4, (3, 3), output_padding=(1, 0), stride=(2, 2), padding=(1, 1))",
                   "x1 = self.u(x0)  # (N, 4, 12, 9)"}));
  EXPECT_EQ(lines_of<Pool>(plane, "p", Pool::square(PoolKind::kMax, 2)),
            (Lines{"x1 = F.max_pool2d(x0, (2, 2), (2, 2), (0, 0))  # p: (N, 8, 3, 2)"}));
  EXPECT_EQ(lines_of<Pool>(volume, "p", Pool::cube(PoolKind::kAverage, 4)),
            (Lines{"x1 = F.avg_pool3d(x0, (4, 4, 4), (4, 4, 4), (0, 0, 0)).squeeze(2)  # p: (N, 8, 1, 2)"}));
  EXPECT_EQ(lines_of<GlobalPool>(plane, "g", PoolKind::kAverage), (Lines{"x1 = x0.mean((2, 3))  # g: (N, 8)"}));
  EXPECT_EQ(lines_of<GlobalPool>(volume, "g", PoolKind::kMax), (Lines{"x1 = x0.amax((2, 3, 4))  # g: (N, 8)"}));
  EXPECT_EQ(lines_of<Broadcast>(pixel, "b", Extent{1, 4, 3}),
            (Lines{"x1 = x0[:, :, None, None].expand(-1, -1, 4, 3)  # b: (N, 8, 4, 3)"}));
  EXPECT_EQ(lines_of<PeriodicPad>(plane, "w", 2),
            (Lines{"x1 = F.pad(x0, (2, 2, 0, 0), mode=\"circular\")  # w: (N, 8, 6, 9)"}));
  EXPECT_EQ(lines_of<SpaceToDepth>(volume, "s", 2),
            (Lines{"x1 = x0.reshape(-1, 8, 2, 2, 3, 2, 4, 2).permute(0, 3, 5, 7, 1, 2, 4, 6)"
                   ".reshape(-1, 64, 2, 3, 4)  # s: (N, 64, 2, 3, 4)"}));
  Graph logs(volume, DType::kI16), shares(volume, DType::kI16);
  EXPECT_HOLDS(twin_of(logs.add<Counts>("n", CountScale::kLog1p)), " x1 = torch.log1p(x0.float())  # n: ");
  EXPECT_HOLDS(twin_of(shares.add<Counts>("n", CountScale::kMean)), " x1 = (x0 / x0.float().mean(");
  Graph joined(plane);
  const GraphValue x = joined.value();
  joined.add<Relu>("r").join<Add>("sum", {joined.value(), x}).join<Concat>("all", {joined.value(), x, x});
  EXPECT_HOLDS(twin_of(joined), " x2 = x1 + x0  # sum: (N, 8, 6, 5)\n        x3 = torch.cat([x2, x0, x0], 1)  # all: ");
}

TEST(Pytorch, ModulesAreNamedAsTheWeightsAre) {
  Graph graph({1, 2, 1, 4, 4});
  graph.add<Conv>("block/1/conv", ConvOptions::same_2d(2, 1)).add<Conv>("in", ConvOptions::same_2d(2, 1));
  const GraphValue first = graph.value();
  graph.mark_output().at(first).add<Conv>("block/2", ConvOptions::same_2d(3, 1)).mark_output();
  const std::string text = twin_of(graph);
  EXPECT_HOLDS(text, "\"\"\"Some head.\n");
  EXPECT_HOLDS(text, "\"\"\"Takes (N, 2, 4, 4), gives (N, 2, 4, 4), (N, 3, 4, 4).\"\"\"");
  EXPECT_HOLDS(text, R"(        self.add_module("in", nn.Conv2d(2, 2, (1, 1)))
        self.block = nn.Module()
        self.block.add_module("2", nn.Conv2d(2, 3, (1, 1)))
        self.block.add_module("1", nn.Module())
        getattr(self.block, "1").conv = nn.Conv2d(2, 2, (1, 1))
)");
  EXPECT_HOLDS(text, R"(        x1 = getattr(self.block, "1").conv(x0)  # (N, 2, 4, 4)
        x2 = getattr(self, "in")(x1)  # (N, 2, 4, 4)
        x3 = getattr(self.block, "2")(x2)  # (N, 3, 4, 4)
        return x2, x3
)");
  EXPECT_HOLDS(text, ".with_name(\"w.safetensors\")");
}

TEST(Pytorch, NamesOfModulesOwnFunctionsAreNotHidden) {
  Graph graph({1, 2, 1, 4, 4});
  graph.add<Conv>("half", ConvOptions::same_2d(2, 1)).add<Conv>("up/train", ConvOptions::same_2d(2, 1));
  EXPECT_HOLDS(twin_of(graph), R"(        self._modules["half"] = nn.Conv2d(2, 2, (1, 1))
        self.up = nn.Module()
        self.up._modules["train"] = nn.Conv2d(2, 2, (1, 1))
)");
  EXPECT_HOLDS(twin_of(graph), R"(        x1 = self._modules["half"](x0)  # (N, 2, 4, 4)
        x2 = self.up._modules["train"](x1)  # (N, 2, 4, 4)
)");
}

/// A layer of somebody who does not need PyTorch.
class Plain final : public Layer {
 public:
  Shape output(const Shape& x) const override { return x; }
  void lower(Lowering& /*ops*/) const override {}
};

TEST(Pytorch, ALayerWithoutTextIsNamed) {
  Graph graph({1, 2, 1, 4, 4});
  graph.add<Plain>("mine");
  EXPECT_HOLDS(test::error_of([&] { twin_of(graph); }),
               "layer mine: has no PyTorch twin: it does not override Layer::pytorch()");
}

}  // namespace
}  // namespace petaflow
