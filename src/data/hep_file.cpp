#include "data/hep_file.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "data/files.hpp"
#include "io/progress.hpp"

namespace petaflow {

namespace {

std::string detect_format(const Hdf5File& file, const HepFileOptions& options) {
  if (options.format != "auto") return options.format;
  if (file.has("all_events")) return "all_events";
  if (file.has("data") && file.has("label")) return "sc17";
  if (!options.dataset.empty()) return "class_files";
  if (file.integer_attribute("/", "petaflow_schema")) {
    user_error("{} is a checkpoint of a network, not data: evaluate and predict take it before the files of data",
               file.path());
  }
  user_error(
      "{} is in none of the known layouts (a group all_events, or data and label); it holds {}; for files of one class "
      "each name its data set of images in data.dataset",
      file.path(), file.contents());
}

/// The data set of pixels `name`, which must hold numbers and have one of the ranks.
Hdf5Dataset open_pixels(const Hdf5File& file, const std::string& name, int low_rank, int high_rank) {
  const Hdf5Dataset set = file.dataset(name);
  const Hdf5Info& info = set.info();
  const int rank = static_cast<int>(info.dims.size());
  if (!info.is_number() || rank < low_rank || rank > high_rank) {
    user_error("{}: data set {} is {}; numbers {} were expected", file.path(), name, info.text(),
               high_rank == 3  ? "(N, H, W)"
               : low_rank == 4 ? "(N, C, H, W) or (N, H, W, C)"
                               : "(N, H, W) or (N, C, H, W)");
  }
  if (std::ranges::count(info.dims, 0) > 0) {
    user_error("{}: data set {} {} is empty", file.path(), name, dims_text(info.dims));
  }
  return set;
}

std::int64_t rows_together(const Hdf5Info& info) { return info.chunk.empty() ? 1 : info.chunk[0]; }

/// Takes sizes from a data set that holds all channels: (N, H, W), or of rank 4 with the channels where the small
/// number is.
void take_stack(HepFile& file, const Hdf5Dataset& set) {
  constexpr std::int64_t kMostChannels = 16;
  const auto& dims = file.dims = set.info().dims;
  file.planes = {set.name()};
  file.chunk_rows = rows_together(set.info());
  file.count = dims[0];
  if (dims.size() == 3) {
    file.height = dims[1], file.width = dims[2];
    return;
  }
  const bool first = dims[1] <= kMostChannels && dims[1] < dims[3];
  file.channels_last = !first;
  file.stored_channels = first ? dims[1] : dims[3];
  file.height = first ? dims[2] : dims[1];
  file.width = first ? dims[3] : dims[2];
  if (file.stored_channels > kMostChannels) {
    user_error("{}: data set {} {} has no axis of at most {} channels", set.path(), set.name(), dims_text(dims),
               kMostChannels);
  }
}

/// Takes one data set (N, H, W) per channel.
void take_planes(HepFile& file, const Hdf5File& h5, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const Hdf5Dataset plane = open_pixels(h5, name, 3, 3);
    if (file.planes.empty()) {
      file.dims = plane.info().dims;
      file.chunk_rows = rows_together(plane.info());
    } else if (plane.info().dims != file.dims) {
      user_error("{}: data set {} is {}, {} is {}: channels must have one size", h5.path(), name,
                 dims_text(plane.info().dims), file.planes[0], dims_text(file.dims));
    }
    file.planes.push_back(name);
  }
  file.count = file.dims[0], file.height = file.dims[1], file.width = file.dims[2];
  file.stored_channels = static_cast<std::int64_t>(names.size());
}

/// The first of the names that the file has and that holds one number per event; empty where there is none.
std::vector<double> read_column(const Hdf5File& h5, const std::vector<std::string>& names, std::int64_t count) {
  for (const std::string& name : names) {
    if (!h5.has(name)) continue;
    const Hdf5Info info = h5.dataset(name).info();
    const bool column = info.dims.size() == 1 || (info.dims.size() == 2 && info.dims[1] == 1);
    if (!info.is_number() || !column || info.dims[0] != count) {
      user_error("{}: data set {} is {}; {} numbers, one per event, were expected", h5.path(), name, info.text(),
                 count);
    }
    return h5.read<double>(name);
  }
  return {};
}

/// Names of the columns beside the pixels; the first that exists is taken.
struct Columns {
  std::vector<std::string> label, weight, norm_weight, sr, sr4j, sr5j;
};

Columns columns_of(const std::string& format, const std::string& suffix) {
  if (format == "sc17") return {{"label"}, {"weight"}, {"normweight"}, {"psr"}, {}, {}};
  if (format == "class_files") return {};
  const std::string group = "all_events/";
  return {{group + "y" + suffix, group + "labels" + suffix},
          {group + "weight" + suffix, group + "weights" + suffix},
          {group + "normalized_weight" + suffix},
          {group + "passSR" + suffix},
          {group + "passSR4J" + suffix},
          {group + "passSR5J" + suffix}};
}

void take_pixels(HepFile& file, const Hdf5File& h5, const HepFileOptions& options) {
  if (file.format == "sc17") {
    take_stack(file, open_pixels(h5, "data", 4, 4));
    file.phi_axis = ImageAxis::kH;
  } else if (file.format == "class_files") {
    if (options.dataset.empty())
      user_error("data.format = \"class_files\" needs the name of the data set that holds the images, data.dataset");
    take_stack(file, open_pixels(h5, options.dataset, 3, 4));
  } else if (file.format == "all_events") {
    const std::string images = "all_events/images" + options.suffix;
    if (h5.has(images)) {
      take_stack(file, open_pixels(h5, images, 4, 4));
    } else {
      std::vector<std::string> names;
      for (const std::string& name : options.channel_names) names.push_back("all_events/" + name + options.suffix);
      if (options.channels > 0 && options.channels < std::ssize(names))
        names.resize(static_cast<std::size_t>(options.channels));
      if (options.channels == 0 || options.fewer_channels) {  // the first one must be there, the others may
        while (names.size() > 1 && !h5.has(names.back())) names.pop_back();
      }
      if (!h5.has(names.front())) {
        user_error(
            "{} has neither {} nor {}; it holds {}; data.channel_names and data.suffix say which data sets hold "
            "the images",
            file.path, images, names.front(), h5.contents());
      }
      take_planes(file, h5, names);
    }
  } else {
    user_error("data.format is \"{}\"; auto, all_events, sc17 or class_files was expected", file.format);
  }
  file.channels = options.channels == 0 ? file.stored_channels : options.channels;
  if (options.fewer_channels) file.channels = std::min(file.channels, file.stored_channels);
  if (file.channels > file.stored_channels) {
    user_error("{} has {}; data.channels is {}", file.path, format_count(file.stored_channels, "channel"),
               file.channels);
  }
}

/// The class that a file's name says: 1, 0, or -1.
std::int32_t class_of_name(const std::string& path, const HepFileOptions& options, bool needed) {
  const bool signal = !options.signal.empty() && name_matches(options.signal, path);
  const bool background = !options.background.empty() && name_matches(options.background, path);
  if (signal && background) {
    user_error("the name of {} matches both signal \"{}\" and background \"{}\"", path, options.signal,
               options.background);
  }
  if (!signal && !background && needed) {
    user_error("the name of {} matches neither signal \"{}\" nor background \"{}\"", path, options.signal,
               options.background);
  }
  return signal ? 1 : background ? 0 : -1;
}

void check_weight(double weight, const HepFile& file, const std::string& name, std::int64_t event) {
  if (!std::isfinite(weight) || weight < 0) {
    user_error("{}: {} of event {} is {}; a number of at least 0 was expected", file.path, name, event, weight);
  }
}

}  // namespace

