#include "cosmoflow/baselines.hpp"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/activity.hpp"
#include "comm/agree.hpp"
#include "cosmoflow/spectrum.hpp"
#include "io/log.hpp"
#include "metrics/ridge.hpp"
#include "nn/parallel.hpp"
#include "train/stop_request.hpp"

namespace petaflow::cosmoflow {
namespace {

/// Features of the first `samples` samples, on rank 0: 3 kB of a cube of 4 x 128^3 counts, so there is room for all.
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

/// The rows of all ranks one after the other, in order of rank, on rank 0.
template <class T>
std::vector<T> gathered(Communicator& comm, const std::vector<std::vector<T>>& rows) {
  std::vector<T> mine, all;
  for (const std::vector<T>& row : rows) mine.insert(mine.end(), row.begin(), row.end());
  for (const std::vector<std::byte>& part : comm.gather(std::as_bytes(std::span(mine)))) {
    const std::size_t before = all.size();
    all.resize(before + part.size() / sizeof(T));
    if (!part.empty()) std::memcpy(&all[before], part.data(), part.size());
  }
  return all;
}

Features features_of(Communicator& comm, const CosmoData& data, std::int64_t samples, const SpectrumMeter& meter) {
  const auto [first, last] = share_of_samples(samples, comm.rank(), comm.size());
  const std::int64_t channels = data.sample_dims()[0];
  const auto count = static_cast<std::size_t>(last - first),
             targets = static_cast<std::size_t>(data.targets().front().count);
  std::vector<std::vector<double>> spectra(count), histograms(count);
  std::vector<std::vector<float>> labels(count, std::vector<float>(targets));
  agree(comm, [&] {
    parallel_items("petaflow::cosmoflow::features", count, [&](int, std::size_t i) {
      if (stop_request() != StopRequest::kNone) user_error("the run is asked to stop");
      thread_local std::vector<std::int16_t> counts;
      counts.resize(static_cast<std::size_t>(data.sample_elements()));
      data.read(first + static_cast<std::int64_t>(i),
                {std::as_writable_bytes(std::span(counts)), {std::as_writable_bytes(std::span(labels[i]))}});
      spectra[i] = meter.features(counts);
      histograms[i] = histogram_features(counts, channels);
    });
  });
  Features features{gathered(comm, spectra), gathered(comm, histograms), gathered(comm, labels), data.universes(),
                    static_cast<std::size_t>(samples)};
  features.universe.resize(features.samples);
  return features;
}

/// On rank 0.
std::vector<Estimates> fit(const Features& known, const Features& asked) {
  std::vector<Estimates> estimates;
  const auto ridge = [&](const char* method, const std::vector<double>& given, const std::vector<double>& wanted) {
    try {
      estimates.push_back({method, fit_ridge(given, known.targets, known.universe).predict(wanted)});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kUser) throw;
      log_warning("{} is left out: {}", method, error.what());
    }
  };
  ridge("ridge on spectrum", known.spectrum, asked.spectrum);
  ridge("ridge on spectrum and histogram", known.together(), asked.together());

  std::vector<double> mean(known.targets.size() / known.samples, 0.0);
  for (std::size_t i = 0; i < known.targets.size(); ++i) {
    mean[i % mean.size()] += static_cast<double>(known.targets[i]) / static_cast<double>(known.samples);
  }
  estimates.push_back(constant_estimates("mean of the training set", mean, static_cast<std::int64_t>(asked.samples)));
  return estimates;
}

}  // namespace

std::vector<Estimates> classical_estimates(Communicator& comm, const CosmoData& train, const CosmoData& data,
                                           std::int64_t train_samples) {
  const Activity activity("classical estimates");
  const SpectrumMeter meter(static_cast<int>(data.sample_dims()[1]));
  const Features known = features_of(comm, train, std::min(train_samples, train.size()), meter);
  const Features asked = features_of(comm, data, data.size(), meter);
  std::vector<Estimates> estimates;
  agree(comm, [&] {
    if (comm.rank() == 0) estimates = fit(known, asked);
  });
  return estimates;
}

}  // namespace petaflow::cosmoflow
