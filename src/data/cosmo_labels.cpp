#include "data/cosmo_labels.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include <fmt/ranges.h>

#include "base/error.hpp"

namespace petaflow {
namespace {

template <class T>
std::vector<T> read_few(const Hdf5File& file, const std::string& name) {
  constexpr std::int64_t kMost = 1000;
  const Hdf5Info info = file.dataset(name).info();
  if (info.rows() * info.row_elements() > kMost) {
    user_error("{}: data set {} is {}; the labels of one cube were expected", file.path(), name, info.text());
  }
  return file.read<T>(name);
}

/// Letters and digits alone, in lower case: "Omega_m" and "OmegaM" are one name.  n_s is also called N_spec.
std::string plain_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0) plain += static_cast<char>(std::tolower(letter));
  }
  return plain == "nspec" ? "ns" : plain;
}

/// Where a file with so many labels has that of each range, by the names of its parameters (namePar); as they are
/// listed where it names none.  kNowhere: it has none of that name.
constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();
std::vector<std::size_t> places_of_labels(const Hdf5File& file, std::size_t labels, const CosmoDataOptions& options) {
  std::vector<std::size_t> places(std::max(labels, options.ranges.size()));
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (options.ranges.empty() || !file.has("namePar")) return places;
  const std::vector<std::string> names = file.read_texts("namePar");
  if (names.size() != labels) {
    user_error("{}: {} names of parameters (namePar) for {} labels", file.path(), names.size(), labels);
  }
  places.assign(options.ranges.size(), kNowhere);
  for (std::size_t i = 0; i < names.size(); ++i) {
    for (std::size_t range = 0; range < options.ranges.size(); ++range) {
      if (plain_name(names[i]) == plain_name(options.ranges[range].name)) places[range] = i;
    }
  }
  for (const std::int64_t position : options.parameters) {
    const auto i = static_cast<std::size_t>(position);
    if (i < places.size() && places[i] == kNowhere) {
      user_error("{}: none of its parameters {} (namePar) is {}", file.path(), fmt::join(names, ", "),
                 options.ranges[i].name);
    }
  }
  return places;
}

/// Groups of `width` values in the order of the ranges, NaN where the file has none.
template <class T>
std::vector<T> arranged(const std::vector<T>& values, const std::vector<std::size_t>& places, std::size_t width = 1) {
  std::vector<T> result;
  for (const std::size_t place : places) {
    for (std::size_t i = 0; i < width; ++i) {
      const bool there = place != kNowhere && place * width + i < values.size();
      result.push_back(there ? values[place * width + i] : std::numeric_limits<T>::quiet_NaN());
    }
  }
  return result;
}

/// Refuses labels that do not mean what the ranges say, by what a file may say beside them: the parameters as they are
/// (physPar) and the ranges that they were scaled with (rangePar, as `cosmoflow generate` writes).
void check_scale(const Hdf5File& file, const std::vector<float>& labels, const std::vector<std::size_t>& places,
                 const CosmoDataOptions& options) {
  std::vector<double> physical, ends;
  if (file.has("physPar")) physical = arranged(read_few<double>(file, "physPar"), places);
  if (file.has("rangePar")) ends = arranged(read_few<double>(file, "rangePar"), places, 2);
  constexpr const char* kHelp =
      "evaluate and predict use the ranges of the run; train.init=CHECKPOINT train.epochs=0 makes one with others";
  for (const std::int64_t position : options.parameters) {
    const auto i = static_cast<std::size_t>(position);
    if (i >= options.ranges.size() || i >= labels.size()) continue;
    const auto& [name, key, low, high] = options.ranges[i];
    const double half = (high - low) / 2, middle = low + half, label = static_cast<double>(labels[i]);
    const double allowed = 0.01 * half + 1e-6 * high;  // parameters may be written with few digits, and as f32
    const auto equal = [&](double a, double b) { return std::abs(a - b) <= allowed; };
    if (2 * i + 1 < ends.size() && !(equal(ends[2 * i], low) && equal(ends[2 * i + 1], high))) {
      user_error(
          "{}: its labels of {} are scaled with [{:.6g}, {:.6g}] (rangePar), but {} is [{}, {}]; set {} = "
          "[{:.6g}, {:.6g}]; {}",
          file.path(), name, ends[2 * i], ends[2 * i + 1], key, low, high, key, ends[2 * i], ends[2 * i + 1], kHelp);
    }
    if (i < physical.size() && !equal(physical[i], middle + half * label)) {
      user_error(
          "{}: its label {:.6g} of {} stands for {:.6g} (physPar), but for {:.6g} where {} is [{}, {}]; set {} "
          "to the range that the labels were scaled with; {}",
          file.path(), label, name, physical[i], middle + half * label, key, low, high, key, kHelp);
    }
  }
}

}  // namespace

std::vector<float> read_cosmo_labels(const Hdf5File& file, const std::string& name, const CosmoDataOptions& options) {
  if (options.labels_optional && !file.has(name)) return {};
  auto labels = read_few<float>(file, name);
  const std::vector<std::size_t> places = places_of_labels(file, labels.size(), options);
  if (labels.size() < places.size() && !file.has("namePar")) return labels;  // refused when one that lacks is asked for
  labels = arranged(labels, places);
  if (!options.as_it_is) check_scale(file, labels, places, options);
  return labels;
}

std::string unusual_order(const Hdf5File& file, const CosmoDataOptions& options) {
  if (options.ranges.empty() || !file.has("namePar")) return "";
  const std::vector<std::string> names = file.read_texts("namePar");
  const auto same = [](const std::string& name, const LabelRange& range) {
    return plain_name(name) == plain_name(range.name);
  };
  if (names.size() <= options.ranges.size() && std::equal(names.begin(), names.end(), options.ranges.begin(), same)) {
    return "";
  }
  return fmt::format("the labels in {} are {} (namePar): each is taken by its name", file.path(),
                     fmt::join(names, ", "));
}

}  // namespace petaflow
