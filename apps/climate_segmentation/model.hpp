// The networks of the climate segmentation: variables on a grid to a class for every pixel.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "climate/fields.hpp"
#include "climate_segmentation/deepcam.hpp"
#include "climate_segmentation/deeplab.hpp"
#include "climate_segmentation/model_options.hpp"
#include "climate_segmentation/small_networks.hpp"
#include "climate_segmentation/tiramisu.hpp"

namespace petaflow::climate_segmentation {

/// Words of model.kind.
inline std::vector<std::string> model_kinds() { return {"unet", "pixel", "tiramisu", "deeplab", "deepcam"}; }

/// x (N, C, 1, H, W), scaled variables -> logits (N, 3, 1, H, W) of the classes climate::kTagNames.
inline Graph model(const ModelOptions& options, const Shape& sample) {
  const std::int64_t classes = std::ssize(climate::kTagNames);
  if (options.kind == "pixel") return pixel_network(options, sample, classes);
  const bool norms = options.batch_norm != "none";
  if (options.kind == "tiramisu") return climate::tiramisu({.batch_norm = norms, .classes = classes}, sample);
  if (options.kind == "deeplab") return climate::deeplab({.batch_norm = norms, .classes = classes}, sample);
  if (options.kind == "deepcam") return climate::deepcam({.classes = classes}, sample);
  return unet(options, sample, classes);
}

}  // namespace petaflow::climate_segmentation
