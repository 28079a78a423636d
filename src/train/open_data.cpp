#include "train/open_data.hpp"

#include <span>
#include <utility>

#include "data/files.hpp"
#include "train/agree.hpp"

namespace petaflow {
namespace {

void check_shape(const Dataset& data, const Shape& expected, const std::string& what) {
  const auto [c, d, h, w] = data.sample_dims();
  const Shape found{1, c, d, h, w};
  if (found == expected.with_batch(1)) return;
  user_error("the samples of {} are {}, but the input file describes a network for {}; the keys of [data] say its size",
             what, sample_to_string(found), sample_to_string(expected));
}

/// What rank 0 finds in the files.
std::string scan(Communicator& comm, const Application& app, const std::vector<std::string>& files,
                 const std::string& what, DataRole role) {
  std::string found;
  agree(comm, [&] {
    if (comm.rank() == 0) found = app.scan(expand_files(files, what), role);
  });
  return broadcast_text(comm, found);
}

SampleRange share(const Communicator& comm, const Dataset& data) {
  return share_of_samples(data.size(), comm.rank(), comm.size());
}

}  // namespace

std::unique_ptr<Dataset> open_data(Communicator& comm, Application& app, const std::vector<std::string>& files,
                                   const std::string& what, DataRole role) {
  std::string found = scan(comm, app, files, what, role);
  std::unique_ptr<Dataset> data;
  agree(comm, [&] {
    data = app.open(std::exchange(found, {}), what, role);
    check_shape(*data, app.sample_shape(), what);
  });
  complete(comm, *data);
  if (role == DataRole::kTrain) app.keep(*data);
  return data;
}

void complete(Communicator& comm, Dataset& data) {
  if (const std::span<float> memory = data.memory(); !memory.empty()) {
    agree(comm, [&] { data.load(share(comm, data)); });
    const std::int64_t elements = data.sample_elements();
    for (int rank = 0; rank < comm.size(); ++rank) {
      const auto [first, last] = share_of_samples(data.size(), rank, comm.size());
      const auto part = memory.subspan(static_cast<std::size_t>(first * elements),
                                       static_cast<std::size_t>((last - first) * elements));
      comm.broadcast(std::as_writable_bytes(part), rank);
    }
  }
  if (!data.wants_maxima()) return;
  std::vector<double> maxima;
  agree(comm, [&] {
    const std::vector<float> mine = channel_maxima(data, share(comm, data));
    maxima.assign(mine.begin(), mine.end());
  });
  comm.all_reduce_max(maxima);  // exact, in whatever order
  data.set_maxima({maxima.begin(), maxima.end()});
}

void check_all(Communicator& comm, const Dataset& data) {
  agree(comm, [&] { check_samples(data, share(comm, data)); });
}

}  // namespace petaflow
