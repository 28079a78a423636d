// cuDNN's frontend, for sources that nothing but it is compiled in: it changes how nlohmann::json writes float, so that
// its JSON, of whatever version, is kept apart from the one of other sources.
#pragma once

#define NLOHMANN_JSON_NAMESPACE nlohmann::of_cudnn
#define NLOHMANN_JSON_NAMESPACE_BEGIN \
  namespace nlohmann {                \
  inline namespace of_cudnn {
#define NLOHMANN_JSON_NAMESPACE_END \
  }                                 \
  }
#include <cudnn_frontend.h>
