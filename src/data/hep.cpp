#include "data/hep.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "io/progress.hpp"

namespace petaflow {

namespace {

constexpr const char* kClassNames[2] = {"background", "signal"};

// Files of a set that are open at a time: each has two descriptors, and 1024 is a usual limit for all of a process.
constexpr std::size_t kOpenFiles = 64;

void add_file(const HepDataOptions& options, const std::string& path, HepIndex& index) {
  const std::size_t before = index.events.size();
  HepFile file = scan_hep_file(path, options.file, options.labels != HepLabels::kOptional, index.events);
  file.first = static_cast<std::int64_t>(before);
  for (std::size_t i = before; i < index.events.size(); ++i) {
    index.events[i].file = static_cast<std::int32_t>(index.files.size());
  }
  if (!index.files.empty()) {
    const HepFile& other = index.files.front();
    if (file.format != other.format) {
      user_error("{} has the layout {}, {} {}: all files of a set must agree", path, file.format, other.path,
                 other.format);
    }
    if (file.channels != other.channels || file.height != other.height || file.width != other.width) {
      user_error("{} has images {} x {} x {}, {} has {} x {} x {}: all files of a set must agree", path, file.channels,
                 file.height, file.width, other.path, other.channels, other.height, other.width);
    }
    if (file.has_weights != other.has_weights || file.has_norm_weights != other.has_norm_weights ||
        file.has_selection != other.has_selection) {
      user_error("{} and {} do not both have weights and selection flags: all files of a set must agree", path,
                 other.path);
    }
  }
  index.files.push_back(std::move(file));
}

/// Refuses a pixel that is NaN or infinite.
[[noreturn]] void refuse_pixel(const std::string& path, std::int64_t event, float x, const std::string& place) {
  user_error("{}: event {} has the value {} at {}{}", path, event, std::isnan(x) ? std::abs(x) : x, place,
             std::isinf(x) ? " (infinite in the file, or beyond the 32 bits of a pixel)" : "");
}

/// Refuses a set whose images are all zero, as a failed conversion leaves them: nothing is learnt from them nor shown
/// by them, and no loss says why.  Looks at some events only, evenly spread over the set.
void refuse_empty_images(const HepIndex& index) {
  constexpr std::int64_t kMost = 16;
  const std::int64_t events = std::ssize(index.events), looked_at = std::min(events, kMost);
  std::vector<float> raw;
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const HepEvent& event = index.events[static_cast<std::size_t>(events * i / looked_at)];
    const HepFile& file = index.files[static_cast<std::size_t>(event.file)];
    raw.resize(static_cast<std::size_t>(file.raw_elements()));
    read_raw(open_planes(file), event.index, 1, raw);
    if (std::ranges::any_of(raw, [](float x) { return x != 0; })) return;
  }
  user_error("{}: the images are zero everywhere ({} of {} looked at)", index.files.front().path, looked_at, events);
}

}  // namespace

HepIndex scan_hep(const HepDataOptions& options, const std::vector<std::string>& files) {
  if (files.empty()) user_error("no file of HEP data was given");
  HepIndex index;
  for (const std::string& path : files) add_file(options, path, index);
  if (options.labels != HepLabels::kOptional) refuse_empty_images(index);
  return index;
}

HepData::HepData(const HepDataOptions& options, HepIndex index)
    : index_(std::move(index)), open_(std::make_unique<RecentlyUsed<OpenHepFile>>(kOpenFiles)) {
  const std::vector<HepFile>& files = index_.files;
  crop(options);
  read_options(options);
  for (const HepEvent& event : events()) {
    if (event.label >= 0) ++class_counts_[static_cast<std::size_t>(event.label)];
  }
  for (int label = 0; label < 2 && options.labels == HepLabels::kBothClasses; ++label) {
    if (class_counts_[static_cast<std::size_t>(label)] == 0) {
      user_error("{} in {}{}, all {}: no {} to learn from", format_count(size(), "event"), files.front().path,
                 files.size() > 1 ? fmt::format(" and {} more files", files.size() - 1) : "", kClassNames[1 - label],
                 kClassNames[label]);
    }
  }
  weigh(options.loss_weight);
  if (size() * sample_elements() * 4 <= options.cache_bytes) {
    cache_.resize(static_cast<std::size_t>(size() * sample_elements()));
  }
}

