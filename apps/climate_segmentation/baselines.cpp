#include "climate_segmentation/baselines.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/random.hpp"
#include "climate/tuning.hpp"
#include "comm/agree.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "nn/parallel.hpp"
#include "train/stop_request.hpp"

namespace petaflow::climate_segmentation {
namespace {

using climate::Frame;
using Mask = std::vector<std::uint8_t>;

constexpr auto kCyclone = static_cast<std::uint8_t>(climate::Tag::kCyclone),
               kRiver = static_cast<std::uint8_t>(climate::Tag::kRiver);

Frame read(const climate::ClimateData& data, std::int64_t index) {
  return climate::read_frame(*data.open(index), data.origin(index).index);
}

/// What the rule per pixel looks at, (H, W) each.
struct PixelFields {
  std::vector<double> water;    // kg/m2, damped near the equator
  std::vector<double> wind;     // m/s at the lowest level
  std::vector<float> pressure;  // Pa at sea level

  explicit PixelFields(const Frame& frame) {
    const auto plane = [&](climate::FieldIndex field) {
      const auto pixels = static_cast<std::size_t>(frame.pixels());
      return std::span(frame.fields).subspan(static_cast<std::size_t>(field) * pixels, pixels);
    };
    water = climate::damped(frame.grid, plane(climate::kTmq), climate::RiverOptions().latitude_sigma);
    const auto u = plane(climate::kUbot), v = plane(climate::kVbot), p = plane(climate::kPsl);
    for (std::size_t i = 0; i < u.size(); ++i) {
      wind.push_back(std::hypot(static_cast<double>(u[i]), static_cast<double>(v[i])));
    }
    pressure.assign(p.begin(), p.end());
  }
};

struct PixelThresholds {
  double water = 0, wind = 0, pressure = 0;
};

PixelThresholds draw(std::int64_t trial) {
  RandomSequence random(random_stream(1, RandomPurpose::kShuffle, 18), static_cast<std::uint64_t>(trial));
  const auto between = [&](double low, double high) { return low + (high - low) * random.uniform(); };
  const double water = between(10, 45), wind = between(5, 25);
  return {water, wind, between(97000, 101500)};
}

bool is_river(const PixelFields& fields, const PixelThresholds& thresholds, std::size_t p) {
  return fields.water[p] > thresholds.water;
}
bool is_cyclone(const PixelFields& fields, const PixelThresholds& thresholds, std::size_t p) {
  return fields.wind[p] > thresholds.wind && static_cast<double>(fields.pressure[p]) < thresholds.pressure;
}

/// Intersection over union of what a rule says with the known pixels of a class; 0 where there are none.
template <class Rule>
double score(const std::vector<Frame>& frames, const std::vector<PixelFields>& fields, std::uint8_t tag,
             const Rule& rule) {
  double both = 0, either = 0;
  for (std::size_t f = 0; f < frames.size(); ++f) {
    for (std::size_t p = 0; p < frames[f].labels.size(); ++p) {
      const bool known = frames[f].labels[p] == tag, found = rule(fields[f], p);
      both += known && found ? 1 : 0;
      either += known || found ? 1 : 0;
    }
  }
  return either > 0 ? both / either : 0;
}

PixelThresholds tune_pixels(const std::vector<Frame>& frames, std::int64_t trials) {
  const std::vector<PixelFields> fields(frames.begin(), frames.end());
  const auto count = static_cast<std::size_t>(trials);
  std::vector<double> of_rivers(count), of_cyclones(count);
  parallel_items("petaflow::climate::tune", count, [&](int, std::size_t i) {
    const PixelThresholds drawn = draw(static_cast<std::int64_t>(i));
    of_rivers[i] =
        score(frames, fields, kRiver, [&](const PixelFields& of, std::size_t p) { return is_river(of, drawn, p); });
    of_cyclones[i] =
        score(frames, fields, kCyclone, [&](const PixelFields& of, std::size_t p) { return is_cyclone(of, drawn, p); });
  });
  const auto best = [](const std::vector<double>& scores) {
    return draw(std::ranges::max_element(scores) - scores.begin());
  };
  PixelThresholds found = best(of_cyclones);
  found.water = best(of_rivers).water;
  return found;
}

/// Cyclones cover rivers, as in the published labels.
Mask map_per_pixel(const Frame& frame, const PixelThresholds& thresholds) {
  const PixelFields fields(frame);
  Mask map(fields.water.size());
  for (std::size_t p = 0; p < map.size(); ++p) {
    if (is_river(fields, thresholds, p)) map[p] = kRiver;
    if (is_cyclone(fields, thresholds, p)) map[p] = kCyclone;
  }
  return map;
}

}  // namespace

std::vector<Method> classical_methods(Communicator& comm, const climate::ClimateData& train,
                                      const climate::ClimateData& data, std::int64_t train_frames,
                                      std::int64_t trials) {
  train_frames = std::min(train_frames, train.size());
  const std::string how = fmt::format("the best of {} on {} of data.train", format_count(trials, "trial"),
                                      format_count(train_frames, "frame"));
  log_info("tuning the heuristics: {}", how);
  climate::LabelOptions heuristics;
  PixelThresholds per_pixel;
  agree(comm, [&] {
    std::vector<Frame> frames(static_cast<std::size_t>(train_frames));
    parallel_items("petaflow::climate::read", frames.size(), [&](int, std::size_t i) {
      frames[i] = read(train, static_cast<std::int64_t>(i) * train.size() / train_frames);
    });
    heuristics = climate::tune_heuristics(frames, trials, 1).options;
    per_pixel = tune_pixels(frames, trials);
  });
  std::vector<Method> methods(2);
  methods[0].name = "heuristics";
  methods[1].name = "per pixel";
  for (Method& method : methods) method.how = how;
  const SampleRange range = share_of_samples(data.size(), comm.rank(), comm.size());
  agree(comm, [&] {
    std::vector<std::array<Mask, 3>> maps(static_cast<std::size_t>(range.last - range.first));  // known; by method
    parallel_items("petaflow::climate::map", maps.size(), [&](int, std::size_t i) {
      if (stop_request() != StopRequest::kNone) user_error("stopped by a signal or run.wall_time");
      Frame frame = read(data, range.first + static_cast<std::int64_t>(i));
      maps[i] = {frame.labels, {}, map_per_pixel(frame, per_pixel)};
      climate::label_frame(frame, heuristics);
      maps[i][1] = frame.labels;
    });
    for (std::size_t i = 0; i < maps.size(); ++i) {
      for (std::size_t m = 0; m < methods.size(); ++m) {
        methods[m].counts.add(range.first + static_cast<std::int64_t>(i), maps[i][0], maps[i][m + 1]);
      }
    }
  });
  return methods;
}

}  // namespace petaflow::climate_segmentation
