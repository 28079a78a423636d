#include "hep/generate.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/ranges.h>
#include <Kokkos_Core.hpp>

#include "base/error.hpp"
#include "io/hdf5.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "measure/rates.hpp"
#include "program/generated_files.hpp"
#include "train/stop_request.hpp"

namespace petaflow::hep {
namespace {

constexpr std::array<const char*, 3> kChannelNames = {"hist", "histEM", "histtrack"};

/// One number per event, whole file.
struct Columns {
  std::vector<std::size_t> sample;
  std::vector<std::uint64_t> tries;
  std::vector<double> weight, ht;
  std::vector<std::int32_t> y, jets, sr4j, sr5j, sr;

  explicit Columns(std::size_t n) : sample(n), tries(n), weight(n), ht(n), y(n), jets(n), sr4j(n), sr5j(n), sr(n) {}

  void set(std::size_t i, const Event& event) {
    sample[i] = event.sample;
    tries[i] = event.tries;
    weight[i] = event.weight;
    ht[i] = event.ht_gev;
    y[i] = event.y;
    jets[i] = static_cast<std::int32_t>(event.fat_jets.size());
    sr4j[i] = event.selection.four_jets ? 1 : 0;
    sr5j[i] = event.selection.five_jets ? 1 : 0;
    sr[i] = event.selection.passed() ? 1 : 0;
  }
};

template <class T>
void write_column(Hdf5File& file, const std::string& name, const std::vector<T>& values, Hdf5Type type) {
  file.write<T>("all_events/" + name, {static_cast<std::int64_t>(values.size())}, values, {type});
}

void write_columns(Hdf5File& file, Columns& columns) {
  normalise_weights(columns.sample, columns.tries, columns.weight);
  const double largest = *std::max_element(columns.weight.begin(), columns.weight.end());
  std::vector<double> normalised = columns.weight;
  for (double& weight : normalised) weight /= largest;
  write_column(file, "y", columns.y, Hdf5Type::kI32);
  write_column(file, "weight", columns.weight, Hdf5Type::kF64);
  write_column(file, "normalized_weight", normalised, Hdf5Type::kF64);
  write_column(file, "passSR4J", columns.sr4j, Hdf5Type::kU8);
  write_column(file, "passSR5J", columns.sr5j, Hdf5Type::kU8);
  write_column(file, "passSR", columns.sr, Hdf5Type::kU8);
  write_column(file, "numJet", columns.jets, Hdf5Type::kI32);
  write_column(file, "HT", columns.ht, Hdf5Type::kF64);
}

void write_file(Hdf5File& file, const std::string& title, const GeneratorOptions& options, std::uint64_t seed,
                std::int64_t first, int gzip, Columns& columns) {
  const auto size = static_cast<std::int64_t>(options.image_size);
  const auto count = static_cast<std::int64_t>(columns.y.size());
  file.create_group("all_events");
  Hdf5Storage storage{Hdf5Type::kF32};
  if (gzip > 0) storage = {Hdf5Type::kF32, {1, size, size}, gzip};
  const std::vector<std::int64_t> dims = {count, size, size};
  const Hdf5Dataset hist = file.create_dataset("all_events/hist", dims, storage);
  const Hdf5Dataset hist_em = file.create_dataset("all_events/histEM", dims, storage);
  const Hdf5Dataset hist_track = file.create_dataset("all_events/histtrack", dims, storage);

  ProgressOptions progress_options;
  progress_options.title = title;
  progress_options.total = count;
  progress_options.interval = std::max<std::int64_t>(1, count / 4);
  progress_options.step = "event";
  progress_options.unit = "events";
  Progress progress(progress_options);
  constexpr std::int64_t kBlock = 256;  // events in memory
  const auto pixels = static_cast<std::size_t>(size * size);
  std::vector<float> images(3 * kBlock * pixels);
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    if (stop_request() != StopRequest::kNone) failure("stopped by a signal; {} was not written", title);
    const std::int64_t n = std::min(kBlock, count - begin);
    float* const planes[3] = {images.data(), images.data() + kBlock * pixels, images.data() + 2 * kBlock * pixels};
    using Policy = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::Schedule<Kokkos::Dynamic>>;
    Kokkos::parallel_for("petaflow::hep::generate", Policy(0, n, Kokkos::ChunkSize(1)), [&](std::int64_t i) {
      const auto number = static_cast<std::uint64_t>(first + begin + i);
      const Event event = generate_event(options, draw_label(options, seed, number), seed, number);
      columns.set(static_cast<std::size_t>(begin + i), event);
      std::copy(event.hist.begin(), event.hist.end(), planes[0] + static_cast<std::size_t>(i) * pixels);
      std::copy(event.hist_em.begin(), event.hist_em.end(), planes[1] + static_cast<std::size_t>(i) * pixels);
      std::copy(event.hist_track.begin(), event.hist_track.end(), planes[2] + static_cast<std::size_t>(i) * pixels);
    });
    const std::size_t used = static_cast<std::size_t>(n) * pixels;
    hist.write<float>(begin, n, std::span<const float>(planes[0], used));
    hist_em.write<float>(begin, n, std::span<const float>(planes[1], used));
    hist_track.write<float>(begin, n, std::span<const float>(planes[2], used));
    progress.update(begin + n, begin + n);
  }
  write_columns(file, columns);
}

/// Refuses options of [data] with which the files that are to be written could not be read.
void check_readable(const FileOptions& data) {
  const HepFileOptions& file = data.options.file;
  if (data.channels > std::ssize(kChannelNames)) {
    user_error("generate writes {} channels ({}), data.channels is {}; set it to {} or less", kChannelNames.size(),
               fmt::join(kChannelNames, ", "), data.channels, kChannelNames.size());
  }
  if (file.format != "auto" && file.format != "all_events") {
    user_error("generate writes the layout all_events, data.format is \"{}\"; set it to \"all_events\" or \"auto\"",
               file.format);
  }
  if (!file.suffix.empty()) {
    user_error("generate writes data sets without a suffix, data.suffix is \"{}\"; set it to \"\"", file.suffix);
  }
  const auto used = std::min(file.channel_names.size(), static_cast<std::size_t>(data.channels));
  if (!std::equal(file.channel_names.begin(), file.channel_names.begin() + static_cast<std::ptrdiff_t>(used),
                  kChannelNames.begin())) {
    user_error("generate writes the channels {}, data.channel_names has {}; leave that at its default",
               fmt::join(kChannelNames, ", "), fmt::join(file.channel_names, ", "));
  }
}

}  // namespace

