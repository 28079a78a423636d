#include "program/open_data.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "comm/agree.hpp"
#include "data/files.hpp"
#include "io/log.hpp"
#include "io/progress.hpp"
#include "nn/parallel.hpp"

namespace petaflow {
namespace {

/// Scans the files on rank 0; all ranks get what it finds.
std::string scan(Communicator& comm, const Task& task, const std::vector<std::string>& files, const std::string& what,
                 DataRole role) {
  std::string found;
  agree(comm, [&] {
    if (comm.rank() == 0) found = task.scan(expand_files(files, what), role);
  });
  return broadcast_text(comm, found);
}

SampleRange share(const Communicator& comm, const Dataset& data) {
  return share_of_samples(data.size(), comm.rank(), comm.size());
}

/// Each rank reads its share of the samples and gives it to the others, where the set is held in memory.
void fill_memory(Communicator& comm, Dataset& data) {
  const std::span<float> memory = data.memory();
  if (memory.empty()) return;
  agree(comm, [&] { data.load(share(comm, data)); });
  const std::int64_t elements = data.sample_elements();
  for (int rank = 0; rank < comm.size(); ++rank) {
    const auto [first, last] = share_of_samples(data.size(), rank, comm.size());
    const auto part =
        memory.subspan(static_cast<std::size_t>(first * elements), static_cast<std::size_t>((last - first) * elements));
    comm.broadcast(std::as_writable_bytes(part), rank);
  }
}

}  // namespace

std::unique_ptr<Dataset> open_as_it_is(Communicator& comm, const Task& task, const std::vector<std::string>& files,
                                       const std::string& what) {
  std::string found = scan(comm, task, files, what, DataRole::kInspect);
  std::unique_ptr<Dataset> data;
  agree(comm, [&] { data = task.open(std::exchange(found, {}), what, DataRole::kInspect); });
  fill_memory(comm, *data);
  return data;
}

void check_shape(const Dataset& data, const Shape& expected, const std::string& what) {
  const auto [c, d, h, w] = data.sample_dims();
  const Shape found{1, c, d, h, w};
  if (found == expected.with_batch(1)) return;
  if (!what.starts_with("data.")) {  // an argument of evaluate or predict
    user_error("the samples of {} are {}, but the run's network takes {}", data.files().front(),
               sample_to_string(found), sample_to_string(expected));
  }
  user_error(
      "the samples of {} ({}) are {}, but the input file describes a network for {}; the options of [data] say its "
      "size",
      what, data.files().front(), sample_to_string(found), sample_to_string(expected));
}

std::unique_ptr<Dataset> open_data(Communicator& comm, Task& task, const std::vector<std::string>& files,
                                   const std::string& what, DataRole role) {
  std::string found = scan(comm, task, files, what, role);
  std::unique_ptr<Dataset> data;
  agree(comm, [&] {
    data = task.open(std::exchange(found, {}), what, role);
    check_shape(*data, task.sample_shape(), what);
  });
  complete(comm, *data);
  if (role == DataRole::kTrain) agree(comm, [&] { task.keep(*data); });
  return data;
}

void complete(Communicator& comm, Dataset& data) {
  fill_memory(comm, data);
  if (!data.wants_maxima()) return;
  std::vector<double> maxima;
  agree(comm, [&] {
    const std::vector<float> mine = channel_maxima(data, share(comm, data));
    maxima.assign(mine.begin(), mine.end());
  });
  comm.all_reduce_max(maxima);  // exact, in whatever order
  data.set_maxima({maxima.begin(), maxima.end()});
}

void check_all(Communicator& comm, const Dataset& data, const std::string& what) {
  agree(comm, [&] {
    const auto [first, last] = share(comm, data);
    const std::int64_t block = std::clamp<std::int64_t>((last - first) / 20, 1, 256);
    ProgressOptions options;
    options.title = "checking " + what + of_rank_0(comm.size());
    options.total = last - first;
    options.interval = 5 * block;
    options.step = "sample";
    options.quiet_s = 2;
    const auto progress = comm.rank() == 0 ? std::make_unique<Progress>(options) : nullptr;
    for (std::int64_t begin = first; begin < last; begin += block) {
      const std::int64_t end = std::min(last, begin + block);
      parallel_items("petaflow::check", static_cast<std::size_t>(end - begin), [&](int, std::size_t i) {
        const std::int64_t sample = begin + static_cast<std::int64_t>(i);
        check_samples(data, {sample, sample + 1});
      });
      if (progress) progress->update(end - first, end - first);
    }
  });
  const char* const verb = data.size() == 1 ? "is" : "are";
  log_info("{}: {} {} in order", what, format_count(data.size(), "sample"), verb);
}

}  // namespace petaflow
