// Finding the name that a mistyped one means.
#include <algorithm>
#include <numeric>
#include <utility>

#include "config/schema.hpp"

namespace petaflow {
namespace {

// Levenshtein distance: insertions, deletions and substitutions, one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

std::string_view last_component(std::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

std::string nearest_name(const std::string& name, std::span<const std::string> known) {
  std::string nearest;
  std::pair<std::size_t, std::size_t> best;  // of the last component; of the whole name, which decides among equals
  for (const std::string& candidate : known) {
    if (name.starts_with(candidate + ".")) return candidate;  // a key that was taken for a table
    const std::size_t whole = edit_distance(name, candidate);
    const std::size_t last = edit_distance(last_component(name), last_component(candidate));
    const std::pair score{last, whole};  // train.lr means optimizer.lr rather than train.seed
    if (nearest.empty() || score < best) {
      best = score;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace petaflow
