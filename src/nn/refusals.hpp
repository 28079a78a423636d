// Says which faster implementations a stage passed over, for its passes together.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <fmt/ranges.h>

#include "kernels/conv.hpp"

namespace petaflow {

/// "conv1: not winograd: ...; using onednn (forward, backward_data)", a line for all passes that it holds for.
/// @param choices  ConvChoice or GemmChoice of each pass
template <class Choice>
std::vector<std::string> refusal_lines(const std::string& stage,
                                       std::initializer_list<std::pair<Pass, const Choice*>> choices) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;  // with the passes
  for (const auto& [pass, choice] : choices) {
    for (const std::string& refusal : choice->refusals) {
      const std::string line = fmt::format("{}: {}; using {}", stage, refusal, choice->impl->name);
      auto same = std::ranges::find_if(found, [&](const auto& other) { return other.first == line; });
      if (same == found.end()) same = found.insert(found.end(), {line, {}});
      same->second.emplace_back(name_of(pass));
    }
  }
  std::vector<std::string> lines;
  for (const auto& [line, passes] : found) lines.push_back(fmt::format("{} ({})", line, fmt::join(passes, ", ")));
  return lines;
}

}  // namespace petaflow
