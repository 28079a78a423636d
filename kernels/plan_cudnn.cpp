// Operation graphs of convolutions through cuDNN's frontend, and plans for them by its heuristics.
#include "kernels/plan_cudnn.hpp"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/frontend_cudnn.hpp"

namespace petaflow::cudnn {
namespace {

namespace fe = cudnn_frontend;
using Node = std::shared_ptr<fe::graph::Tensor_attributes>;

fe::DataType_t type_of(Element element) {
  if (element == Element::kF32) return fe::DataType_t::FLOAT;
  return element == Element::kBf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF;
}

Node input(fe::graph::Graph& graph, const Tensor& tensor, TensorId id) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_uid(id)
                          .set_dim(tensor.size)
                          .set_stride(tensor.stride)
                          .set_data_type(type_of(tensor.element)));
}

// The result as it is to be written.  Sums of bf16 products that stay f32 take an operation behind the convolution:
// engines of their own, which cuDNN compiles for it, have it (9.19 has none that writes them itself).
void write(fe::graph::Graph& graph, Node result, const Tensor& tensor, TensorId id, Element operands) {
  const auto shape = [&](const Node& node) {
    node->set_dim(tensor.size).set_stride(tensor.stride).set_data_type(type_of(tensor.element));
  };
  if (tensor.element != operands) {
    shape(result);
    result = graph.pointwise(result, fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::IDENTITY));
  }
  shape(result);
  result->set_output(true).set_uid(id);
}

template <class Attributes>
Attributes window(const Convolution& c) {
  return Attributes()
      .set_pre_padding(c.pad_begin)
      .set_post_padding(c.pad_end)
      .set_stride(c.stride)
      .set_dilation(c.dilation);
}

void describe(fe::graph::Graph& graph, const Convolution& c) {
  graph.set_intermediate_data_type(fe::DataType_t::FLOAT).set_compute_data_type(fe::DataType_t::FLOAT);
  if (c.computes == Computes::kY) {
    const Node x = input(graph, c.x, kX), w = input(graph, c.w, kW);
    write(graph, graph.conv_fprop(x, w, window<fe::graph::Conv_fprop_attributes>(c)), c.y, kY, c.x.element);
  } else if (c.computes == Computes::kX) {
    const Node dy = input(graph, c.y, kY), w = input(graph, c.w, kW);
    write(graph, graph.conv_dgrad(dy, w, window<fe::graph::Conv_dgrad_attributes>(c)), c.x, kX, c.y.element);
  } else {
    const Node dy = input(graph, c.y, kY), x = input(graph, c.x, kX);
    write(graph, graph.conv_wgrad(dy, x, window<fe::graph::Conv_wgrad_attributes>(c)), c.w, kW, c.x.element);
  }
}

// Engines that are not asked: those that do not sum the products of the definition, that sum them in fewer bits or in
// an order that changes, and for f32, unless TF32 will do, those that round its numbers to it for tensor cores.
std::vector<fe::NumericalNote_t> unwanted(const Convolution& c) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes = {Note::NONDETERMINISTIC,   Note::REDUCED_PRECISION_REDUCTION, Note::FFT,
                             Note::WINOGRAD,           Note::WINOGRAD_TILE_4x4,           Note::WINOGRAD_TILE_6x6,
                             Note::WINOGRAD_TILE_13x13};
  if (c.x.element == Element::kF32 && c.y.element == Element::kF32 && !c.tf32)
    notes.insert(notes.end(), {Note::TENSOR_CORE, Note::DOWN_CONVERT_INPUTS});
  return notes;
}

// Engines whose gradients of weights in f32 were wrong on an H200, by 0.06 to 31 %, when they had less workspace than
// they ask for there.  They come back when a device has shown them right with all of it; without them all cases are.
std::vector<std::string> wrong(const Convolution& c) {
  if (c.computes == Computes::kW && c.x.element == Element::kF32) return {"eng1_", "eng17_"};
  return {};
}

// Makes one after the other: whether an engine gives a plan is not known before.
fe::error_t build_plan_in_place(fe::graph::Graph& graph, std::int64_t place) {
  std::int64_t before = 0;
  fe::error_t last;
  for (std::int64_t i = 0; i < graph.get_execution_plan_count(); ++i) {
    last = graph.build_plan_at_index(i);
    if (last.is_good() && before++ == place) return last;
  }
  if (before == 0) return last;
  return {fe::error_code_t::GRAPH_EXECUTION_PLAN_CREATION_FAILED, fmt::format("there are {}", before)};
}

}  // namespace

Plan make_plan(const Convolution& convolution, const std::string& device, std::int64_t place) {
  Plan plan;
  fe::graph::Graph graph;
  // Does the steps in order until one refuses.
  bool good = true;
  const auto step = [&](const char* name, auto&& run) {
    if (!good) return;
    fe::error_t error = run();
    if (error.is_good()) return;
    good = false;
    plan.refusal = std::string(name) + ": " + error.get_message().substr(0, error.get_message().find('\n'));
  };
  const auto properties = std::make_shared<fe::DeviceProperties>();
  step("properties of the device",
       [&] { return properties->deserialize(std::vector<std::uint8_t>(device.begin(), device.end())); });
  if (!good) return plan;
  graph.set_device_properties(properties);
  describe(graph, convolution);
  step("validation", [&] { return graph.validate(); });
  step("operation graph", [&] { return graph.build_operation_graph(); });
  step("heuristics", [&] { return graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}); });
  if (good) graph.deselect_numeric_notes(unwanted(convolution)).deselect_engines(wrong(convolution));
  step("no engine", [&] { return graph.check_support(); });
  step("no plan", [&] { return build_plan_in_place(graph, place); });
  step("workspace", [&] { return graph.get_workspace_size(plan.workspace); });
  step("name", [&] { return graph.get_plan_name(plan.engine); });
  std::vector<std::uint8_t> bytes;
  step("bytes", [&] { return graph.serialize(bytes); });
  if (good) plan.json = nlohmann::json::from_ubjson(bytes).at("cudnn_backend_data").get<std::string>();
  return plan;
}

}  // namespace petaflow::cudnn
