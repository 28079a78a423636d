#include "scaling/inputs.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "config/document.hpp"

namespace petaflow::scaling {
namespace {

double number_of(const Scalar& scalar, const std::string& path, const Entry& entry) {
  if (const auto* real = std::get_if<double>(&scalar)) return *real;
  if (const auto* whole = std::get_if<std::int64_t>(&scalar)) return static_cast<double>(*whole);
  user_error("{}:{}: {} begins with no number; write [number, \"trust\", \"source\"]", path, entry.line, entry.key);
}

std::string text_of(const Scalar& scalar, const std::string& path, const Entry& entry) {
  if (const auto* text = std::get_if<std::string>(&scalar)) return *text;
  user_error("{}:{}: {} does not end with two texts; write [number, \"trust\", \"source\"]", path, entry.line,
             entry.key);
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Of a number of a file: from `least` to `most`.
struct Taker {
  std::function<void(double)> take;
  double least = 0, most = std::numeric_limits<double>::max();
};
using Takers = std::map<std::string, Taker>;

/// Gives every number to who takes it; a list of numbers, the stages of a workload, goes to `rest`.
/// @param rest  (key, numbers); false: it knows no such key
std::vector<Input> read(const std::string& path, const Takers& takers,
                        const std::function<bool(const std::string&, const std::vector<double>&)>& rest) {
  std::vector<Input> inputs;
  for (const Entry& entry : parse_document(read_text_file(path), path)) {
    const auto* list = std::get_if<std::vector<Scalar>>(&entry.value);
    if (list == nullptr || list->size() < 3) {
      user_error("{}:{}: {} is no list; write [number, \"trust\", \"source\"]", path, entry.line, entry.key);
    }
    std::vector<double> numbers;
    for (std::size_t i = 0; i + 2 < list->size(); ++i) numbers.push_back(number_of((*list)[i], path, entry));
    inputs.push_back({file_name(path), entry.key, numbers[0], text_of((*list)[list->size() - 2], path, entry),
                      text_of(list->back(), path, entry)});
    const auto taker = takers.find(entry.key);
    if (taker != takers.end() && numbers.size() == 1) {
      const auto& [take, least, most] = taker->second;
      if (!(numbers[0] >= least && numbers[0] <= most)) {
        user_error("{}:{}: {} is {}; set it to {}{}", path, entry.line, entry.key, numbers[0], least,
                   most < std::numeric_limits<double>::max() ? fmt::format(" to {}", most) : " or more");
      }
      take(numbers[0]);
    } else if (!rest(entry.key, numbers)) {
      user_error("{}:{}: {} is not known here with {} numbers", path, entry.line, entry.key, numbers.size());
    }
  }
  return inputs;
}

}  // namespace

void print_inputs(const std::vector<Input>& inputs) {
  std::printf("%-26s %-20s %12s  %-18s %s\n", "file", "input", "value", "trust", "source");
  for (const Input& input : inputs) {
    std::printf("%-26s %-20s %12g  %-18s %s\n", input.file.c_str(), input.name.c_str(), input.value,
                input.trust.c_str(), input.source.c_str());
  }
}

Machine read_machine(const std::string& path) {
  Machine machine;
  LogGpOptions& net = machine.network;
  const auto to = [](double& field, double unit) {
    return Taker{[&field, unit](double value) { field = unit * value; }};
  };
  const auto count = [](int& field, int least) {
    return Taker{[&field](double value) { field = static_cast<int>(value); }, static_cast<double>(least), 1e9};
  };
  // GB/s: seconds of a byte.
  const auto rate = [](double& field) {
    return Taker{[&field](double value) { field = value > 0 ? 1e-9 / value : 0; }};
  };
  const Takers takers = {
      {"ranks_per_node", count(net.ranks_per_node, 1)},
      {"overhead_us", to(net.overhead_s, 1e-6)},
      {"latency_us", to(net.latency_s, 1e-6)},
      {"gap_us", to(net.gap_s, 1e-6)},
      {"nic_gb_s", rate(net.byte_s)},
      {"burst_bytes", to(net.burst_bytes, 1)},
      {"shared_efficiency", Taker{[&](double value) { net.shared_efficiency = value; }, 1e-3, 1}},
      {"nics", count(net.nics, 1)},
      {"node_latency_us", to(net.node_latency_s, 1e-6)},
      {"node_gb_s", rate(net.node_byte_s)},
      {"nodes_per_group", count(net.nodes_per_group, 0)},
      {"group_latency_us", to(net.group_latency_s, 1e-6)},
      {"group_gb_s", rate(net.group_byte_s)},
      {"pair_gb_s", rate(net.pair_byte_s)},
      {"in_order", Taker{[&](double value) { net.in_order = value > 0; }, 0, 1}},
      {"eager_bytes", Taker{[&](double value) { net.eager_bytes = static_cast<std::size_t>(value); }, 0, 1e15}},
      {"handshake_us", to(net.handshake_s, 1e-6)},
      {"added_gb_s", rate(machine.byte_added_s)},
      {"noise.rank_sigma", to(machine.noise.rank_sigma, 1)},
      {"noise.step_sigma", to(machine.noise.step_sigma, 1)},
      {"noise.pause_ms", to(machine.noise.pause_s, 1e-3)},
      {"noise.pauses", to(machine.noise.pauses, 1)},
  };
  machine.inputs = read(path, takers, [](const std::string&, const std::vector<double>&) { return false; });
  if (net.byte_s == 0) user_error("{}: nic_gb_s is missing or 0; write nic_gb_s = [GB/s, \"trust\", \"source\"]", path);
  return machine;
}

TrustedWorkload read_workload(const std::string& path) {
  TrustedWorkload read_here;
  Workload& workload = read_here.workload;
  double step_ms = 0, stages_ms = 0, server_update_ms = 0;
  const Takers takers = {
      {"step_ms", {[&](double value) { step_ms = value; }}},
      {"published.bucket_mb", {[&](double value) { read_here.bucket_mb = value; }}},
      {"published.poll_ms", {[&](double value) { read_here.poll_s = 1e-3 * value; }}},
      {"samples", {[&](double value) { read_here.samples = value; }}},
      {"other_ms", {[&](double value) { workload.other_s = 1e-3 * value; }}},
      {"optimizer_ms", {[&](double value) { workload.optimizer_s = 1e-3 * value; }}},
      {"server_update_ms", {[&](double value) { server_update_ms = value; }}},
  };
  read_here.inputs = read(path, takers, [&](const std::string& key, const std::vector<double>& numbers) {
    if (!key.starts_with("stages.") || numbers.size() != 3) return false;
    if (std::ranges::any_of(numbers, [](double number) { return !(number >= 0); })) {
      user_error("{}: {} has a number below 0", path, key);
    }
    workload.stages.push_back(
        {key.substr(key.find('.') + 1), static_cast<std::int64_t>(numbers[0]), 1e-3 * numbers[1], 1e-3 * numbers[2]});
    stages_ms += numbers[1] + numbers[2];
    return true;
  });
  if (workload.elements() == 0) user_error("{}: no stage has parameters; write [stages] name = [elements, ...]", path);
  // Times of stages are shares of the step.
  if (step_ms > 0) {
    const double scale = (1e-3 * step_ms - workload.other_s - workload.optimizer_s) / (1e-3 * stages_ms);
    if (!(scale > 0 && stages_ms > 0)) {
      user_error(
          "{}: step_ms leaves no time for stages; set it to more than other_ms + optimizer_ms, and give stages times",
          path);
    }
    for (StageTimes& stage : workload.stages) stage.forward_s *= scale, stage.backward_s *= scale;
  }
  workload.server_element_s = 1e-3 * server_update_ms / static_cast<double>(workload.elements());
  return read_here;
}

}  // namespace petaflow::scaling
