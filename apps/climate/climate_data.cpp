#include "climate/climate_data.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <utility>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "base/random.hpp"
#include "climate/boxes.hpp"
#include "climate/frame_check.hpp"
#include "climate/frame_time.hpp"
#include "climate/npy_frame.hpp"
#include "comm/agree.hpp"
#include "io/log.hpp"

namespace petaflow::climate {
namespace {

constexpr std::size_t kOpenFiles = 64;  // at a time, of files with several frames
constexpr std::int64_t kBoxFields = 5;

void check_grid(const FrameFile& file, const ClimateDataOptions& options) {
  const Grid& grid = file.grid();
  if (grid.height() == options.height && grid.width() == options.width) return;
  user_error(
      "{0}: frames are of {1} x {2} pixels, but data.height = {3} and data.width = {4}; set these to {1} and {2}",
      file.path(), grid.height(), grid.width(), options.height, options.width);
}

/// Refuses a file that is not what scan_climate() took it for.
void check_layout(const FrameFile& file, const ClimateIndex& index, std::size_t f) {
  const auto family = [](const std::string& format) { return format == "climatenet" ? "cf" : format; };
  if (family(file.format()) != family(index.format)) {
    user_error("{} has the layout {}, but {} has {}; the files of a set must have one layout", file.path(),
               file.format(), index.files.front(), index.format);
  }
  if (file.frames() != index.frames[f]) {
    user_error("{} has {} frames, but {} has one; give files with several frames as a set of their own", file.path(),
               file.frames(), index.files.front());
  }
}

/// Refuses a file whose pixels lie elsewhere than those of the first one, which is of the same size.
void check_coordinates(const FrameFile& file, const ClimateIndex& index) {
  const std::string other = difference(file.grid(), index.grid);
  if (other.empty()) return;
  user_error("{}: {} in {}; the files of a set must have one grid: interpolate these to it", file.path(), other,
             index.files.front());
}

/// Refuses a file that does not belong to the set.
void check_file(const FrameFile& file, const ClimateDataOptions& options, const ClimateIndex& index, std::size_t f) {
  check_layout(file, index, f);
  check_grid(file, options);
  check_coordinates(file, index);
}

/// Whether the files' own labels are to be taken, of which none has one in `folder`.  All are looked for before the
/// first one is read: a training would end at one that is missing.
bool have_own_labels(const ClimateDataOptions& options, const std::vector<std::string>& files) {
  const std::string& folder = options.file.labels;
  if (folder.empty()) return true;
  const auto lacks = [&](const std::string& file) {
    return !std::filesystem::exists(std::filesystem::path(folder) / label_name(file));
  };
  if (options.own_labels_too && std::ranges::all_of(files, lacks)) return true;
  const auto found = std::ranges::find_if(files, lacks);
  if (found == files.end()) return false;
  user_error("{} has no labels: {} is not in {} (data.labels); `label` makes it", *found, label_name(*found), folder);
}

/// Refuses a file without a target that every frame must have.
void check_targets(const FrameFile& file, const ClimateDataOptions& options) {
  if (options.targets_optional) return;
  if (options.map && !file.has_labels()) {
    user_error("{} ({}) has no labels; `label` makes them, and data.labels names the folder that it wrote", file.path(),
               file.format());
  }
  if (options.boxes && !options.boxes_optional && !file.has_boxes()) {
    user_error("{} ({}) has no boxes; they are read from files of ExtremeWeather", file.path(), file.format());
  }
}

/// What samples follow from beside the files that they are read from.
std::string recipe_of(const ClimateDataOptions& options, const ClimateIndex& index, const std::vector<int>& fields) {
  const auto number = [](double x) { return fmt::format("{:a}", x); };
  std::string text = fmt::format(
      "scaled samples, version 1; fields {}; normalise {}; clip {:a}; labels {} {}; names {}; columns {}; {} {} {} {} "
      "{}",
      fmt::join(fields, " "), static_cast<int>(options.normalise), options.clip, options.file.label_set,
      options.file.labels, fmt::join(options.file.variable_names, " "), fmt::join(options.file.box_columns, " "),
      options.map, options.boxes, options.most_boxes, options.targets_optional, options.boxes_optional);
  for (const auto* numbers :
       {&index.scaling.offsets, &index.scaling.factors, &index.grid.latitude, &index.grid.longitude}) {
    text += ";";
    for (const double x : *numbers) text += " " + number(x);
  }
  return text;
}

/// The files that a frame is read from.
std::vector<std::string> sources_of(const std::string& path, const std::string& labels) {
  std::vector<std::string> sources = {path};
  if (!labels.empty()) sources.push_back((std::filesystem::path(labels) / label_name(path)).string());
  if (path.ends_with(".npy")) sources.push_back(label_file_of(path));
  return sources;
}

/// Scaling by the options' own numbers, or by statistics, whose odd ones are noted.
ChannelScaling find_scaling(const ClimateDataOptions& options, ClimateIndex& index, const std::vector<int>& fields) {
  if (!options.offsets.empty() || !options.factors.empty()) {
    if (options.offsets.size() != fields.size() || options.factors.size() != fields.size()) {
      user_error("data.offsets has {} and data.factors has {} numbers for {} channels", options.offsets.size(),
                 options.factors.size(), fields.size());
    }
    return {options.offsets, options.factors};
  }
  Statistics statistics;
  const std::string source = options.stats.empty() ? "the training set" : options.stats;
  if (!options.stats.empty()) {
    statistics = read_statistics(options.stats);
  } else if (options.normalise != Normalise::kNone) {
    Communicator alone;
    try {
      statistics =
          compute_statistics(alone, index.files, options.file, fields, [&](std::size_t f, const FrameFile& file) {
            check_file(file, options, index, f);
            check_targets(file, options);
          });
    } catch (const AgreedError& error) {  // among this rank alone: the others have yet to be told
      throw Error(error.kind(), error.what());
    }
  }
  if (options.normalise == Normalise::kZScore) index.notes = deviation_warnings(statistics, fields, source);
  return make_scaling(options.normalise, statistics, fields, source);
}

}  // namespace

std::vector<int> channel_fields(const ClimateDataOptions& options) {
  std::vector<int> fields;
  for (int f = 0; f < kFieldCount && options.channels.empty(); ++f) fields.push_back(f);
  for (const std::string& name : options.channels) {
    const int field = field_index(name, "data.channels");
    if (std::ranges::find(fields, field) != fields.end()) user_error("data.channels names {} twice", name);
    fields.push_back(field);
  }
  return fields;
}

std::vector<bool> labelled_frames(std::int64_t frames, double fraction, std::int64_t seed) {
  const auto count = static_cast<std::int64_t>(std::ceil(fraction * static_cast<double>(frames) - 1e-9));
  RandomSequence random(random_stream(static_cast<std::uint64_t>(seed), RandomPurpose::kShuffle), 0);
  std::vector<bool> chosen(static_cast<std::size_t>(frames));
  for (std::int64_t i = 0, left = count; i < frames; ++i) {  // each of the frames that are left is as likely
    const bool take = random.below(static_cast<std::uint32_t>(frames - i)) < static_cast<std::uint32_t>(left);
    chosen[static_cast<std::size_t>(i)] = take;
    left -= take ? 1 : 0;
  }
  return chosen;
}

ClimateIndex scan_climate(const ClimateDataOptions& given, const std::vector<std::string>& files) {
  ClimateDataOptions options = given;
  ClimateIndex index;
  index.files = files_between(files, options.from, options.to);
  if (index.files.empty()) user_error("no file of frames was given");
  const std::vector<int> fields = channel_fields(options);
  index.own_labels = have_own_labels(options, index.files);
  if (index.own_labels && !options.file.labels.empty()) {
    log_info("labels of {}{} are those in the files: {} (data.labels) has none for them", index.files.front(),
             index.files.size() > 1 ? ", ..." : "", std::exchange(options.file.labels, ""));
  }
  for (const std::string& path : index.files) {
    const bool first = index.frames.empty();
    if (!first && index.frames.front() == 1) break;
    const auto file = open_frames(path, options.file);
    if (first) {
      if (options.as_it_is) options.height = file->grid().height(), options.width = file->grid().width();
      check_grid(*file, options);
      check_targets(*file, options);
      file->require(fields);
      index.format = file->format();
      index.grid = file->grid();
    }
    index.frames.push_back(file->frames());
    check_layout(*file, index, index.frames.size() - 1);
  }
  if (!options.trained_on.latitude.empty()) {
    if (const std::string other = difference(index.grid, options.trained_on); !other.empty())
      log_warning("{}: {} in the training set: the network sees the same events at another size and place",
                  index.files.front(), other);
  }
  index.frames.resize(index.files.size(), 1);
  index.scaling = find_scaling(options, index, fields);
  return index;
}

void check_any_box(const ClimateDataOptions& options, const ClimateIndex& index, const std::string& what) {
  const std::int64_t frames = std::accumulate(index.frames.begin(), index.frames.end(), std::int64_t{0});
  const std::vector<bool> labelled = labelled_frames(frames, options.labelled_fraction, options.labelled_seed);
  std::int64_t first = 0;
  for (std::size_t f = 0; f < index.files.size(); first += index.frames[f++]) {
    const auto begin = labelled.begin() + first;
    if (std::find(begin, begin + index.frames[f], true) == begin + index.frames[f]) continue;
    const auto file = open_frames(index.files[f], options.file);
    for (std::int64_t i = 0; i < index.frames[f] && file->has_boxes(); ++i) {
      if (labelled[static_cast<std::size_t>(first + i)] && !file->read_boxes(i).empty()) return;
    }
  }
  user_error(
      "{}: none of the {} of {} frames whose boxes are looked at has one; give files of ExtremeWeather with boxes, or "
      "a larger data.labelled_fraction",
      what, std::ranges::count(labelled, true), frames);
}

ClimateData::ClimateData(const ClimateDataOptions& options, ClimateIndex index)
    : options_(options),
      index_(std::move(index)),
      fields_(channel_fields(options)),
      open_(std::make_unique<RecentlyUsed<std::unique_ptr<FrameFile>>>(kOpenFiles)) {
  if (index_.own_labels) options_.file.labels.clear();
  if (options_.as_it_is) options_.height = index_.grid.height(), options_.width = index_.grid.width();
  for (std::size_t f = 0; f < index_.files.size(); ++f) {
    for (std::int64_t i = 0; i < index_.frames[f]; ++i) samples_.push_back({static_cast<std::int32_t>(f), i});
  }
  std::size_t bytes = sample_bytes();
  for (const TargetSpec& target : targets()) bytes += target.bytes();
  labelled_ = labelled_frames(size(), options_.labelled_fraction, options_.labelled_seed);
  if (size() * static_cast<std::int64_t>(bytes) <= options_.cache_bytes) {
    kept_ = std::make_unique<Kept[]>(samples_.size());
  }
  if (!options_.cache.empty()) {
    try {
      cache_ = std::make_unique<FrameCache>(options_.cache, options_.cache_type, recipe_of(options_, index_, fields_),
                                            std::ssize(fields_), targets().size());
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("data.cache: {}", error.what()));
    }
  }
}