std::vector<std::string> HepData::files() const {
  std::vector<std::string> paths;
  for (const HepFile& file : index_.files) paths.push_back(file.path);
  return paths;
}

void HepData::crop(const HepDataOptions& options) {
  const HepFile& file = index_.files.front();
  const auto cut = [&](std::int64_t wanted, std::int64_t there, const char* name) {
    if (wanted < 0 || wanted > there) user_error("{}: data.crop keeps {} {} of {}", file.path, wanted, name, there);
    return wanted == 0 ? there : wanted;
  };
  height_ = cut(options.crop[0], file.height, "rows");
  width_ = cut(options.crop[1], file.width, "columns");
  phi_is_whole_ = file.phi_axis == ImageAxis::kW ? width_ == file.width : height_ == file.height;
}

void HepData::read_options(const HepDataOptions& options) {
  const std::int64_t stored = index_.files.front().channels;
  for (const std::string& name : options.transforms) {
    if (name == "none") {
      transforms_.push_back(Transform::kNone);
    } else if (name == "linear") {
      transforms_.push_back(Transform::kLinear);
    } else if (name == "signed_log") {
      transforms_.push_back(Transform::kSignedLog);
    } else {
      user_error("data.transforms names \"{}\"; none, linear or signed_log was expected", name);
    }
  }
  if (transforms_.empty()) user_error("data.transforms is empty; name at least one of none, linear or signed_log");
  channels_ = stored * std::ssize(transforms_);
  const std::int64_t units = std::ssize(options.units);
  if (units != 1 && units != stored)
    user_error("data.units has {} numbers for {}: give one, or one each", units, format_count(stored, "channel"));
  for (std::int64_t c = 0; c < stored; ++c) {
    const double unit = options.units[static_cast<std::size_t>(units == 1 ? 0 : c)];
    if (!(unit > 0) || !std::isfinite(unit)) user_error("data.units has {}; a number above 0 was expected", unit);
    units_.push_back(static_cast<float>(unit));
  }
  if (options.pedestal != "none" && options.pedestal != "phi_median") {
    user_error("data.pedestal is \"{}\"; none or phi_median was expected", options.pedestal);
  }
  subtract_pedestal_ = options.pedestal == "phi_median";
  const bool clips = !options.clip.empty();
  if (clips && (options.clip.size() != 2 || !(options.clip[0] < options.clip[1]))) {
    user_error("data.clip takes a lowest and a highest value, found {}: {}",
               format_count(std::ssize(options.clip), "value"), fmt::join(options.clip, ", "));
  }
  lowest_ = clips ? static_cast<float>(options.clip[0]) : -std::numeric_limits<float>::infinity();
  highest_ = clips ? static_cast<float>(options.clip[1]) : std::numeric_limits<float>::infinity();
  if (options.scale != "none" && options.scale != "max") {
    user_error("data.normalise is \"{}\"; none or max was expected", options.scale);
  }
  maxima_.assign(static_cast<std::size_t>(channels_), 1.0F);
  scales_ = options.scale == "max";
  wants_maxima_ = scales_ && options.maxima.empty();
  if (scales_ && !wants_maxima_) {
    if (std::ssize(options.maxima) != channels_) {
      user_error("data.maxima has {} for {}", format_count(std::ssize(options.maxima), "number"),
                 format_count(channels_, "channel"));
    }
    for (const float maximum : options.maxima) {
      if (!(maximum > 0) || !std::isfinite(maximum))
        user_error("data.maxima has {}; a number above 0 was expected", maximum);
    }
    maxima_ = options.maxima;
  }
}