OpenHepFile open_planes(const HepFile& file) {
  const Hdf5File h5 = Hdf5File::open(file.path);
  OpenHepFile planes;
  for (const std::string& name : file.planes) {
    planes.push_back(h5.dataset(name));
    const Hdf5Info& info = planes.back().info();
    if (!info.is_number() || info.dims != file.dims) {
      user_error("{} has changed: its data set {} is {} now, it was {} when the run began", file.path, name,
                 info.text(), dims_text(file.dims));
    }
  }
  return planes;
}

void read_raw(const OpenHepFile& planes, std::int64_t from, std::int64_t n, std::span<float> raw) {
  const std::size_t size = raw.size() / planes.size();
  for (std::size_t i = 0; i < planes.size(); ++i) planes[i].read(from, n, raw.subspan(i * size, size));
}

std::int64_t HepFile::raw_index(std::int64_t n, std::int64_t event, std::int64_t channel, std::int64_t row) const {
  if (channels_last) return ((event * height + row) * width) * stored_channels + channel;
  if (planes.size() > 1) return ((channel * n + event) * height + row) * width;
  return ((event * stored_channels + channel) * height + row) * width;
}

HepFile scan_hep_file(const std::string& path, const HepFileOptions& options, bool labels_needed,
                      std::vector<HepEvent>& events) {
  const Hdf5File h5 = Hdf5File::open(path);
  HepFile file;
  file.path = path;
  file.format = detect_format(h5, options);
  take_pixels(file, h5, options);

  const Columns names = columns_of(file.format, options.suffix);
  const auto labels = read_column(h5, names.label, file.count), weights = read_column(h5, names.weight, file.count),
             norm_weights = read_column(h5, names.norm_weight, file.count), sr = read_column(h5, names.sr, file.count),
             sr4j = read_column(h5, names.sr4j, file.count), sr5j = read_column(h5, names.sr5j, file.count);
  const bool by_name = file.format == "class_files";
  const std::int32_t name_class = by_name ? class_of_name(path, options, labels_needed) : -1;
  file.has_labels = by_name ? name_class >= 0 : !labels.empty();
  file.has_weights = !weights.empty();
  file.has_norm_weights = !norm_weights.empty();
  file.has_selection = !sr.empty();
  if (labels_needed && !file.has_labels) {
    user_error("{} has no labels: data set {} (1 signal, 0 background, one number per event); it holds {}", path,
               fmt::join(names.label, " or "), h5.contents());
  }

  const auto passed = [](const std::vector<double>& flags, std::size_t i) { return !flags.empty() && flags[i] != 0; };
  for (std::size_t i = 0; i < static_cast<std::size_t>(file.count); ++i) {
    HepEvent event;
    event.index = static_cast<std::int64_t>(i);
    event.label = name_class;
    if (!labels.empty()) {
      if (labels[i] != 0 && labels[i] != 1) {
        user_error("{}: label of event {} is {}; 0 or 1 was expected", path, i, labels[i]);
      }
      event.label = labels[i] == 1 ? 1 : 0;
    }
    if (file.has_weights) check_weight(event.weight = weights[i], file, "weight", event.index);
    event.loss_weight = event.weight;
    if (file.has_norm_weights)
      check_weight(event.loss_weight = norm_weights[i], file, "normalised weight", event.index);
    event.pass_sr = passed(sr, i), event.pass_sr4j = passed(sr4j, i), event.pass_sr5j = passed(sr5j, i);
    events.push_back(event);
  }
  return file;
}

}  // namespace petaflow