std::vector<TargetSpec> ClimateData::targets() const {
  std::vector<TargetSpec> targets;
  if (options_.map) {
    targets.push_back(TargetSpec::class_map("map", std::ssize(kTagNames), {1, options_.height, options_.width}));
  }
  if (options_.boxes) targets.push_back(TargetSpec::boxes("boxes", options_.most_boxes, kBoxFields));
  return targets;
}

std::shared_ptr<const FrameFile> ClimateData::open(std::int64_t index) const {
  const auto f = static_cast<std::size_t>(origin(index).file);
  const std::string& path = index_.files[f];
  if (index_.frames[f] == 1) return open_frames(path, options_.file);
  const auto file = open_->get(origin(index).file, [&] { return open_frames(path, options_.file); });
  return {file, file->get()};
}

float ClimateData::read(std::int64_t index, const SampleBytes& sample) const {
  PETAFLOW_REQUIRE(index >= 0 && index < size() && sample.input.size() == sample_bytes(), "sample {} of {}, {} bytes",
                   index, size(), sample.input.size());
  if (!kept_) return read_labelled(index, sample);
  Kept& kept = kept_[static_cast<std::size_t>(index)];
  const std::size_t targets = (options_.map ? 1 : 0) + (options_.boxes ? 1 : 0);
  std::call_once(kept.once, [&] {
    kept.weight = read_labelled(index, sample);
    kept.input.assign(sample.input.begin(), sample.input.end());
    for (std::size_t t = 0; t < targets; ++t) {
      kept.targets.emplace_back(sample.targets[t].begin(), sample.targets[t].end());
    }
  });
  std::ranges::copy(kept.input, sample.input.begin());
  for (std::size_t t = 0; t < targets; ++t) std::ranges::copy(kept.targets[t], sample.targets[t].begin());
  return kept.weight;
}

