// Words of kernels.conv in tests.
#pragma once

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "kernels/conv.hpp"

namespace petaflow::testing_support {

/// Request that the word stands for; a failure where this build does not know it.
inline ConvRequest conv_request(const std::string& word) {
  const auto words = conv_requests();
  const auto found = std::ranges::find(words, word, &std::pair<std::string, ConvRequest>::first);
  PETAFLOW_REQUIRE(found != words.end(), "no convolution is called {}", word);
  return found->second;
}

}  // namespace petaflow::testing_support
