#include "cosmoflow/baselines.hpp"

#include <algorithm>
#include <span>

#include "cosmoflow/spectrum.hpp"
#include "nn/parallel.hpp"
#include "train/ridge.hpp"

namespace petaflow::cosmoflow {
namespace {

/// Of the first `samples` samples of a set.
struct Features {
  std::vector<double> spectrum, histogram;  // (N, features)
  std::vector<float> targets;               // (N, T)
  std::vector<std::int64_t> universe;       // (N)
  std::size_t samples = 0;

  /// (N, features) of both, side by side.
  std::vector<double> together() const {
    std::vector<double> all;
    const std::size_t a = spectrum.size() / samples, b = histogram.size() / samples;
    for (std::size_t i = 0; i < samples; ++i) {
      all.insert(all.end(), spectrum.begin() + static_cast<std::ptrdiff_t>(i * a),
                 spectrum.begin() + static_cast<std::ptrdiff_t>((i + 1) * a));
      all.insert(all.end(), histogram.begin() + static_cast<std::ptrdiff_t>(i * b),
                 histogram.begin() + static_cast<std::ptrdiff_t>((i + 1) * b));
    }
    return all;
  }
};

Features features_of(const CosmoData& data, std::int64_t samples, const SpectrumMeter& meter) {
  const std::int64_t channels = data.sample_dims()[0];
  const auto targets = static_cast<std::size_t>(data.targets());
  std::vector<std::vector<double>> spectra(static_cast<std::size_t>(samples)), histograms(spectra.size());
  Features features;
  features.samples = spectra.size();
  features.targets.resize(spectra.size() * targets);
  parallel_boxes("petaflow::cosmoflow::features", spectra.size(), [&](int, std::size_t i) {
    thread_local std::vector<std::int16_t> counts;
    counts.resize(static_cast<std::size_t>(data.sample_elements()));
    data.read(static_cast<std::int64_t>(i), std::as_writable_bytes(std::span(counts)),
              std::span(features.targets).subspan(i * targets, targets));
    spectra[i] = meter.features(counts);
    histograms[i] = histogram_features(counts, channels);
  });
  for (std::size_t i = 0; i < spectra.size(); ++i) {
    features.spectrum.insert(features.spectrum.end(), spectra[i].begin(), spectra[i].end());
    features.histogram.insert(features.histogram.end(), histograms[i].begin(), histograms[i].end());
  }
  features.universe = data.universes();
  features.universe.resize(features.samples);
  return features;
}

}  // namespace

std::vector<Estimates> classical_estimates(const CosmoData& train, const CosmoData& data, std::int64_t train_samples) {
  const SpectrumMeter meter(static_cast<int>(data.sample_dims()[1]));
  const Features known = features_of(train, std::min(train_samples, train.size()), meter);
  const Features asked = features_of(data, data.size(), meter);
  const auto targets = static_cast<std::size_t>(train.targets());
  std::vector<double> mean(targets, 0.0);
  for (std::size_t i = 0; i < known.targets.size(); ++i) {
    mean[i % targets] += static_cast<double>(known.targets[i]) / static_cast<double>(known.samples);
  }
  return {
      {"ridge on spectrum", fit_ridge(known.spectrum, known.targets, known.universe).predict(asked.spectrum)},
      {"ridge, and histogram", fit_ridge(known.together(), known.targets, known.universe).predict(asked.together())},
      constant_estimates("prior mean", mean, data.size())};
}

}  // namespace petaflow::cosmoflow