float ClimateData::read_copy_or_file(std::int64_t index, const SampleBytes& sample) const {
  if (!cache_) return read_file(index, sample);
  const auto [f, frame] = origin(index);
  const std::string copy =
      cache_->path(sources_of(index_.files[static_cast<std::size_t>(f)], options_.file.labels), frame);
  float weight = 0;
  if (cache_->read(copy, sample, weight)) return weight;
  weight = read_file(index, sample);
  cache_->write(copy, sample, weight);
  return weight;
}

float ClimateData::read_labelled(std::int64_t index, const SampleBytes& sample) const {
  const float weight = read_copy_or_file(index, sample);
  if (!options_.boxes || labelled_[static_cast<std::size_t>(index)]) return weight;
  BoxTarget(sample.targets[options_.map ? 1 : 0], kBoxFields).set_unknown();
  return options_.boxes_optional ? weight : 0.0F;
}

std::vector<ReadCount> ClimateData::read_counts() const { return cache_ ? cache_->counts() : std::vector<ReadCount>(); }

float ClimateData::read_file(std::int64_t index, const SampleBytes& sample) const {
  thread_local RawFields raw;
  const auto file = open(index);
  const std::int64_t frame = origin(index).index;
  check_file(*file, options_, index_, static_cast<std::size_t>(origin(index).file));
  file->read_fields(frame, fields_, raw);
  convert(*file, frame, raw, numbers<float>(sample.input));
  return read_targets(*file, frame, sample);
}

