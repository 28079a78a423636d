#include "report/comparison.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace petaflow {

std::string tone(std::size_t n) { return fmt::format("s{}", n % 8 + 1); }

ComparisonRows::ComparisonRows(std::vector<std::string> heads) {
  heads.insert(heads.begin(), "");
  rows_.push_back(std::move(heads));
}

void ComparisonRows::add(const std::string& what, std::vector<std::string> cells) {
  if (std::ranges::all_of(cells, &std::string::empty)) return;
  for (std::string& cell : cells) {
    if (cell.empty()) cell = "–";
  }
  cells.insert(cells.begin(), what);
  rows_.push_back(std::move(cells));
}

}  // namespace petaflow
