#include "climate/cf_file.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace petaflow::climate {
namespace {

constexpr const char* kLabels = "LABELS";

/// The names of the 16 variables in a file: as the options have it ("TMQ=IWV"), otherwise their own.
std::vector<std::string> names_in_file(const std::vector<std::string>& renamed) {
  std::vector<std::string> names;
  for (const Field& field : kFields) names.emplace_back(field.name);
  for (const std::string& text : renamed) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos || equals + 1 == text.size()) {
      user_error("data.variable_names has \"{}\"; a name here and one in the files was expected, such as TMQ=IWV",
                 text);
    }
    names[static_cast<std::size_t>(field_index(text.substr(0, equals)))] = text.substr(equals + 1);
  }
  return names;
}

}  // namespace

CfFile::CfFile(const std::string& path, const FrameFileOptions& options) : FrameFile(path) {
  const std::vector<std::string> names = names_in_file(options.variable_names);
  std::vector<std::string> there;
  {
    const NetcdfFile file(path);
    for (std::size_t f = 0; f < names.size(); ++f) {
      if (!file.has(names[f])) continue;
      place_[f] = std::ssize(there);
      there.push_back(names[f]);
    }
    if (there.empty()) {
      user_error("{} has none of the variables {}; it has {} (data.variable_names = [\"TMQ=NAME\"] names them)", path,
                 fmt::join(names, ", "), file.contents());
    }
    has_labels_ = file.has(kLabels);
  }
  if (has_labels_) there.emplace_back(kLabels);
  variables_ = std::make_unique<CfVariables>(path, there);
  grid_ = variables_->grid();
}

std::string CfFile::contents() const {
  return variables_->file().contents() + "; data.variable_names = [\"TMQ=NAME\"] says how files name a variable";
}

std::vector<std::uint8_t> CfFile::read_own_labels(std::int64_t frame) const {
  if (!has_labels_) return FrameFile::read_own_labels(frame);
  const auto labels = std::ranges::count_if(place_, [](std::int64_t place) { return place >= 0; });  // come last
  std::vector<float> values(static_cast<std::size_t>(pixels()));
  variables_->read(static_cast<std::size_t>(labels), frame, values);
  return to_tags(values, grid_.width(), fmt::format("{}: {}", path(), kLabels));
}

void CfFile::read_places(std::int64_t frame, std::span<const std::int64_t> places, RawFields& raw) const {
  const auto size = static_cast<std::size_t>(pixels());
  raw.step = 1;
  raw.first.clear();
  raw.values.resize(places.size() * size);
  for (std::size_t k = 0; k < places.size(); ++k) {
    raw.first.push_back(static_cast<std::int64_t>(k * size));
    variables_->read(static_cast<std::size_t>(places[k]), frame, std::span(raw.values).subspan(k * size, size));
  }
}

}  // namespace petaflow::climate
