#include "train/weights.hpp"

#include <algorithm>
#include <filesystem>

#include <Kokkos_Core.hpp>

namespace petaflow {
namespace {

using Device = Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged>;

Device device_weights(const Network& network) {
  return Device(network.weights(), static_cast<std::size_t>(network.parameter_elements()));
}

}  // namespace

std::string checkpoint_path(const std::string& run) {
  return std::filesystem::is_directory(run) ? (std::filesystem::path(run) / "checkpoint.h5").string() : run;
}

std::vector<NamedArray> weights_of(const Network& network) {
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device_weights(network));
  std::vector<NamedArray> weights;
  for (const Parameter& parameter : network.parameters()) {
    const float* begin = host.data() + parameter.offset;
    weights.push_back({parameter.name, parameter.spec.dims, {begin, begin + parameter.spec.elements()}});
  }
  return weights;
}

void set_weights(Network& network, const Context& context, const Checkpoint& checkpoint, const std::string& path) {
  std::vector<NamedDims> model;
  for (const Parameter& parameter : network.parameters()) model.push_back({parameter.name, parameter.spec.dims});
  const std::vector<const NamedArray*> arrays = match_weights(checkpoint, model, path);
  std::vector<float> flat(static_cast<std::size_t>(network.parameter_elements()));
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::copy(arrays[i]->values.begin(), arrays[i]->values.end(),
              flat.begin() + static_cast<std::ptrdiff_t>(network.parameters()[i].offset));
  }
  const Kokkos::View<const float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host(flat.data(), flat.size());
  Kokkos::deep_copy(device_weights(network), host);
  network.refresh(context);
}

}  // namespace petaflow
