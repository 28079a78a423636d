#include "data/cosmo.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <type_traits>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "data/cosmo_labels.hpp"
#include "data/files.hpp"
#include "io/gzip.hpp"
#include "io/npy.hpp"
#include "io/progress.hpp"
#include "io/tf_example.hpp"
#include "io/tfrecord.hpp"

namespace petaflow {
namespace {

constexpr std::string_view kNpyData = "_data.npy";

/// Names of the cube and of its labels: in HDF5 files, in records.
struct Names {
  const char *cube, *labels;
};
Names names_in(const std::string& format) { return format == "universe" ? Names{"full", "unitPar"} : Names{"x", "y"}; }

std::string labels_of_npy(const std::string& path) {
  return path.substr(0, path.size() - kNpyData.size()) + "_label.npy";
}

/// The format that the contents of a file show; empty where they show none.
std::string format_of_contents(const std::string& path) {
  if (is_hdf5(path)) return Hdf5File::open(path).has(names_in("universe").cube) ? "universe" : "hdf5";
  std::string start(kTfRecordHead, '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), std::ssize(start));
  if (start.starts_with("\x93NUMPY")) return "npy";
  return start.starts_with("\x1f\x8b") || starts_tfrecord(start) ? "tfrecord" : "";
}

std::string find_format(const std::string& path) {
  if (std::string shown = format_of_contents(path); !shown.empty()) return shown;
  const std::string extension = std::filesystem::path(path).extension().string();
  if (extension == ".npy") return "npy";
  return extension == ".h5" || extension == ".hdf5" ? "hdf5" : "tfrecord";
}

/// For a file that could not be read: says so where it has another format than that of the data set.
void refuse_other_format(const std::string& path, const CosmoDataOptions& options, const CosmoIndex& index) {
  const std::string shown = format_of_contents(path);
  if (shown.empty() || shown == index.format) return;
  const std::string asked = options.format == "auto"
                                ? fmt::format("{} is of \"{}\", and the files of a data set must be of one format",
                                              index.files.front(), index.format)
                                : fmt::format("data.format is \"{}\"", index.format);
  user_error("{} is {}, to be read with data.format = \"{}\"; {}", path,
             shown == "npy"        ? "a file of NumPy"
             : shown == "tfrecord" ? "a file of records"
                                   : "an HDF5 file",
             shown, asked);
}

/// Edge and channels of the cube in a file; checks that it is one.
void set_size(CosmoIndex& index, const std::string& path, const std::vector<std::int64_t>& dims) {
  if (dims.size() != 4 || dims[0] < 1 || dims[0] != dims[1] || dims[1] != dims[2] || dims[3] < 1) {
    user_error("{}: the counts are {}; a cube with channels last was expected, such as (128, 128, 128, 4)", path,
               dims_text(dims));
  }
  index.edge = dims[0];
  index.channels = dims[3];
}

/// The features of the record of a file.
class Record {
 public:
  explicit Record(const std::string& path) : where_(path + ": record 0") {
    bytes_ = read_inflated(path, where_);
    const auto records = tfrecords_in(bytes_, path);
    if (records.size() != 1) user_error("{} holds {} records; one cube per file was expected", path, records.size());
    features_ = parse_tf_example(records.front(), where_);
  }

  /// The bytes of x.
  std::string_view cube() const {
    const TfFeature& x = feature("x");
    if (x.bytes.size() != 1) {
      user_error("{}: feature x has {} strings of bytes; one, of 16-bit integers, was expected", where_,
                 x.bytes.size());
    }
    return x.bytes.front();
  }
  std::vector<float> labels(bool optional) const {
    if (optional && !features_.contains("y")) return {};
    const TfFeature& y = feature("y");
    if (y.floats.empty()) user_error("{}: feature y has no numbers of 32 bits; the labels were expected", where_);
    return y.floats;
  }
  const std::string& where() const { return where_; }

 private:
  const TfFeature& feature(const char* name) const {
    if (const auto found = features_.find(name); found != features_.end()) return found->second;
    std::string names;
    for (const auto& [other, feature] : features_) names += (names.empty() ? "" : ", ") + other;
    user_error("{} has no feature {}; it holds {}", where_, name, names.empty() ? "none" : names);
  }

  std::string where_;
  std::string bytes_;
  std::map<std::string, TfFeature, std::less<>> features_;
};

/// A record does not say its shape: the counts of a cube with these channels.
std::int64_t edge_of_record(const Record& record, std::int64_t channels) {
  const auto bytes = static_cast<std::int64_t>(record.cube().size());
  const std::int64_t pixels = bytes / (2 * channels);
  const auto edge = static_cast<std::int64_t>(std::llround(std::cbrt(static_cast<double>(pixels))));
  if (2 * channels * edge * edge * edge != bytes || edge == 0) {
    user_error("{}: feature x has {} bytes, which is no cube of 16-bit integers with {} channels", record.where(),
               bytes, channels);
  }
  return edge;
}

/// Looks into the first file.
void find_size(CosmoIndex& index, const CosmoDataOptions& options) {
  constexpr std::int64_t kRecordChannels = 4;  // redshifts 0, 0.5, 1.5, 3
  const std::string& first = index.files.front();
  if (index.format == "tfrecord") {
    index.channels = kRecordChannels;
    index.edge = edge_of_record(Record(first), index.channels);
  } else if (index.format == "npy") {
    set_size(index, first, NpyFile(first).dims());
  } else {
    const Hdf5File file = Hdf5File::open(first);
    const Names names = names_in(index.format);
    set_size(index, first, file.dataset(names.cube).info().dims);
    index.note = unusual_order(file, options);
    CosmoDataOptions strict = options;
    strict.as_it_is = false;
    try {
      read_cosmo_labels(file, names.labels, strict);
    } catch (const Error& error) {
      if (!options.as_it_is) throw;
      index.note += fmt::format("{}to train on them: {}", index.note.empty() ? "" : "\n", error.what());
    }
  }
}

}  // namespace

CosmoIndex scan_cosmo(const CosmoDataOptions& options, const std::vector<std::string>& files) {
  if (std::filesystem::is_directory(files.front())) {
    user_error("{} is a folder; name the files in it, such as {}", files.front(),
               (std::filesystem::path(files.front()) / "*").string());
  }
  CosmoIndex index;
  index.files = files;
  index.format = options.format == "auto" ? find_format(files.front()) : options.format;
  if (index.format == "npy") {
    std::erase_if(index.files, [](const std::string& file) { return file.ends_with("_label.npy"); });
    for (const std::string& file : index.files) {
      if (file.ends_with(kNpyData)) continue;
      refuse_other_format(file, options, index);
      user_error("{}: the names of files with counts end with {}", file, kNpyData);
    }
    if (index.files.empty()) user_error("{}: no file with counts (*{}) is among the files", files.front(), kNpyData);
  }
  try {
    find_size(index, options);
  } catch (const Error&) {
    refuse_other_format(index.files.front(), options, index);
    throw;
  }
  return index;
}

CosmoData::CosmoData(const CosmoDataOptions& given, CosmoIndex index) : options_(given), index_(std::move(index)) {
  CosmoDataOptions& options = options_;
  if (options.as_it_is && index_.edge % options.edge != 0) options.edge = index_.edge;
  if (options.as_it_is) options.channels = std::min(options.channels, index_.channels);
  cuts_ = index_.edge / options.edge;
  constexpr std::size_t kOpenFiles = 64;
  open_ = std::make_unique<RecentlyUsed<OpenHdf5>>(kOpenFiles);
  const std::string& first = index_.files.front();
  if (index_.edge % options.edge != 0) {
    user_error("{}: cubes of edge {} cannot be cut into cubes of edge {} (data.edge); data.edge = {} takes them whole",
               first, index_.edge, options.edge, index_.edge);
  }
  if (index_.channels < options.channels) {
    user_error("{}: the cubes have {}; data.channels is {}", first, format_count(index_.channels, "channel"),
               options.channels);
  }
}

void CosmoData::read_stored(std::size_t file, const Box& box, std::span<std::int16_t> counts,
                            std::vector<float>& labels) const {
  const std::string& path = index_.files[file];
  const std::vector<std::int64_t> whole = {index_.edge, index_.edge, index_.edge, index_.channels};
  const auto expect = [&](const std::vector<std::int64_t>& dims) {
    if (dims != whole) {
      user_error("{}: the counts are {}; they are {} in {}", path, dims_text(dims), dims_text(whole),
                 index_.files.front());
    }
  };
  const std::vector<std::int64_t> first = {box.corner[0], box.corner[1], box.corner[2], 0};
  const std::vector<std::int64_t> count = {box.edge, box.edge, box.edge, index_.channels};
  if (index_.format == "npy") {
    const NpyFile data(path);
    expect(data.dims());
    data.read_box(first, count, counts);
    const std::string label_path = labels_of_npy(path);
    if (!std::filesystem::exists(label_path)) {
      if (options_.labels_optional) return labels.clear();
      user_error("{} has no labels: they were expected in {}", path, label_path);
    }
    labels = NpyFile(label_path).read_floats();
    return;
  }
  if (index_.format != "tfrecord") {
    const auto open = open_->get(static_cast<std::int64_t>(file), [&] {
      const Hdf5File hdf5 = Hdf5File::open(path);
      const Names names = names_in(index_.format);
      return OpenHdf5{hdf5.dataset(names.cube), read_cosmo_labels(hdf5, names.labels, options_)};
    });
    expect(open->cube.info().dims);
    open->cube.read_box(first, count, counts);
    labels = open->labels;
    return;
  }
  static_assert(std::endian::native == std::endian::little);
  const Record record(path);
  const std::int64_t edge = edge_of_record(record, index_.channels);
  expect({edge, edge, edge, index_.channels});
  const std::string_view cube = record.cube();
  const std::int64_t run = box.edge * index_.channels;
  std::int16_t* to = counts.data();
  for (std::int64_t d = 0; d < box.edge; ++d) {
    for (std::int64_t h = 0; h < box.edge; ++h, to += run) {
      const std::int64_t row = (box.corner[0] + d) * edge + box.corner[1] + h;
      const std::int64_t from = (row * edge + box.corner[2]) * index_.channels;
      std::memcpy(to, cube.data() + 2 * from, static_cast<std::size_t>(2 * run));
    }
  }
  labels = record.labels(options_.labels_optional);
}

float CosmoData::read(std::int64_t index, const SampleBytes& sample) const {
  const auto targets = sample.target<float>(0);
  PETAFLOW_REQUIRE(index >= 0 && index < size() && sample.input.size() == sample_bytes() &&
                       targets.size() == options_.parameters.size(),
                   "sample {} of {}, {} bytes, {} targets", index, size(), sample.input.size(), targets.size());
  thread_local std::vector<std::int16_t> stored;
  thread_local std::vector<float> labels;
  const auto file = static_cast<std::size_t>(index / cubes_per_file());
  const std::int64_t cube = index % cubes_per_file(), edge = options_.edge;
  const Box box{{cube / (cuts_ * cuts_) * edge, cube / cuts_ % cuts_ * edge, cube % cuts_ * edge}, edge};
  const auto counts = numbers<std::int16_t>(sample.input);
  const auto taken = static_cast<std::size_t>(options_.channels), there = static_cast<std::size_t>(index_.channels);
  const std::string& path = index_.files[file];
  if (taken != there) stored.resize(static_cast<std::size_t>(edge * edge * edge * index_.channels));
  try {
    read_stored(file, box, taken == there ? counts : std::span(stored), labels);
  } catch (const Error&) {
    refuse_other_format(path, options_, index_);
    throw;
  }
  if (taken != there) {
    for (std::size_t to = 0, from = 0; to < counts.size(); to += taken, from += there) {
      std::copy_n(&stored[from], taken, &counts[to]);
    }
  }
  if (const std::int16_t smallest = std::ranges::min(counts); smallest < 0) {
    const std::array<std::int64_t, 4> first = {box.corner[0], box.corner[1], box.corner[2], 0},
                                      count = {edge, edge, edge, options_.channels};
    user_error("{}: the count at {} is {}; counts of particles are not negative", path,
               place_text(first, count, std::ranges::find(counts, smallest) - counts.begin()), smallest);
  }

  if (labels.empty() && options_.labels_optional) {
    std::ranges::fill(targets, std::numeric_limits<float>::quiet_NaN());
    return 0;
  }
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const auto place = static_cast<std::size_t>(options_.parameters[t]);
    targets[t] = place < labels.size() ? labels[place] : std::numeric_limits<float>::quiet_NaN();
    constexpr float kEnd = 1.01F;  // scaled in single precision, from parameters with few digits
    if (!(std::abs(targets[t]) <= kEnd)) refuse_label(path, place, labels);
  }
  return 1;
}

std::vector<std::string> CosmoData::notes() const {
  std::vector<std::string> notes;
  if (cuts_ > 1) {
    notes.push_back(fmt::format("the cubes of edge {} in the files are cut into {} of edge {} each (data.edge)",
                                index_.edge, cubes_per_file(), options_.edge));
  }
  std::vector<std::string> ranges;
  for (const std::int64_t position : options_.parameters) {
    const auto i = static_cast<std::size_t>(position);
    if (i >= options_.ranges.size()) continue;
    const LabelRange& range = options_.ranges[i];
    ranges.push_back(fmt::format("{} in [{}, {}] ({})", range.name, range.low, range.high, range.key));
  }
  if (!ranges.empty()) notes.push_back(fmt::format("labels from -1 to 1 stand for {}", fmt::join(ranges, ", ")));
  if (!index_.note.empty()) notes.push_back(index_.note);
  return notes;
}

std::vector<std::string> CosmoData::names(std::size_t /*target*/) const {
  std::vector<std::string> names;
  for (const std::int64_t position : options_.parameters) {
    const auto i = static_cast<std::size_t>(position);
    names.push_back(i < options_.ranges.size() ? options_.ranges[i].name : std::to_string(i + 1));
  }
  return names;
}

void CosmoData::refuse_label(const std::string& path, std::size_t place, const std::vector<float>& labels) const {
  const std::string file = index_.format == "npy" ? labels_of_npy(path) : path;
  const bool named = place < options_.ranges.size();
  const std::string label = named ? "of " + options_.ranges[place].name : std::to_string(place + 1);
  if (place >= labels.size()) {
    user_error("{}: {} labels; {} {} is asked for", file, labels.size(), named ? "that" : "label", label);
  }
  user_error("{}: {} {} is {}; parameters scaled to [-1, 1] were expected{}", file, named ? "the label" : "label",
             label, labels[place],
             named ? fmt::format(" ({} says which values -1 and 1 stand for)", options_.ranges[place].key) : "");
}

std::vector<std::int64_t> CosmoData::universes() const {
  std::map<std::string, std::int64_t> numbers;
  std::vector<std::int64_t> universes;
  for (const std::string& file : index_.files) {
    std::filesystem::path path = file;
    if (path.extension() == ".gz") path.replace_extension();
    std::string name = path.replace_extension().string();
    if (index_.format == "npy") name.resize(file.size() - kNpyData.size());
    if (const std::size_t end = name.find_last_not_of("0123456789");
        index_.format != "universe" && end > 0 && end + 1 < name.size() && name[end] == '_' &&
        std::isdigit(static_cast<unsigned char>(name[end - 1])) != 0) {
      name.resize(end);
    }
    const std::int64_t number = numbers.try_emplace(name, std::ssize(numbers)).first->second;
    universes.insert(universes.end(), static_cast<std::size_t>(cubes_per_file()), number);
  }
  return universes;
}

void refuse_failed_conversion(const CosmoDataOptions& options, const CosmoIndex& index, bool to_learn_from) {
  constexpr std::int64_t kMost = 4;
  const CosmoData data(options, index);
  const std::vector<std::int64_t> universes = data.universes();
  const SampleStorage sample(data);
  const std::int64_t looked_at = std::min(data.size(), kMost);
  std::vector<float> labels;
  bool counts = false, others = false, universe_changes = false;
  std::size_t before = 0;
  for (std::int64_t i = 0; i < looked_at; ++i) {
    const auto at = static_cast<std::size_t>(data.size() * i / looked_at);
    data.read(static_cast<std::int64_t>(at), sample.bytes());
    const auto targets = sample.bytes().target<float>(0);
    if (i == 0) labels.assign(targets.begin(), targets.end());
    others = others || !std::ranges::equal(targets, labels);
    universe_changes = universe_changes || (i > 0 && universes[at] != universes[before]);
    counts = counts || std::ranges::any_of(sample.input<std::int16_t>(), [](std::int16_t count) { return count > 0; });
    before = at;
  }
  const std::string which = fmt::format("({} of {} looked at)", looked_at, data.size());
  if (!counts) user_error("{}: the counts are zero everywhere {}", index.files.front(), which);
  if (to_learn_from && universe_changes && !others) {
    user_error("{}: all samples have the same labels {}: nothing can be learnt", index.files.front(), which);
  }
}

CubeSymmetry::CubeSymmetry(const std::array<std::int64_t, 4>& dims) : edge_(dims[1]), channels_(dims[0]) {
  if (dims[1] != dims[2] || dims[2] != dims[3])
    user_error("samples of {} x {} x {} are no cubes", dims[1], dims[2], dims[3]);
}

void CubeSymmetry::operator()(const SampleBytes& sample, RandomSequence& random) const {
  constexpr std::array<std::array<std::size_t, 3>, 6> kOrders = {
      {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}};
  const std::uint32_t symmetry = random.below(48);
  const auto& order = kOrders[symmetry / 8];
  const std::array<std::int64_t, 3> steps = {edge_ * edge_ * channels_, edge_ * channels_, channels_};
  std::array<std::int64_t, 3> step{};  // in the old cube, along each axis of the new one
  std::int64_t start = 0;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const bool mirrored = (symmetry >> axis & 1U) != 0;
    step[axis] = mirrored ? -steps[order[axis]] : steps[order[axis]];
    if (mirrored) start += (edge_ - 1) * steps[order[axis]];
  }
  thread_local std::vector<std::int16_t> old;
  const auto counts = numbers<std::int16_t>(sample.input);
  old.assign(counts.begin(), counts.end());
  const auto copy = [&](auto channels) {  // known to the compiler where it matters: a pixel is one load and one store
    std::int16_t* to = counts.data();
    for (std::int64_t d = 0; d < edge_; ++d) {
      for (std::int64_t h = 0; h < edge_; ++h) {
        const std::int16_t* from = old.data() + start + d * step[0] + h * step[1];
        for (std::int64_t w = 0; w < edge_; ++w, from += step[2], to += channels) std::copy_n(from, +channels, to);
      }
    }
  };
  if (channels_ == 1) {
    copy(std::integral_constant<std::int64_t, 1>());
  } else if (channels_ == 4) {
    copy(std::integral_constant<std::int64_t, 4>());
  } else {
    copy(channels_);
  }
}

}  // namespace petaflow
