// DeepCAM's file of statistics, read and written.
#include <cmath>

#include "base/error.hpp"
#include "climate/statistics.hpp"
#include "io/hdf5.hpp"

namespace petaflow::climate {
namespace {

std::vector<double> read_numbers(const Hdf5File& file, const char* name) {
  const std::vector<std::int64_t> dims = file.dataset(name).info().dims;
  if (dims != std::vector<std::int64_t>{kFieldCount}) {
    user_error("{}: {} is {}; one number for each of {} variables was expected", file.path(), name, dims_text(dims),
               kFieldCount);
  }
  return file.read<double>(name);
}

void check(const std::string& path, const Field& field, const FieldStatistics& one) {
  if (std::isfinite(one.min) && std::isfinite(one.max) && std::isfinite(one.mean_square) && one.mean_square >= 0 &&
      one.min <= one.mean && one.mean <= one.max) {
    return;
  }
  user_error("{}: {} has the minimum {}, mean {}, maximum {} and mean square {}: not the statistics of any numbers",
             path, field.name, one.min, one.mean, one.max, one.mean_square);
}

}  // namespace

Statistics read_statistics(const std::string& path) {
  const Hdf5File file = Hdf5File::open(path);
  Statistics statistics;
  const std::vector<std::int64_t> count = file.read<std::int64_t>("climate/count");
  if (count.size() != 1 || count[0] < 1) user_error("{}: climate/count is no number of frames", path);
  statistics.frames = count[0];
  const auto mean = read_numbers(file, "climate/mean"), mean_square = read_numbers(file, "climate/sqmean"),
             low = read_numbers(file, "climate/minval"), high = read_numbers(file, "climate/maxval");
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    statistics.fields[f] = {static_cast<double>(count[0]), mean[f], mean_square[f], low[f], high[f]};
    check(path, kFields[f], statistics.fields[f]);
  }
  return statistics;
}

void write_statistics(const std::string& path, const Statistics& statistics) {
  std::vector<double> mean, mean_square, low, high;
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    const FieldStatistics& one = statistics.fields[f];
    if (one.count == 0) {
      user_error("{}: there are no statistics of {}; the file takes all {} variables", path, kFields[f].name,
                 kFieldCount);
    }
    mean.push_back(one.mean);
    mean_square.push_back(one.mean_square);
    low.push_back(one.min);
    high.push_back(one.max);
  }
  const std::int64_t count = statistics.frames;
  const Hdf5Storage numbers{Hdf5Type::kF64};
  write_hdf5_atomically(path, [&](Hdf5File& file) {
    file.write<std::int64_t>("climate/count", {}, std::span(&count, 1), {Hdf5Type::kI64});
    file.write<double>("climate/mean", {kFieldCount}, mean, numbers);
    file.write<double>("climate/sqmean", {kFieldCount}, mean_square, numbers);
    file.write<double>("climate/minval", {kFieldCount}, low, numbers);
    file.write<double>("climate/maxval", {kFieldCount}, high, numbers);
  });
}

}  // namespace petaflow::climate
