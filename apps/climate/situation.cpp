#include "climate/situation.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/random.hpp"
#include "climate/physics.hpp"

namespace petaflow::climate {
namespace {

/// Purpose of a sequence of random numbers within a series.
enum class Draw : std::uint64_t { kCyclones, kDepressions, kColdLows, kLows, kRivers, kPools, kJets, kSurges };

/// One kind of feature of a series after the other: its random numbers, and where things drift with time.
class Draws {
 public:
  Draws(std::uint64_t seed, std::int64_t series, double hours, double season)
      : stream_(random_stream(seed, RandomPurpose::kGenerate, static_cast<std::uint64_t>(series), 100)),
        hours_(hours),
        season_(season) {}

  RandomSequence begin(Draw draw) const { return {stream_, static_cast<std::uint64_t>(draw)}; }
  double hours() const { return hours_; }

  /// 1 or -1: more often the hemisphere where it is summer, by `preference` in [-0.5, 0.5].
  double hemisphere(RandomSequence& random, double preference) const {
    return random.uniform() < 0.5 + preference * season_ ? 1 : -1;
  }
  /// The place after the series' hours, moved by m/s.
  Place moved(Place place, double east, double north) const {
    const double latitude = place.latitude + north * 3600 * hours_ / kMetresPerDegree;
    const double turn = east * 3600 * hours_ / (kMetresPerDegree * std::cos(latitude * kRadians));
    return {latitude, place.longitude + turn};
  }
  /// A factor around 1 that swings by the share within days.
  double swing(RandomSequence& random, double share) const {
    const double phase = random.uniform() * 2 * std::numbers::pi, period = 72 + 72 * random.uniform();
    return 1 + share * std::sin(phase + 2 * std::numbers::pi * hours_ / period);
  }