void HepData::weigh(const std::string& kind) {
  if (kind == "none") return;
  const bool norm = kind == "normweight";
  if (!norm && kind != "weight")
    user_error("data.loss_weight is \"{}\"; none, weight or normweight was expected", kind);
  const HepFile& file = index_.files.front();
  if (norm ? !file.has_norm_weights : !file.has_weights) user_error("{} has no {} for the loss", file.path, kind);
  const auto weight = [&](const HepEvent& event) { return norm ? event.loss_weight : event.weight; };
  std::array<double, 2> sum = {0, 0};
  for (const HepEvent& event : events()) {
    if (event.label >= 0) sum[static_cast<std::size_t>(event.label)] += weight(event);
  }
  for (std::size_t label = 0; label < 2; ++label) {
    if (class_counts_[label] > 0 && sum[label] <= 0) {
      user_error("{}: every {} of the {} events is 0", file.path, kind, kClassNames[label]);
    }
  }
  for (const HepEvent& event : events()) {
    const auto label = static_cast<std::size_t>(std::max(event.label, 0));
    const double mean = sum[label] / static_cast<double>(class_counts_[label]);
    loss_weights_.push_back(event.label < 0 ? 1.0F : static_cast<float>(weight(event) / mean));
  }
}

std::shared_ptr<const OpenHepFile> HepData::open(std::size_t file) const {
  return open_->get(static_cast<std::int64_t>(file), [&] { return open_planes(index_.files[file]); });
}

void HepData::load(SampleRange range) {
  constexpr std::int64_t kBlockBytes = std::int64_t{64} << 20;
  const std::int64_t elements = sample_elements();
  std::vector<float> raw;
  for (std::size_t f = 0; f < index_.files.size(); ++f) {
    const HepFile& file = index_.files[f];
    const std::int64_t end = std::min(file.count, range.last - file.first);
    std::int64_t block = std::max<std::int64_t>(1, kBlockBytes / (4 * file.raw_elements()));
    if (block > file.chunk_rows) block -= block % file.chunk_rows;
    for (std::int64_t from = std::max<std::int64_t>(0, range.first - file.first), n = 0; from < end; from += n) {
      n = std::min(block - from % block, end - from);  // blocks end where chunks end
      raw.resize(static_cast<std::size_t>(n * file.raw_elements()));
      read_raw(*open(f), from, n, raw);
      convert(file, from, n, raw,
              std::span(cache_).subspan(static_cast<std::size_t>((file.first + from) * elements),
                                        static_cast<std::size_t>(n * elements)));
    }
  }
  open_->clear();
}

void HepData::set_maxima(const std::vector<float>& maxima) {
  maxima_ = maxima;
  std::ranges::replace(maxima_, 0.0F, 1.0F);  // a channel without any signal stays 0
  wants_maxima_ = false;
}

std::vector<std::string> HepData::notes() const {
  std::vector<std::string> notes;
  const HepFile& file = index_.files.front();
  if (file.dims.size() == 4) {
    notes.push_back(fmt::format("{} {} is read as {}", file.planes.front(), dims_text(file.dims),
                                file.channels_last ? "(N, H, W, C)" : "(N, C, H, W)"));
  }
  if (scales_ && !wants_maxima_) {
    notes.push_back(fmt::format("pixels are divided by the largest of their channel: {:.4g} (data.normalise)",
                                fmt::join(maxima_, ", ")));
  }
  return notes;
}

