#include "train/weights.hpp"

#include <algorithm>
#include <filesystem>
#include <span>

#include <Kokkos_Core.hpp>
#include <nlohmann/json.hpp>

#include "comm/agree.hpp"
#include "io/safetensors.hpp"

namespace petaflow {

std::int64_t elements_of(const std::vector<Parameter>& parameters) {
  return parameters.empty() ? 0 : parameters.back().offset + parameters.back().spec.elements();
}

namespace {

// Names and shapes of arrays, whose values follow by themselves.
nlohmann::json headers_of(const std::vector<NamedArray>& arrays) {
  nlohmann::json headers = nlohmann::json::array();
  for (const NamedArray& array : arrays) headers.push_back({array.name, array.dims});
  return headers;
}

std::vector<NamedArray> empty_arrays(const nlohmann::json& headers) {
  std::vector<NamedArray> arrays;
  for (const nlohmann::json& header : headers) {
    NamedArray array{header[0], header[1], {}};
    std::int64_t count = 1;
    for (const std::int64_t dim : array.dims) count *= dim;
    array.values.resize(static_cast<std::size_t>(count));
    arrays.push_back(std::move(array));
  }
  return arrays;
}

}  // namespace

std::string checkpoint_path(const std::string& run) {
  return std::filesystem::is_directory(run) ? (std::filesystem::path(run) / "checkpoint.h5").string() : run;
}

void broadcast_checkpoint(Communicator& comm, Checkpoint& checkpoint) {
  const nlohmann::json mine = {{"model", checkpoint.model},
                               {"config", checkpoint.config},
                               {"provenance", checkpoint.provenance},
                               {"training", checkpoint.training},
                               {"checked", checkpoint.checked},
                               {"weights", headers_of(checkpoint.weights)},
                               {"arrays", headers_of(checkpoint.training_arrays)}};
  const auto bytes_kept = nlohmann::json::error_handler_t::replace;  // texts of other tools need not be UTF-8
  const nlohmann::json all = nlohmann::json::parse(broadcast_text(comm, mine.dump(-1, ' ', false, bytes_kept)));
  if (comm.rank() != 0) {
    checkpoint = {all["model"],      all["config"],
                  all["provenance"], empty_arrays(all["weights"]),
                  all["training"],   empty_arrays(all["arrays"]),
                  all["checked"]};
  }
  for (auto* arrays : {&checkpoint.weights, &checkpoint.training_arrays}) {
    for (NamedArray& array : *arrays) comm.broadcast(std::as_writable_bytes(std::span(array.values)), 0);
  }
}

Checkpoint load_checkpoint_everywhere(Communicator& comm, const std::string& path) {
  Checkpoint checkpoint;
  agree(comm, [&] {
    if (comm.rank() == 0) checkpoint = path.ends_with(".safetensors") ? load_safetensors(path) : load_checkpoint(path);
  });
  broadcast_checkpoint(comm, checkpoint);
  return checkpoint;
}

std::vector<NamedArray> arrays_of(const std::vector<Parameter>& parameters, const float* flat,
                                  const std::string& prefix) {
  using Device = Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>;
  const Device device(flat, static_cast<std::size_t>(elements_of(parameters)));
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
  return host_arrays_of(parameters, {host.data(), host.size()}, prefix);
}

std::vector<NamedArray> host_arrays_of(const std::vector<Parameter>& parameters, std::span<const float> flat,
                                       const std::string& prefix) {
  std::vector<NamedArray> arrays;
  for (const Parameter& parameter : parameters) {
    const float* begin = flat.data() + parameter.offset;
    arrays.push_back({prefix + parameter.name, parameter.spec.dims, {begin, begin + parameter.spec.elements()}});
  }
  return arrays;
}

void set_from_arrays(const std::vector<Parameter>& parameters, const std::vector<NamedArray>& arrays,
                     const std::string& prefix, const std::string& path, float* flat) {
  std::vector<NamedDims> expected;
  for (const Parameter& parameter : parameters) expected.push_back({prefix + parameter.name, parameter.spec.dims});
  const std::vector<const NamedArray*> matched = match_arrays(arrays, expected, path);
  std::vector<float> values(static_cast<std::size_t>(elements_of(parameters)));
  for (std::size_t i = 0; i < matched.size(); ++i) {
    std::ranges::copy(matched[i]->values, values.begin() + static_cast<std::ptrdiff_t>(parameters[i].offset));
  }
  const Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(values.data(), values.size());
  Kokkos::deep_copy(Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>(flat, values.size()), host);
}

std::size_t take_arrays(const std::vector<Parameter>& parameters, const std::vector<NamedArray>& arrays,
                        const std::string& prefix, const std::string& path, float* flat) {
  std::vector<NamedArray> these;
  std::ranges::copy_if(arrays, std::back_inserter(these),
                       [&](const NamedArray& array) { return array.name.starts_with(prefix); });
  if (!these.empty()) set_from_arrays(parameters, these, prefix, path, flat);
  return these.size();
}

std::vector<NamedArray> weights_of(const Network& network) {
  return arrays_of(network.parameters(), network.weights());
}

void set_weights(Network& network, const Context& context, const std::vector<NamedArray>& weights,
                 const std::string& path) {
  set_from_arrays(network.parameters(), weights, "", path, network.weights());
  network.refresh(context);
}

}  // namespace petaflow
