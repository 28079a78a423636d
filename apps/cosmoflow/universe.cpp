#include "cosmoflow/universe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <Kokkos_Core.hpp>

#include "base/error.hpp"
#include "base/random.hpp"

namespace petaflow::cosmoflow {
namespace {

using HostRange = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>;

/// Purpose of a universe's random numbers.
enum Draw : std::uint64_t { kDrawParameters = 1, kDrawNoise };

RandomStream stream_of(std::uint64_t seed, std::int64_t universe, Draw draw) {
  return random_stream(seed, RandomPurpose::kGenerate, static_cast<std::uint64_t>(universe), draw);
}

/// Two normal numbers from two words (Box and Muller).
void normal_pair(std::uint32_t a, std::uint32_t b, float* out) {
  constexpr float kUnit = 0x1p-32F;
  const float radius = std::sqrt(-2 * std::log((static_cast<float>(a) + 0.5F) * kUnit));
  const float angle = 2 * std::numbers::pi_v<float> * kUnit * static_cast<float>(b);
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

std::size_t cubed(std::int64_t n) { return static_cast<std::size_t>(n * n * n); }

}  // namespace

const std::vector<double>& ParameterRanges::of(std::size_t parameter) const {
  const std::array<const std::vector<double>*, kParameterNames.size()> all = {&omega_m, &sigma_8, &n_s, &h_0};
  return *all[parameter];
}

void check(const ParameterRanges& ranges) {
  for (std::size_t i = 0; i < kRangeKeys.size(); ++i) {
    const std::vector<double>& ends = ranges.of(i);
    if (ends.size() != 2 || !(ends[0] <= ends[1])) {
      user_error("{} must be two numbers, the lowest and the highest value", kRangeKeys[i]);
    }
  }
  for (const auto end : {&ParameterRanges::low, &ParameterRanges::high}) {
    const auto p = [&](std::size_t i) { return (ranges.*end)(i); };
    check(Cosmology{p(0), p(1), p(2), p(3)});
  }
}

Parameters to_labels(const ParameterRanges& ranges, const Parameters& physical) {
  Parameters labels{};
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const double half_width = ranges.half_width(i);
    labels[i] = half_width == 0 ? 0 : (physical[i] - ranges.middle(i)) / half_width;
  }
  return labels;
}

Parameters draw_parameters(const ParameterRanges& ranges, std::uint64_t seed, std::int64_t universe) {
  RandomSequence random(stream_of(seed, universe, kDrawParameters), 0);
  Parameters physical{};
  for (std::size_t i = 0; i < physical.size(); ++i) {
    physical[i] = ranges.low(i) + (ranges.high(i) - ranges.low(i)) * random.uniform();
  }
  return physical;
}

void check(const UniverseOptions& options) {
  if (options.particles % 2 != 0) user_error("generate.particles is {}; it must be even", options.particles);
}

void white_noise(std::uint64_t seed, std::int64_t universe, std::span<float> noise) {
  const RandomStream stream = stream_of(seed, universe, kDrawNoise);
  const std::size_t size = noise.size();
  Kokkos::parallel_for("petaflow::cosmoflow::white_noise", HostRange(0, static_cast<std::int64_t>((size + 3) / 4)),
                       [&](std::int64_t block) {
                         const RandomBlock bits = stream(static_cast<std::uint64_t>(block), 0);
                         float four[4];
                         normal_pair(bits.word[0], bits.word[1], four);
                         normal_pair(bits.word[2], bits.word[3], four + 2);
                         const std::size_t at = 4 * static_cast<std::size_t>(block);
                         std::copy_n(four, std::min<std::size_t>(4, size - at), noise.data() + at);
                       });
}

UniverseMaker::UniverseMaker(const UniverseOptions& options)
    : field_((check(options), static_cast<int>(options.particles)), options.box),
      noise_(cubed(options.particles)),
      channel_(noise_.size()),
      counts_(noise_.size() * kRedshifts.size()) {}

std::span<const std::int16_t> UniverseMaker::make(const Parameters& parameters, std::uint64_t seed,
                                                  std::int64_t universe) {
  const Cosmology cosmology{parameters[0], parameters[1], parameters[2], parameters[3]};
  white_noise(seed, universe, noise_);
  field_.start(noise_, LinearPower(cosmology));
  field_.displace();
  constexpr std::size_t kChannels = kRedshifts.size();
  for (std::size_t c = 0; c < kChannels; ++c) {
    const double z = kRedshifts[c];
    field_.count(growth(cosmology.omega_m, z), second_order_growth(cosmology.omega_m, z), channel_);
    std::int32_t largest = 0;
    Kokkos::parallel_reduce(
        "petaflow::cosmoflow::channel", HostRange(0, static_cast<std::int64_t>(channel_.size())),
        [&](std::int64_t i, std::int32_t& most) {
          const auto at = static_cast<std::size_t>(i);
          most = std::max(most, channel_[at]);
          counts_[at * kChannels + c] = static_cast<std::int16_t>(channel_[at]);
        },
        Kokkos::Max<std::int32_t>(largest));
    if (largest > std::numeric_limits<std::int16_t>::max()) {
      failure("universe {} has {} particles in one voxel at z = {}: more than 16 bits hold", universe, largest, z);
    }
  }
  return counts_;
}

std::vector<std::int16_t> sub_cube(std::span<const std::int16_t> cube, std::int64_t n, std::int64_t cuts,
                                   std::int64_t index) {
  PETAFLOW_REQUIRE(n % cuts == 0 && index >= 0 && index < cuts * cuts * cuts && cube.size() % cubed(n) == 0,
                   "part {} of {}^3 of a cube of {}^3", index, cuts, n);
  const std::int64_t channels = static_cast<std::int64_t>(cube.size() / cubed(n)), m = n / cuts;
  const std::int64_t first[3] = {index / (cuts * cuts) * m, index / cuts % cuts * m, index % cuts * m};
  std::vector<std::int16_t> part(cubed(m) * static_cast<std::size_t>(channels));
  for (std::int64_t x = 0; x < m; ++x) {
    for (std::int64_t y = 0; y < m; ++y) {
      const std::int64_t from = (((first[0] + x) * n + first[1] + y) * n + first[2]) * channels;
      std::copy_n(cube.data() + from, m * channels, part.data() + (x * m + y) * m * channels);
    }
  }
  return part;
}

}  // namespace petaflow::cosmoflow