float ClimateData::read_targets(const FrameFile& file, std::int64_t frame, const SampleBytes& sample) const {
  check_targets(file, options_);
  std::size_t target = 0;
  bool known = true;
  if (options_.map) {
    const auto map = sample.target<std::uint8_t>(target++);
    if (file.has_labels()) {
      std::ranges::copy(file.read_labels(frame), map.begin());
    } else {
      std::ranges::fill(map, std::uint8_t{0});
      known = false;
    }
  }
  if (options_.boxes) known = (read_boxes(file, frame, sample.targets[target++]) || options_.boxes_optional) && known;
  return known ? 1.0F : 0.0F;
}

/// Whether they are known.
bool ClimateData::read_boxes(const FrameFile& file, std::int64_t frame, std::span<std::byte> target) const {
  BoxTarget boxes(target, kBoxFields);
  if (!file.has_boxes()) {
    boxes.set_unknown();
    return false;
  }
  const std::vector<Box> found = joined_across_seam(file.read_boxes(frame), options_.width);
  if (found.size() > boxes.room()) {
    user_error("{}: frame {} has {} boxes; data.most_boxes = {}: set it to what a frame may have", file.path(), frame,
               found.size(), options_.most_boxes);
  }
  boxes.resize(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Box box = centred(found[i], options_.width);
    std::ranges::copy(std::array{box.ymin, box.xmin, box.ymax, box.xmax, static_cast<float>(box.kind)},
                      boxes[i].begin());
  }
  return true;
}

void ClimateData::convert(const FrameFile& file, std::int64_t frame, const RawFields& raw,
                          std::span<float> sample) const {
  const std::size_t channels = fields_.size();
  const std::int64_t pixels = options_.height * options_.width;
  const bool scales = options_.normalise != Normalise::kNone;
  const float highest =
      scales && options_.clip > 0 ? static_cast<float>(options_.clip) : std::numeric_limits<float>::infinity();
  std::vector<float> offset(channels), factor(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    offset[c] = static_cast<float>(index_.scaling.offsets[c]);
    factor[c] = static_cast<float>(index_.scaling.factors[c]);
  }
  check_values(file, frame, fields_, raw);
  float* to = sample.data();
  for (std::int64_t p = 0; p < pixels; ++p) {
    const float* const from = raw.values.data() + p * raw.step;
    for (std::size_t c = 0; c < channels; ++c) {
      *to++ = std::clamp((from[raw.first[c]] - offset[c]) * factor[c], -highest, highest);
    }
  }
}

}  // namespace petaflow::climate
