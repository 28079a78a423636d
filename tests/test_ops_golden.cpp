// Operators against what PyTorch computed: tests/golden/operators.json, written by make_operator_golden.py.
#include <fstream>

#include <nlohmann/json.hpp>

#include "conv_runner.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/optimizer_step.hpp"
#include "kernels/softmax_xent.hpp"
#include "update/rule.hpp"

namespace petaflow {
namespace {

using testing_support::ConvArrays;
using testing_support::DeviceArray;
using testing_support::largest_error;
using testing_support::numbers;
using testing_support::PlacedBox;

using Json = nlohmann::json;

const Json& golden() {
  static const Json file = Json::parse(std::ifstream("tests/golden/operators.json"));
  return file;
}

std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// (d, h, w) of PyTorch's two or three numbers, from `first` on.
Extent extent(const Json& list, std::size_t first, std::int64_t missing) {
  const std::size_t spatial = list.size() - first;
  return {spatial == 3 ? list[first].get<std::int64_t>() : missing, list[first + spatial - 2],
          list[first + spatial - 1]};
}

TEST(Golden, Convolutions) {
  for (const Json& g : golden()["conv"]) {
    cases::ConvCase c;
    c.n = g["x"][0], c.in_channels = g["x"][1], c.out_channels = g["w"][0], c.in = extent(g["x"], 2, 1);
    c.geometry = cases::window(extent(g["w"], 2, 1), extent(g["pad"], 0, 0), extent(g["stride"], 0, 1),
                               extent(g["dilation"], 0, 1), g["groups"]);
    ASSERT_EQ(window_output(c.in, c.geometry), extent(g["y_shape"], 2, 1)) << g["name"];
    const testing_support::ConvReference sizes(c);
    const auto array = [](std::size_t size, std::uint32_t seed) {
      return doubles(numbers(static_cast<std::int64_t>(size), seed));
    };
    for (const Pass pass : {Pass::kForward, Pass::kBackwardData, Pass::kBackwardWeights}) {
      const std::vector<PlacedBox> boxes = {{testing_support::whole_desc(c, DType::kF32, 2)}};
      const auto impls = conv_impls(pass);
      for (const ConvImpl* each : impls) {
        const ConvImpl& impl = *each;
        if (!impl.why_not(pass, std::array{boxes.front().desc}).empty()) continue;
        ConvArrays arrays{array(sizes.x_size(), 1), array(sizes.w_size(), 2), array(sizes.y_size(), 3)};
        testing_support::run_conv<float>(impl, pass, c, boxes, arrays);
        const std::vector<double>& found = pass == Pass::kForward        ? arrays.y
                                           : pass == Pass::kBackwardData ? arrays.x
                                                                         : arrays.w;
        const char* key = pass == Pass::kForward ? "y" : pass == Pass::kBackwardData ? "dx" : "dw";
        EXPECT_LE(largest_error(found, g[key].get<std::vector<double>>(), 1), 1e-5)
            << g["name"] << " " << key << " " << impl.name;
      }
    }
  }
}

TEST(Golden, Pooling) {
  for (const Json& g : golden()["pool"]) {
    EpilogueDesc desc;
    const Extent in = extent(g["x"], 2, 1), out = extent(g["y_shape"], 2, 1);
    desc.v = {g["x"][0], g["x"][1], in.d, in.h, in.w};
    desc.y = {desc.v.n, desc.v.c, out.d, out.h, out.w};
    desc.pool = {g["kind"] == "max" ? PoolKind::kMax : PoolKind::kAverage, extent(g["window"], 0, 1),
                 extent(g["stride"], 0, 1), extent(g["pad"], 0, 0)};
    ASSERT_EQ(desc.pool.output(in), out) << g["name"];
    const auto channels_last = [](const std::vector<float>& values, const Shape& s) {
      return testing_support::to_channels_last<float>(doubles(values), s.n, s.c, s.pixels(), 0);
    };
    const DeviceArray<float> v(channels_last(numbers(desc.v.elements(), 1), desc.v));
    const DeviceArray<float> dy(channels_last(numbers(desc.y.elements(), 3), desc.y));
    const DeviceArray<float> y(static_cast<std::size_t>(desc.y.elements())),
        dv(static_cast<std::size_t>(desc.v.elements()));
    const DeviceArray<std::uint8_t> saved(static_cast<std::size_t>(desc.v.n * desc.saved_bytes_per_sample() + 1));
    const Epilogue epilogue(desc, nullptr, Tensor::dense(desc.y, DType::kF32, y.data()),
                            Tensor::dense(desc.y, DType::kF32, dy.data()), saved.data());
    const Context context = testing_support::context_for(1);
    if (kOnHost) {
      // The buffer holds the rows under the windows, which may end before the last row of v.
      const TileRange under = epilogue.v_under(whole_range(desc.y));
      std::vector<float> buffer;
      const std::vector<float> whole = v.get();
      const std::int64_t row_size = desc.v.w * desc.v.c;
      for (std::int64_t n = 0; n < desc.v.n; ++n) {
        for (std::int64_t d = under.d.begin; d < under.d.end; ++d) {
          for (std::int64_t h = under.h.begin; h < under.h.end; ++h) {
            const auto begin = whole.begin() + ((n * in.d + d) * in.h + h) * row_size;
            buffer.insert(buffer.end(), begin, begin + row_size);
          }
        }
      }
      epilogue.forward(context, whole_range(desc.y), under, buffer.data());
      epilogue.backward(context, whole_range(desc.v), dv.data());
    } else {  // boxes are for the host
      epilogue.forward_all(context, "test", v.data());
      epilogue.backward_all(context, "test", dv.data());
    }
    const auto planar = [](const DeviceArray<float>& array, const Shape& s) {
      return testing_support::to_planar(array.get(), s.n, s.c, s.pixels(), 0);
    };
    EXPECT_LE(largest_error(planar(y, desc.y), g["y"].get<std::vector<double>>(), 1), 1e-6) << g["name"];
    EXPECT_LE(largest_error(planar(dv, desc.v), g["dx"].get<std::vector<double>>(), 1), 1e-6) << g["name"];
  }
}

TEST(Golden, CrossEntropy) {
  const Json& g = golden()["cross_entropy"];
  const std::int64_t n = g["n"], classes = g["classes"];
  std::vector<float> logits = numbers(n * classes, 1), weights = numbers(n, 2);
  for (float& value : logits) value *= 4;
  for (float& value : weights) value = std::abs(value) + 0.25F;
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < n; ++i) labels.push_back(static_cast<std::int32_t>(i * 3 % classes));
  const DeviceArray<float> x(logits), dx(logits.size()), p(logits.size()), loss(weights.size()), weight(weights);
  const DeviceArray<std::int32_t> label(labels);
  StepState state;
  state.weight = weight.data(), state.loss_scale = 1 / static_cast<float>(n);
  const DeviceArray<StepState> step(std::vector<StepState>{state});
  Context context = testing_support::context_for(2);
  context.step = step.data();
  softmax_cross_entropy(context, {Tensor::dense({n, classes}, DType::kF32, x.data()), label.data(), 1, p.data(),
                                  loss.data(), Tensor::dense({n, classes}, DType::kF32, dx.data())});
  EXPECT_LE(largest_error(doubles(loss.get()), g["loss"].get<std::vector<double>>(), 1), 1e-6);
  EXPECT_LE(largest_error(doubles(p.get()), g["probabilities"].get<std::vector<double>>(), 1), 1e-6);
  EXPECT_LE(largest_error(doubles(dx.get()), g["dlogits"].get<std::vector<double>>(), 0.1), 1e-6);
}

TEST(Golden, Optimizers) {
  for (const Json& g : golden()["optimizer"]) {
    const std::string name = g["name"];
    const std::int64_t size = g["size"];
    OptimizerOptions options;
    options.name = name.substr(0, name.find('_'));  // "adam_decay": the rule adam
    options.momentum = 0;
    if (name == "adam_decay" || name == "adamw") {
      options.beta1 = 0.8, options.beta2 = 0.9, options.epsilon = 1e-3, options.weight_decay = 0.1;
    }
    if (name == "sgd_momentum") options.momentum = 0.9, options.weight_decay = 0.1;
    const auto rule = make_rule(options);
    const DeviceArray<float> w(numbers(size, 1)), m(static_cast<std::size_t>(size)), v(static_cast<std::size_t>(size));
    for (int step = 0; step < g["steps"].get<int>(); ++step) {
      StepState state;
      state.step = step, state.learning_rate = 0.02F;
      const DeviceArray<StepState> device_state(std::vector<StepState>{state});
      const DeviceArray<float> gradient(numbers(size, static_cast<std::uint32_t>(10 + step)));
      Context context = testing_support::context_for(2);
      context.step = device_state.data();
      std::vector<float*> states;
      if (!rule->states().empty()) states.push_back(m.data());
      if (rule->states().size() == 2) states.push_back(v.data());
      rule->step(context, {0, size}, gradient.data(), w.data(), states);
      Kokkos::fence();
    }
    EXPECT_LE(largest_error(doubles(w.get()), g["w"].get<std::vector<double>>(), 1), 1e-6) << name;
  }
}

}  // namespace
}  // namespace petaflow