void HepData::pedestals(const HepFile& file, std::int64_t event, const float* plane,
                        std::vector<float>& per_eta) const {
  const bool phi_is_column = file.phi_axis == ImageAxis::kW;
  const std::int64_t etas = phi_is_column ? file.height : file.width, phis = phi_is_column ? file.width : file.height;
  per_eta.assign(static_cast<std::size_t>(etas), 0.0F);
  if (!subtract_pedestal_) return;
  thread_local std::vector<float> ring;
  ring.resize(static_cast<std::size_t>(phis));
  const std::int64_t row_step = file.width * file.raw_step(), column_step = file.raw_step();
  for (std::int64_t eta = 0; eta < etas; ++eta) {
    for (std::int64_t phi = 0; phi < phis; ++phi) {
      const std::int64_t row = phi_is_column ? eta : phi, column = phi_is_column ? phi : eta;
      const float x = plane[row * row_step + column * column_step];
      if (!std::isfinite(x)) {
        refuse_pixel(file.path, event, x, fmt::format("row {}, column {}", row, column));
      }
      ring[static_cast<std::size_t>(phi)] = x;
    }
    const auto middle = ring.begin() + phis / 2;
    std::nth_element(ring.begin(), middle, ring.end());
    const float upper = *middle;
    const float lower = phis % 2 == 0 ? *std::max_element(ring.begin(), middle) : upper;
    per_eta[static_cast<std::size_t>(eta)] = 0.5F * (lower + upper);
  }
}

void HepData::convert(const HepFile& file, std::int64_t first, std::int64_t count, std::span<const float> raw,
                      std::span<float> pixels) const {
  const std::int64_t stored = file.channels, step = file.raw_step();
  const bool phi_is_column = file.phi_axis == ImageAxis::kW;
  std::vector<float> pedestal;
  for (std::int64_t event = 0; event < count; ++event) {
    for (std::int64_t c = 0; c < stored; ++c) {
      const float unit = units_[static_cast<std::size_t>(c)], inverse = 1.0F / unit;
      pedestals(file, first + event, raw.data() + file.raw_index(count, event, c, 0), pedestal);
      for (std::int64_t row = 0; row < height_; ++row) {
        const float* const from = raw.data() + file.raw_index(count, event, c, row);
        float* const to = pixels.data() + ((event * height_ + row) * width_) * channels_ + c;
        for (std::int64_t column = 0; column < width_; ++column) {
          const float x = from[column * step];
          if (!std::isfinite(x)) {
            refuse_pixel(file.path, first + event, x, fmt::format("channel {}, row {}, column {}", c, row, column));
          }
          const float signal = x - pedestal[static_cast<std::size_t>(phi_is_column ? row : column)];
          for (std::size_t t = 0; t < transforms_.size(); ++t) {
            float y = signal;
            if (transforms_[t] == Transform::kLinear) y = signal * inverse;
            if (transforms_[t] == Transform::kSignedLog) {
              y = std::copysign(std::log1p(std::abs(signal) * inverse), signal);
            }
            to[column * channels_ + static_cast<std::int64_t>(t) * stored] = std::clamp(y, lowest_, highest_);
          }
        }
      }
    }
  }
}

float HepData::read(std::int64_t index, const SampleBytes& sample) const {
  const auto pixels = numbers<float>(sample.input);
  const std::int64_t elements = sample_elements();
  PETAFLOW_REQUIRE(index >= 0 && index < size() && std::ssize(pixels) == elements, "sample {} of {}, {} floats of {}",
                   index, size(), pixels.size(), elements);
  const auto i = static_cast<std::size_t>(index);
  if (in_memory()) {
    std::copy_n(cache_.data() + index * elements, elements, pixels.data());
  } else {
    thread_local std::vector<float> raw;
    const HepEvent& event = events()[i];
    const auto f = static_cast<std::size_t>(event.file);
    const HepFile& file = index_.files[f];
    raw.resize(static_cast<std::size_t>(file.raw_elements()));
    read_raw(*open(f), event.index, 1, raw);
    convert(file, event.index, 1, raw, pixels);
  }
  for (std::size_t p = 0, c = 0; p < pixels.size(); ++p, c = c + 1 == maxima_.size() ? 0 : c + 1)
    pixels[p] /= maxima_[c];
  const std::int32_t label = events()[i].label;
  sample.target<std::int32_t>(0).front() = label;
  if (label < 0) return 0;
  return loss_weights_.empty() ? 1.0F : loss_weights_[i];
}

}  // namespace petaflow