EventCounts write_events(const std::string& path, const GeneratorOptions& options, std::uint64_t seed,
                         std::int64_t first, std::int64_t count, int gzip) {
  check(options);
  Columns columns(static_cast<std::size_t>(count));
  write_hdf5_atomically(path, [&](Hdf5File& file) { write_file(file, path, options, seed, first, gzip, columns); });
  EventCounts result;
  for (std::size_t i = 0; i < columns.y.size(); ++i) {
    result.signal += columns.y[i];
    (columns.y[i] == 1 ? result.selected_signal : result.selected_background) += columns.sr[i];
  }
  return result;
}

void write_sets(const DataOptions& data, const Options& options, bool overwrite) {
  const GenerateOptions& own = options.generate;
  GeneratorOptions generator = options.generator;
  check_readable(options.data);
  if (options.data.height != options.data.width) {
    user_error("generate makes square images: data.height is {}, data.width {}", options.data.height,
               options.data.width);
  }
  generator.image_size = static_cast<std::size_t>(options.data.height);
  const auto files = plan_generated_files(data, {own.train, own.validation, own.test}, overwrite);
  const std::size_t bytes = 3 * sizeof(float) * generator.image_size * generator.image_size;  // of three images
  for (const GeneratedFile& file : files) {
    log_info("to be written: {}, {}, {}{}", file.path, format_count(file.count, "event"),
             format_bytes(static_cast<std::size_t>(file.count) * bytes), own.gzip > 0 ? " before compression" : "");
  }
  for (const GeneratedFile& file : files) {
    const EventCounts counts = write_events(file.path, generator, static_cast<std::uint64_t>(own.seed), file.first,
                                            file.count, static_cast<int>(own.gzip));
    log_info("{}: {} events, {} of them signal; the cuts pass {} background and {} signal events", file.path,
             file.count, counts.signal, counts.selected_background, counts.selected_signal);
  }
}

}  // namespace petaflow::hep
