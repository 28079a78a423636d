#include "climate/fields.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "config/schema.hpp"

namespace petaflow::climate {

int field_index(std::string_view name, std::string_view option) {
  const auto found = std::ranges::find(kFields, name, &Field::name);
  if (found != kFields.end()) return static_cast<int>(found - kFields.begin());
  std::vector<std::string> names;
  for (const Field& field : kFields) names.emplace_back(field.name);
  std::string upper(name);
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  const std::string nearest = nearest_name(upper, names);
  user_error("{}there is no variable \"{}\"{}; the variables are {}", option.empty() ? "" : fmt::format("{}: ", option),
             name, nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), fmt::join(names, ", "));
}

}  // namespace petaflow::climate
