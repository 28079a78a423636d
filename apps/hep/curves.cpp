#include "hep/curves.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/calibration.hpp"
#include "report/json_values.hpp"
#include "report/png.hpp"

namespace petaflow::hep {
namespace {

using nlohmann::json;

/// Neighbours that a plot could not tell apart are left out.
json roc_json(const ScoredSet& set) {
  std::vector<double> background, signal;
  const std::vector<RocPoint> points = roc_curve(set);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double b = points[i].background_rate, s = points[i].signal_efficiency;
    const bool last = i + 1 == points.size();
    const bool near = !signal.empty() && std::abs(s - signal.back()) < 0.003 &&
                      std::abs(std::log(std::max(b, 1e-9) / std::max(background.back(), 1e-9))) < 0.02;
    if (near && !last) continue;
    background.push_back(rounded(b));
    signal.push_back(rounded(s));
  }
  return {{"background", background}, {"signal", signal}};
}

json histogram_json(const ScoredSet& set) {
  constexpr std::size_t kBins = 60;
  std::vector<float> sorted = set.score;
  std::ranges::sort(sorted);
  const auto quantile = [&](double q) {
    return static_cast<double>(sorted[static_cast<std::size_t>(q * static_cast<double>(sorted.size() - 1))]);
  };
  const double low = quantile(0.005), high = std::max(low + 1e-3, quantile(0.995));
  std::vector<double> counts[2] = {std::vector<double>(kBins), std::vector<double>(kBins)};
  double all[2] = {0, 0};
  for (std::size_t i = 0; i < set.score.size(); ++i) {
    const double at = (static_cast<double>(set.score[i]) - low) / (high - low) * kBins;
    const auto bin = static_cast<std::size_t>(std::clamp(at, 0.0, kBins - 1.0));
    const double weight = set.weight.empty() ? 1 : set.weight[i];
    const auto label = static_cast<std::size_t>(set.label[i]);
    counts[label][bin] += weight;
    all[label] += weight;
  }
  json histogram = {{"low", low}, {"high", high}};
  for (std::size_t label = 0; label < 2; ++label) {
    for (double& count : counts[label]) count = rounded(count / all[label]);
    histogram[kClasses[label]] = counts[label];
  }
  return histogram;
}

json calibration_json(const ScoredSet& set) {
  json points = {{"probability", json::array()}, {"signal_share", json::array()}};
  for (const CalibrationBin& bin : calibration(set).bins) {
    points["probability"].push_back(rounded(bin.probability));
    points["signal_share"].push_back(rounded(bin.signal_share));
  }
  return points;
}

/// The score above which the network takes as much background as the files' cut selection; none where its curve has no
/// such point.
std::optional<double> threshold_of_cuts(const ScoredSet& set, const HepData& data) {
  double all = 0, passed = 0;
  for (std::size_t i = 0; i < set.label.size(); ++i) {
    if (set.label[i] != 0) continue;
    const double weight = set.weight.empty() ? 1 : set.weight[i];
    all += weight;
    passed += data.events()[i].pass_sr ? weight : 0;
  }
  std::optional<double> threshold;
  for (const RocPoint& point : roc_curve(set)) {
    if (point.background_rate <= passed / all && std::isfinite(point.threshold)) threshold = point.threshold;
  }
  return threshold;
}

// ---- Pictures of events ----

/// Undoes the scaling of the first channel, to show what the file has.
struct ImageScale {
  std::string transform = "none";
  double unit = 1;     // of the transform
  double maximum = 1;  // that the images were divided by
};

/// The first channel with phi to the right and eta upwards, as the file has it.
struct Picture {
  std::vector<float> values;
  std::int64_t height = 0, width = 0;
};

Picture picture(const HepData& data, std::int64_t index, const ImageScale& scale) {
  const auto [channels, depth, height, width] = data.sample_dims();
  const SampleStorage sample(data);
  data.read(index, sample.bytes());
  const auto pixels = sample.input<float>();
  const bool transpose = data.phi_axis() == ImageAxis::kH;
  Picture result{std::vector<float>(static_cast<std::size_t>(height * width)), transpose ? width : height,
                 transpose ? height : width};
  for (std::int64_t row = 0; row < height; ++row) {
    for (std::int64_t column = 0; column < width; ++column) {
      double value =
          scale.maximum * static_cast<double>(pixels[static_cast<std::size_t>((row * width + column) * channels)]);
      if (scale.transform == "linear") value *= scale.unit;
      if (scale.transform == "signed_log") value = std::copysign(std::expm1(std::abs(value)) * scale.unit, value);
      const std::int64_t eta = transpose ? column : row, phi = transpose ? row : column;
      result.values[static_cast<std::size_t>((result.height - 1 - eta) * result.width + phi)] =
          static_cast<float>(value);
    }
  }
  return result;
}

/// One typical event of each class, one near the other class, and the worst mistake.
std::vector<std::pair<std::size_t, std::string>> chosen_events(const ScoredSet& set) {
  std::vector<std::pair<std::size_t, std::string>> chosen;
  for (const int label : {1, 0}) {
    std::vector<std::size_t> events;
    for (std::size_t i = 0; i < set.label.size(); ++i) {
      if (set.label[i] == label) events.push_back(i);
    }
    if (events.empty()) continue;
    // From the most signal-like to the least.
    std::ranges::stable_sort(events, [&](std::size_t a, std::size_t b) { return set.score[a] > set.score[b]; });
    if (label == 0) std::ranges::reverse(events);
    const std::string name = kClasses[label];
    chosen.emplace_back(events[events.size() / 2], "typical " + name);
    chosen.emplace_back(events[events.size() * 9 / 10], "uncertain " + name);
    chosen.emplace_back(events.back(), label == 1 ? "worst signal" : "worst background");
  }
  return chosen;
}

json events_json(const HepData& data, const ScoredSet& set, const ImageScale& scale) {
  const auto chosen = chosen_events(set);
  std::vector<Picture> pictures;
  float highest = 0;
  for (const auto& [index, what] : chosen) {
    pictures.push_back(picture(data, static_cast<std::int64_t>(index), scale));
    highest = std::max(highest, *std::ranges::max_element(pictures.back().values));
  }
  if (!(highest > 0)) return nullptr;
  constexpr double kDecades = 3;
  const double lowest = highest * std::pow(10.0, -kDecades);
  json events = {{"low", lowest}, {"high", highest}, {"format", data.format()}, {"whole", data.phi_is_whole()}};
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    Picture& shown = pictures[i];
    for (float& value : shown.values) {
      value = value > 0 ? static_cast<float>(std::log10(static_cast<double>(value) / lowest) / kDecades) : 0.0F;
    }
    const double odds = static_cast<double>(set.score[chosen[i].first]);
    const HepEvent& event = data.events()[chosen[i].first];
    events["list"].push_back({{"what", chosen[i].second},
                              {"log_odds", rounded(odds)},
                              {"file", event.file},
                              {"index", event.index},
                              {"passes_cuts", data.has_selection() ? json(event.pass_sr) : json()},
                              {"height", shown.height},
                              {"width", shown.width},
                              {"png", png_uri(heat_png(shown.values, shown.height, shown.width))}});
  }
  return events;
}

}  // namespace

json curves_of(const HepEvaluator& evaluator) {
  const HepData& data = evaluator.data();
  const ScoredSet& set = evaluator.scores();
  const HepDataOptions& options = evaluator.options().data.options;
  const auto [background, signal] = data.class_counts();
  json curves = json::object();
  if (set.score.empty()) return curves;
  if (background > 0 && signal > 0) {
    curves["roc"] = roc_json(set);
    curves["scores"] = histogram_json(set);
    curves["calibration"] = calibration_json(set);
    if (data.has_selection()) {
      if (const auto threshold = threshold_of_cuts(set, data)) curves["threshold"] = *threshold;
    }
  }
  const ImageScale scale{options.transforms.front(), options.units.front(), static_cast<double>(data.maxima().front())};
  curves["events"] = events_json(data, set, scale);
  return curves;
}

}  // namespace petaflow::hep
