#include "cosmoflow/generate.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "base/build_info.hpp"
#include "base/error.hpp"
#include "comm/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/gzip.hpp"
#include "io/hdf5.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "io/tf_example.hpp"
#include "io/tfrecord.hpp"
#include "io/write_lock.hpp"
#include "measure/rates.hpp"
#include "nn/parallel.hpp"
#include "train/stop_request.hpp"

namespace petaflow::cosmoflow {
namespace fs = std::filesystem;
namespace {

/// A set's universes, [first, first + count).
struct UniverseSet {
  fs::path folder;
  std::int64_t first, count;
};

std::array<UniverseSet, 3> sets_of(const GeneratorOptions& options) {
  const fs::path folder = options.folder;
  return {{{folder / "train", 0, options.train},
           {folder / "validation", options.train, options.validation},
           {folder / "test", options.train + options.validation, options.test}}};
}

std::int64_t parts_of(const GeneratorOptions& options) { return options.cuts * options.cuts * options.cuts; }

/// How the names of a seed's samples begin.
std::string name_begin(const GeneratorOptions& options) { return fmt::format("{}_univ_ics_2lpt_a", options.seed); }

void check(const GeneratorOptions& options) {
  check(options.universe);
  check(options.ranges);
  if (options.universe.particles % options.cuts != 0) {
    user_error("generate.cuts is {}; it must divide generate.particles, {}", options.cuts, options.universe.particles);
  }
  if (options.train + options.validation + options.test == 0) {
    user_error("generate.train, generate.validation and generate.test are 0: nothing is to be generated");
  }
  if (options.folder.empty()) user_error("generate.folder is empty; name a folder to write to");
}

/// Refuses samples in the set's folder that would mix with those to be written.
void check_folder(const GeneratorOptions& options, const UniverseSet& set, bool overwrite) {
  check_parent((set.folder / "x").string());
  if (!fs::exists(set.folder)) return;
  if (!fs::is_directory(set.folder)) user_error("{} is no folder; move it away", set.folder.string());
  std::set<std::string> names;
  for (std::int64_t i = 0; i < set.count; ++i) {
    for (std::int64_t part = 0; part < parts_of(options); ++part) {
      names.insert(sample_name(options, set.first + i, part));
    }
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(set.folder)) {
    const fs::path& path = entry.path();
    if (set.count == 0) {
      if (path.filename().string().starts_with(name_begin(options))) {
        user_error(
            "{} may be of one of the universes to be written, and sets must share none; make all sets in one go, or "
            "choose another generate.folder or generate.seed",
            path.string());
      }
    } else if (names.contains(path.filename().string())) {
      if (!overwrite) {
        user_error("{} exists; name another generate.folder, or --overwrite to replace its files", path.string());
      }
    } else if (path.extension() == ".hdf5" || path.extension() == ".tfrecord") {
      user_error(
          "{} is not one of the samples to be written, but would be read with them; remove it or name another "
          "generate.folder",
          path.string());
    }
  }
}

/// A universe's parameters and labels.
struct Description {
  Parameters physical;
  std::vector<float> labels;  // y
};

Description describe(const GeneratorOptions& options, std::int64_t universe) {
  const auto seed = static_cast<std::uint64_t>(options.seed);
  Description description{draw_parameters(options.ranges, seed, universe), {}};
  for (const double label : to_labels(options.ranges, description.physical)) {
    description.labels.push_back(static_cast<float>(label));
  }
  return description;
}

void write_hdf5(const std::string& path, const GeneratorOptions& options, const Description& description,
                std::int64_t universe, std::int64_t part, const std::vector<std::int16_t>& counts) {
  const std::int64_t n = options.universe.particles / options.cuts;
  constexpr auto kChannels = static_cast<std::int64_t>(kRedshifts.size());
  const std::vector<std::int64_t> dims = {n, n, n, kChannels}, four = {4};
  write_hdf5_atomically(path, [&](Hdf5File& file) {
    Hdf5Storage storage{Hdf5Type::kI16};
    if (options.gzip > 0) storage = {Hdf5Type::kI16, dims, static_cast<int>(options.gzip)};
    file.write<std::int16_t>("x", dims, counts, storage);
    file.write<float>("y", four, description.labels);
    file.write<float>("unitPar", four, description.labels);
    file.write<double>("physPar", four, description.physical);
    std::vector<double> ranges;
    for (std::size_t i = 0; i < kParameterNames.size(); ++i) {
      ranges.push_back(options.ranges.low(i));
      ranges.push_back(options.ranges.high(i));
    }
    file.write<double>("rangePar", {4, 2}, ranges);
    file.write_texts("namePar", std::vector<std::string>(kParameterNames.begin(), kParameterNames.end()));
    file.write<double>("redshifts", {kChannels}, kRedshifts);
    file.write<double>("boxSize", {}, std::span(&options.universe.box, 1), {Hdf5Type::kF64});
    file.set_attribute("/", "seed", options.seed);
    file.set_attribute("/", "universe", universe);
    file.set_attribute("/", "part", part);
    file.set_attribute("/", "cuts", options.cuts);
    file.set_attribute("/", "source",
                       fmt::format("petaflow {} ({}): Lagrangian perturbation theory of second order",
                                   build_info().version, build_info().commit));
  });
}

void write_tfrecord(const std::string& path, const GeneratorOptions& options, const Description& description,
                    const std::vector<std::int16_t>& counts) {
  const std::string_view x(reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(std::int16_t));
  const std::string record = tfrecord(tf_example({{"x", {{x}, {}, {}}}, {"y", {{}, description.labels, {}}}}));
  write_file_atomically(path, options.gzip > 0 ? gzipped(record) : record);
}

}  // namespace

std::string sample_name(const GeneratorOptions& options, std::int64_t universe, std::int64_t part) {
  return name_begin(options) + fmt::format("{:08}_{:03}.{}", universe, part, options.format);
}

void prepare_folders(const GeneratorOptions& options, bool overwrite) {
  check(options);
  const auto sets = sets_of(options);
  for (const UniverseSet& set : sets) check_folder(options, set, overwrite);
  for (const UniverseSet& set : sets) {
    std::error_code status;
    if (set.count > 0) fs::create_directories(set.folder, status);
    if (status) user_error("cannot make the folder {}: {}", set.folder.string(), status.message());
  }
}

std::int64_t write_universes(const GeneratorOptions& options, int rank, int ranks) {
  check(options);
  const std::int64_t total = options.train + options.validation + options.test, parts = parts_of(options);
  const std::int64_t share = (total - rank + ranks - 1) / ranks;
  if (share <= 0) return 0;
  UniverseMaker maker(options.universe);
  ProgressOptions progress_options;
  progress_options.title = "generate" + of_rank_0(ranks);
  progress_options.total = share;
  progress_options.interval = std::max<std::int64_t>(1, share / 4);
  progress_options.step = "universe";
  progress_options.unit = "universes";
  if (rank != 0) progress_options.terminal = [] { return false; }, progress_options.print = [](const std::string&) {};
  Progress progress(progress_options);
  std::int64_t done = 0;
  for (const UniverseSet& set : sets_of(options)) {
    for (std::int64_t universe = set.first; universe < set.first + set.count; ++universe) {
      if (universe % ranks != rank) continue;
      if (stop_request() != StopRequest::kNone) {
        failure("stopped by a signal after {} of {} universes; --overwrite begins again", done, share);
      }
      const Description description = describe(options, universe);
      const auto counts = maker.make(description.physical, static_cast<std::uint64_t>(options.seed), universe);
      parallel_items("petaflow::cosmoflow::write", static_cast<std::size_t>(parts), [&](int, std::size_t i) {
        const auto part = static_cast<std::int64_t>(i);
        const std::string path = (set.folder / sample_name(options, universe, part)).string();
        const auto cube = sub_cube(counts, options.universe.particles, options.cuts, part);
        if (options.format == "hdf5") {
          write_hdf5(path, options, description, universe, part, cube);
        } else {
          write_tfrecord(path, options, description, cube);
        }
      });
      ++done;
      progress.update(done, done);
    }
  }
  return share * parts;
}

void generate_sets(const GeneratorOptions& options, Communicator& comm, bool overwrite) {
  std::unique_ptr<WriteLock> lock;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    prepare_folders(options, overwrite);
    lock = std::make_unique<WriteLock>(options.folder, WriteLockTimes{}, "name another generate.folder");
    prepare_folders(options, overwrite);  // another process may have written samples since
  });
  if (comm.rank() == 0) {
    const auto edge = static_cast<std::size_t>(options.universe.particles);
    const std::size_t bytes = 4 * sizeof(std::int16_t) * edge * edge * edge;  // four redshifts of one universe
    for (const UniverseSet& set : sets_of(options)) {
      if (set.count == 0) continue;
      log_info("to be written: {}, {} of {} each, {}{}", set.folder.string(), format_count(set.count, "universe"),
               format_count(parts_of(options), "file"), format_bytes(static_cast<std::size_t>(set.count) * bytes),
               options.gzip > 0 ? " before compression" : "");
    }
  }
  agree(comm, [&] { write_universes(options, comm.rank(), comm.size()); });
  if (comm.rank() != 0) return;
  for (const UniverseSet& set : sets_of(options)) {
    if (set.count == 0) continue;
    log_info("{}: {} in {}", set.folder.string(), format_count(set.count, "universe"),
             format_count(set.count * parts_of(options), "file"));
  }
}

}  // namespace petaflow::cosmoflow
