#include "climate/generate_frames.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <set>
#include <vector>

#include "base/error.hpp"
#include "comm/agree.hpp"
#include "io/atomic_file.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "io/write_lock.hpp"
#include "measure/rates.hpp"
#include "nn/parallel.hpp"
#include "train/stop_request.hpp"

namespace petaflow::climate {
namespace fs = std::filesystem;
namespace {

/// Frames [first, first + count) of the seed's sequence.
struct FrameSet {
  fs::path folder;
  std::int64_t first, count;
};

std::array<FrameSet, 3> sets_of(const GenerateOptions& options) {
  const fs::path folder = options.folder;
  std::array<FrameSet, 3> sets = {{{folder / "train", 0, options.train},
                                   {folder / "validation", 0, options.validation},
                                   {folder / "test", 0, options.test}}};
  const std::int64_t steps = options.weather.series_steps;
  for (std::size_t s = 1; s < sets.size(); ++s) {  // no series lies in two sets
    sets[s].first = (sets[s - 1].first + sets[s - 1].count + steps - 1) / steps * steps;
  }
  return sets;
}

/// Refuses what would be read with the frames to be written, or replaced by them.
void check_folder(const FrameSet& set, const WeatherOptions& weather, bool overwrite) {
  if (set.count == 0) return;
  check_parent((set.folder / "x").string());
  if (!fs::exists(set.folder)) return;
  if (!fs::is_directory(set.folder)) user_error("{} is no folder; move it away", set.folder.string());
  std::set<std::string> names;
  for (std::int64_t i = 0; i < set.count; ++i) names.insert(frame_name(weather, set.first + i));
  for (const fs::directory_entry& entry : fs::directory_iterator(set.folder)) {
    const bool own = names.contains(entry.path().filename().string());
    if (own && overwrite) continue;
    user_error("{} exists{}; name another generate.folder{}", entry.path().string(),
               own ? "" : " and is not one of the frames to be written", own ? ", or --overwrite to replace it" : "");
  }
}

void prepare_folders(const GenerateOptions& options, bool overwrite) {
  if (options.folder.empty()) user_error("generate.folder is empty; name a folder to write to");
  if (options.train + options.validation + options.test == 0) {
    user_error("generate.train, generate.validation and generate.test are 0: nothing is to be generated");
  }
  for (const FrameSet& set : sets_of(options)) check_folder(set, options.weather, overwrite);
  for (const FrameSet& set : sets_of(options)) {
    if (set.count > 0) make_parent((set.folder / "x").string());
  }
}

/// A rank's share of the frames of all sets, every `ranks`-th.
void write_share(const GenerateOptions& options, const Grid& grid, int rank, int ranks, const FrameWriter& write) {
  struct Item {
    std::string path;
    std::int64_t index;
  };
  std::vector<Item> items;
  for (const FrameSet& set : sets_of(options)) {
    for (std::int64_t index = set.first; index < set.first + set.count; ++index) {
      if (index % ranks == rank) items.push_back({(set.folder / frame_name(options.weather, index)).string(), index});
    }
  }
  ProgressOptions shown;
  shown.title = "generate" + of_rank_0(ranks);
  shown.total = std::ssize(items);
  shown.interval = std::max<std::int64_t>(1, shown.total / 4);
  shown.step = "frame";
  shown.unit = "frames";
  const auto progress = rank == 0 ? std::make_unique<Progress>(shown) : nullptr;
  constexpr std::size_t kBlock = 64;  // frames between looks at the progress and at signals
  for (std::size_t begin = 0; begin < items.size(); begin += kBlock) {
    if (stop_request() != StopRequest::kNone) {
      failure("stopped by a signal after {} of {} frames; --overwrite begins again", begin, items.size());
    }
    const std::size_t end = std::min(items.size(), begin + kBlock);
    parallel_items("petaflow::climate::generate", end - begin, [&](int, std::size_t i) {
      const Item& item = items[begin + i];
      write(item.path, weather_frame(options.weather, grid, static_cast<std::uint64_t>(options.seed), item.index));
    });
    if (progress) progress->update(static_cast<std::int64_t>(end), static_cast<std::int64_t>(end));
  }
}

}  // namespace

void declare_generate(Schema& schema, GenerateOptions& options) {
  schema.add("generate.folder", options.folder);
  schema.add("generate.train", options.train, in_range(0, 1e7));
  schema.add("generate.validation", options.validation, in_range(0, 1e7));
  schema.add("generate.test", options.test, in_range(0, 1e7));
  schema.add("generate.seed", options.seed, at_least(0));
  schema.add("generate.series_steps", options.weather.series_steps, in_range(1, 1e6));
}

std::string frame_name(const WeatherOptions& weather, std::int64_t index) {
  const std::string time = weather_time(weather, index);  // "1979-01-31T03:00:00"
  return fmt::format("data-{}-{:02}-0.h5", time.substr(0, 10), std::stoi(time.substr(11, 2)) / 3);
}

void generate_frames(const GenerateOptions& options, std::int64_t height, std::int64_t width, Communicator& comm,
                     bool overwrite, const FrameWriter& write) {
  std::unique_ptr<WriteLock> lock;
  agree(comm, [&] {
    if (comm.rank() != 0) return;
    prepare_folders(options, overwrite);
    lock = std::make_unique<WriteLock>(options.folder, WriteLockTimes{}, "name another generate.folder");
    prepare_folders(options, overwrite);  // another process may have written frames since
  });
  const auto bytes = static_cast<std::size_t>(height * width) * (kFields.size() + 1) * sizeof(float);
  for (const FrameSet& set : sets_of(options)) {
    if (set.count == 0) continue;
    log_info("to be written: {}, {} of {} x {} pixels, {}", set.folder.string(), format_count(set.count, "frame"),
             height, width, format_bytes(static_cast<std::size_t>(set.count) * bytes));
  }
  agree(comm, [&] { write_share(options, cam5_grid(height, width), comm.rank(), comm.size(), write); });
}

}  // namespace petaflow::climate
