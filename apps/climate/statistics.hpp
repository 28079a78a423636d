// Statistics of the variables of a set of frames: made in one pass, and the file of them that DeepCAM keeps beside its
// data (stats.h5: climate/count, mean, sqmean, minval, maxval).
// Source of the sums: Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
// variances", 1979.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "climate/frame_file.hpp"
#include "comm/communicator.hpp"

namespace petaflow::climate {

/// Statistics of the numbers of one variable, in its units.
struct FieldStatistics {
  double count = 0;  // of numbers, not of frames; 0: of none, as of a variable that no file has
  double mean = 0, mean_square = 0;
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();

  double variance() const { return mean_square - mean * mean; }
  /// Whether the variance is one: above zero by more than rounding.  In f32 the mean of squares of pressures cancels
  /// against the squared mean, and in the published file it lies below it.
  bool has_deviation() const { return variance() > 1e-12 * mean_square; }
  double deviation() const;
};

struct Statistics {
  std::int64_t frames = 0;
  std::array<FieldStatistics, kFields.size()> fields;

  const FieldStatistics& operator[](int field) const { return fields[static_cast<std::size_t>(field)]; }
};

/// Statistics of numbers as they come: sums about the first of them, in double.
class FieldSums {
 public:
  /// Numbers at first, first + step, ..., `count` of them.
  void add(const float* first, std::int64_t count, std::int64_t step);
  void merge(const FieldSums& other);
  FieldStatistics statistics() const;

 private:
  double count_ = 0, mean_ = 0, squares_ = 0;  // squares of deviations from the mean
  float min_ = std::numeric_limits<float>::infinity(), max_ = -std::numeric_limits<float>::infinity();
};

/// Statistics of some variables of all frames of some files, which ranks and threads share; the same on all ranks.
/// Collective.  Throws user errors, as for numbers that are no values.
/// @param fields  empty: all that the first file has
/// @param check   is called with the number of every file and the open file, by several threads; what it throws is
///                thrown on
Statistics compute_statistics(Communicator& comm, const std::vector<std::string>& files,
                              const FrameFileOptions& options = {}, std::vector<int> fields = {},
                              const std::function<void(std::size_t, const FrameFile&)>& check = {});

/// Reads and writes DeepCAM's file; the numbers are written in f64, and read in any type.  Throw user errors; reading
/// checks that the numbers are finite, the counts positive and each mean between its minimum and maximum.
Statistics read_statistics(const std::string& path);
void write_statistics(const std::string& path, const Statistics& statistics);

/// A sentence for each of some variables that has no deviation; `source` names where the statistics are from.
std::vector<std::string> deviation_warnings(const Statistics& statistics, std::span<const int> fields,
                                            const std::string& source);

}  // namespace petaflow::climate