 private:
  RandomStream stream_;
  double hours_, season_;
};

double between(RandomSequence& random, double low, double high) { return low + (high - low) * random.uniform(); }

/// A place far from those that are taken, or after many attempts anywhere; it is taken then.
Place free_place(RandomSequence& random, double hemisphere, double low, double high, std::vector<Place>& taken) {
  const auto is_far = [](const Place& a, const Place& b) {
    return distance_km(a.latitude, a.longitude, b.latitude, b.longitude) > 14 * kMetresPerDegree / 1000;
  };
  Place place;
  for (int attempt = 0; attempt < 40; ++attempt) {
    place = {hemisphere * between(random, low, high), between(random, 0, 360)};
    if (std::ranges::all_of(taken, [&](const Place& other) { return is_far(place, other); })) break;
  }
  taken.push_back(place);
  return place;
}

/// Warm cores with a gale; heavy rain in a moist column.  They go west, and east again where they have come far from
/// the equator.
void add_cyclones(const Draws& draws, std::vector<Place>& taken, std::vector<Vortex>& vortices) {
  RandomSequence random = draws.begin(Draw::kCyclones);
  const int count = 2 + static_cast<int>(random.below(4));
  for (int i = 0; i < count; ++i) {
    const double hemisphere = draws.hemisphere(random, 0.3);
    const Place begin = free_place(random, hemisphere, 9, 29, taken);
    const double poleward = between(random, 1, 3.5), recurved = (std::abs(begin.latitude) - 21) / 8;
    Vortex storm;
    storm.u_motion = between(random, 3, 6) * std::clamp(recurved, -1.0, 1.0);
    storm.v_motion = hemisphere * poleward;
    storm.centre = draws.moved(begin, storm.u_motion, storm.v_motion);
    storm.radius = between(random, 3.4, 5.4) * draws.swing(random, 0.06);
    storm.core = between(random, 0.24, 0.34);
    storm.steepness = between(random, 1.2, 1.7);
    storm.wind = between(random, 26, 58) * draws.swing(random, 0.12);
    const double strength = storm.wind / 45;
    storm.warmth500 = between(random, 2, 4) * strength;
    storm.warmth200 = between(random, 1.5, 4) * strength;
    storm.water = between(random, 13, 22);
    storm.rain = between(random, 8e-7, 2.5e-6) * strength;
    storm.kind = kCycloneBox;
    vortices.push_back(storm);
  }
}

/// Weak warm cores without a gale: boxes, but no labels.
void add_depressions(const Draws& draws, std::vector<Place>& taken, std::vector<Vortex>& vortices) {
  RandomSequence random = draws.begin(Draw::kDepressions);
  const int count = static_cast<int>(random.below(3));
  for (int i = 0; i < count; ++i) {
    const double hemisphere = draws.hemisphere(random, 0.3);
    const Place begin = free_place(random, hemisphere, 8, 24, taken);
    Vortex low;
    low.u_motion = -between(random, 3, 7);
    low.centre = draws.moved(begin, low.u_motion, 0);
    low.radius = between(random, 3, 4.5), low.core = 0.4, low.steepness = 1.2;
    low.wind = between(random, 8, 13);
    low.warmth500 = between(random, 0.4, 1), low.warmth200 = between(random, 0.2, 0.8);
    low.water = between(random, 8, 16), low.rain = between(random, 2e-7, 6e-7);
    low.kind = kDepressionBox;
    vortices.push_back(low);
  }
}

/// Small lows of the subtropics with a cold core: wind, pressure, moisture and rain nearly as in a tropical cyclone.
void add_cold_lows(const Draws& draws, std::vector<Place>& taken, std::vector<Vortex>& vortices) {
  RandomSequence random = draws.begin(Draw::kColdLows);
  const int count = 3 + static_cast<int>(random.below(3));
  for (int i = 0; i < count; ++i) {
    const Place begin = free_place(random, draws.hemisphere(random, -0.2), 12, 37, taken);
    Vortex low;
    low.u_motion = between(random, -2, 7);
    low.centre = draws.moved(begin, low.u_motion, 0);
    low.radius = between(random, 3.2, 5.6), low.core = between(random, 0.28, 0.42), low.steepness = 1.3;
    low.wind = between(random, 20, 40) * draws.swing(random, 0.1);
    low.warmth500 = -between(random, 1.2, 4), low.warmth200 = between(random, -1, 3);
    low.water = between(random, 10, 20), low.rain = between(random, 6e-7, 2e-6);
    vortices.push_back(low);
  }
}

/// Lows of the storm tracks, cold at 500 hPa, each with a front that trails towards the equator behind it.
void add_lows(const Draws& draws, Situation& sky) {
  RandomSequence random = draws.begin(Draw::kLows);
  const int count = 8 + static_cast<int>(random.below(5));
  for (int i = 0; i < count; ++i) {
    const double hemisphere = i % 2 == 0 ? 1 : -1;
    const Place begin = {hemisphere * between(random, 36, 66), between(random, 0, 360)};
    Vortex low;
    low.u_motion = between(random, 7, 14), low.v_motion = hemisphere * between(random, 0, 3);
    low.centre = draws.moved(begin, low.u_motion, low.v_motion);
    low.radius = between(random, 7, 12), low.core = between(random, 0.4, 0.6), low.steepness = 1.15;
    low.wind = between(random, 12, 24) * draws.swing(random, 0.15);
    low.warmth500 = -between(random, 2, 6), low.warmth200 = between(random, -2, 6);
    low.warm_sector = between(random, 2, 7);
    low.water = between(random, 3, 9), low.rain = between(random, 1e-7, 4e-7);
    sky.vortices.push_back(low);
    const double bend = between(random, 5, 40), length = between(random, 12, 24);
    Plume front;
    front.line = curved_line(low.centre, 180 + between(random, 20, 60), bend, bend, length);
    front.half_width = between(random, 1.1, 1.8);
    front.water = between(random, 4, 10), front.rain = between(random, 5e-8, 2.5e-7);
    front.wind = -between(random, 2, 8);  // the line leads away from the low, the wind towards it
    sky.plumes.push_back(front);
  }
}

/// Long moist plumes out of the tropics with the wind along them.
void add_rivers(const Draws& draws, std::vector<Plume>& plumes) {
  RandomSequence random = draws.begin(Draw::kRivers);
  const int count = 3 + static_cast<int>(random.below(4));
  for (int i = 0; i < count; ++i) {
    const double hemisphere = draws.hemisphere(random, -0.1), heading = between(random, 20, 55);
    const Place root = draws.moved({hemisphere * between(random, 15, 27), between(random, 0, 360)}, 7, hemisphere);
    const double bend = between(random, -25, 40), bend_back = between(random, -45, 20);
    Plume river;
    river.line = curved_line(root, heading, bend, bend_back, between(random, 28, 55));
    river.half_width = between(random, 2.0, 3.2) * draws.swing(random, 0.05);
    river.water = between(random, 18, 30) * draws.swing(random, 0.1);
    river.rain = between(random, 3e-8, 1.6e-7);
    river.wind = between(random, 15, 30) * draws.swing(random, 0.1);
    river.warmth = between(random, 0.5, 3);
    river.is_river = true;
    plumes.push_back(river);
  }
}

/// Moist air that nothing carries along: round pools, and bands as long as a river.
void add_pools(const Draws& draws, std::vector<Plume>& plumes) {
  RandomSequence random = draws.begin(Draw::kPools);
  const int count = 6 + static_cast<int>(random.below(5));
  for (int i = 0; i < count; ++i) {
    const bool is_band = random.uniform() < 0.6;
    const double hemisphere = draws.hemisphere(random, 0.2), heading = between(random, -20, 70);
    const Place begin = {hemisphere * between(random, 14, 40), between(random, 0, 360)};
    const double motion = between(random, -4, 6);
    const double bend = between(random, -40, 40), bend_back = between(random, -40, 40);
    const double length = is_band ? between(random, 18, 42) : between(random, 6, 13);
    Plume pool;
    pool.line = curved_line(draws.moved(begin, motion, 0), heading, bend, bend_back, length);
    pool.half_width = is_band ? between(random, 1.9, 3.2) : between(random, 3, 5);
    pool.water = between(random, 16, 29), pool.rain = between(random, 2e-8, 2e-7);
    pool.wind = between(random, -5, 5), pool.warmth = between(random, 0, 2.5);
    plumes.push_back(pool);
  }
}

/// Moist air in wind as strong as a river's, but too short for one.
void add_surges(const Draws& draws, std::vector<Plume>& plumes) {
  RandomSequence random = draws.begin(Draw::kSurges);
  const int count = 6 + static_cast<int>(random.below(5));
  for (int i = 0; i < count; ++i) {
    const double hemisphere = draws.hemisphere(random, 0), heading = between(random, -30, 80);
    const Place begin = draws.moved({hemisphere * between(random, 9, 50), between(random, 0, 360)}, 5, 0);
    const double bend = between(random, -20, 20), length = between(random, 6, 12);
    Plume surge;
    surge.line = curved_line(begin, heading, bend, bend, length);
    surge.half_width = between(random, 2.2, 3.4);
    surge.water = between(random, 15, 28), surge.rain = between(random, 3e-8, 4e-7);
    surge.wind = between(random, 15, 30), surge.warmth = between(random, 0.5, 3);
    plumes.push_back(surge);
  }
}

/// Wind as in a river, in air that is not moist.
void add_jets(const Draws& draws, std::vector<Plume>& plumes) {
  RandomSequence random = draws.begin(Draw::kJets);
  const int count = 3 + static_cast<int>(random.below(3));
  for (int i = 0; i < count; ++i) {
    const double hemisphere = i % 2 == 0 ? 1 : -1, heading = between(random, -10, 50);
    const Place begin = draws.moved({hemisphere * between(random, 18, 42), between(random, 0, 360)}, 8, 0);
    const double bend = between(random, -30, 30), bend_back = between(random, -40, 10);
    Plume jet;
    jet.line = curved_line(begin, heading, bend, bend_back, between(random, 20, 50));
    jet.half_width = between(random, 2.0, 3.4);
    jet.water = -between(random, 0, 5), jet.wind = between(random, 13, 24);
    plumes.push_back(jet);
  }
}

}  // namespace

Situation draw_situation(std::uint64_t seed, std::int64_t series, double hours, double season) {
  const Draws draws(seed, series, hours, season);
  Situation sky;
  std::vector<Place> taken;  // at the begin of the series, by vortices that would hide each other
  add_cyclones(draws, taken, sky.vortices);
  add_depressions(draws, taken, sky.vortices);
  add_cold_lows(draws, taken, sky.vortices);
  add_lows(draws, sky);
  add_rivers(draws, sky.plumes);
  add_pools(draws, sky.plumes);
  add_jets(draws, sky.plumes);
  add_surges(draws, sky.plumes);
  return sky;
}

}  // namespace petaflow::climate
