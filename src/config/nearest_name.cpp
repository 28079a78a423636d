// Finding the name that a mistyped one means.
#include <algorithm>
#include <tuple>
#include <vector>

#include "config/schema.hpp"

namespace petaflow {
namespace {

// Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and exchanges of
// neighbours, one each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> distance(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      std::size_t& here = distance[i][j] = std::max(i, j);
      if (i == 0 || j == 0) continue;
      here =
          std::min({distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) here = std::min(here, distance[i - 2][j - 2] + 1);
    }
  }
  return distance[a.size()][b.size()];
}

std::string_view last_component(std::string_view name) { return name.substr(name.rfind('.') + 1); }
std::string_view table_of(std::string_view name) {
  return name.substr(0, name.find('.') == name.npos ? 0 : name.rfind('.'));
}

// Whether the name is the other with words added: "batch_size", "batch".
bool adds_words(std::string_view name, std::string_view other) {
  const std::string in = "_" + std::string(name) + "_", word = "_" + std::string(other) + "_";
  return in.find(word) != in.npos;
}

// Steps that a typing error may be away: one in a short word, none where it stands elsewhere, too.
bool is_near(std::size_t distance, std::size_t length, bool elsewhere) {
  return distance <= (elsewhere ? length / 4 : std::max<std::size_t>(1, length / 3));
}

}  // namespace

std::string nearest_name(const std::string& name, std::span<const std::string> known) {
  std::string nearest;
  std::tuple<std::size_t, std::size_t> best;  // of the last component; of the whole name, which decides among equals
  for (const std::string& candidate : known) {
    if (name.starts_with(candidate + ".")) return candidate;  // an option that was taken for a table
    const std::string_view mine = last_component(name), other = last_component(candidate);
    const bool elsewhere = table_of(name) != table_of(candidate);
    const std::size_t whole = edit_distance(name, candidate);
    std::size_t last = edit_distance(mine, other);
    if (!elsewhere && adds_words(mine, other)) last = std::min<std::size_t>(last, 1);
    if (!is_near(last, mine.size(), elsewhere) && !is_near(whole, name.size(), true)) continue;
    const std::tuple score{last, whole};  // train.lr means optimizer.lr rather than train.seed
    if (nearest.empty() || score < best) {
      best = score;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace petaflow
