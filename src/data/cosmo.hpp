// Cubes of counts of dark-matter particles with the cosmological parameters that they came from:
//   tfrecord  one tf.train.Example per file, plain or gzip: x int16 (D, H, W, C) as bytes, y floats (MLPerf HPC)
//   hdf5      x int16 (D, H, W, C), y floats, one cube per file
//   universe  full int16 (512, 512, 512, 4), unitPar floats: cut into cubes as they are read (ExaLearn, 2019_05_4parE)
//   npy       NAME_data.npy int16 (D, H, W, C), NAME_label.npy f32 or f64
// The last axis holds redshifts; labels are parameters scaled to [-1, 1], in the order of
// namePar where an HDF5 file has these names.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "data/dataset.hpp"
#include "data/recently_used.hpp"
#include "io/hdf5.hpp"

namespace petaflow {

/// Meaning of the labels of a parameter.
struct LabelRange {
  std::string name, key;  // "Omega_m", "data.omega_m"
  double low, high;       // of which the labels are -1 and 1
};

struct CosmoDataOptions {
  std::string format = "auto";           // "auto" looks at the first file
  std::int64_t edge = 128;               // of the samples; larger cubes are cut into several
  std::int64_t channels = 4;             // taken from the front
  std::vector<std::int64_t> parameters;  // positions in the files' labels of what is to be predicted
  std::vector<LabelRange> ranges;        // of the files' labels, in order; none: not checked
  bool labels_optional = false;          // a file without has targets NaN and weight 0
  bool as_it_is = false;  // edge and channels that the files do not fit give way to the files', and labels to be scaled
                          // otherwise are a note
};

/// Facts about the files before they are read.
struct CosmoIndex {
  std::string format;
  std::int64_t edge = 0, channels = 0;  // of the cubes in the files
  std::vector<std::string> files;       // npy: those of the data
  std::string note = {};                // on the labels of the first file; empty: they are the usual ones
};

/// Looks into the first file, in the order of the samples (patterns: expand_files); the others must be alike, which is
/// checked when they are read.  Where an HDF5 file says what its labels stand for, it must be what the options say.
/// Throws Error(kUser).
CosmoIndex scan_cosmo(const CosmoDataOptions& options, const std::vector<std::string>& files);

/// Refuses a set whose counts are all zero or, where it is to be learnt from, whose labels are all the same, as a
/// failed conversion leaves them.  Looks at four samples, evenly spread over the set.  Throws Error(kUser).
void refuse_failed_conversion(const CosmoDataOptions& options, const CosmoIndex& index, bool to_learn_from);

/// From one rank to others: bytes.hpp.
template <class Bytes>
void exchange(Bytes& bytes, CosmoIndex& index) {
  bytes(index.format, index.edge, index.channels, index.files, index.note);
}

/// Samples are cubes of int16.  Those that a file is cut into follow each other with the last axis fastest, as the
/// published ones are numbered.
class CosmoData final : public Dataset {
 public:
  /// Opens no file.  Throws Error(kUser) where the cubes cannot be cut into samples.
  CosmoData(const CosmoDataOptions& options, CosmoIndex index);

  std::int64_t size() const override { return std::ssize(index_.files) * cubes_per_file(); }
  std::array<std::int64_t, 4> sample_dims() const override {
    return {options_.channels, options_.edge, options_.edge, options_.edge};
  }
  DType type() const override { return DType::kI16; }
  std::vector<TargetSpec> targets() const override {
    return {TargetSpec::numbers("parameters", std::ssize(options_.parameters))};
  }
  /// Throws Error(kUser) naming the file where it is not like the first one, damaged, or has negative counts or labels
  /// that are no scaled parameters.
  float read(std::int64_t index, const SampleBytes& sample) const override;

  /// Of the parameters, where ranges name them.
  std::vector<std::string> names(std::size_t target) const override;
  std::vector<std::string> files() const override { return index_.files; }
  std::string format() const override { return index_.format; }
  /// Into how many samples a file is cut, the ranges that its labels stand for, and their order where it is unusual.
  std::vector<std::string> notes() const override;
  SampleOrigin origin(std::int64_t index) const override {
    return {static_cast<std::int32_t>(index / cubes_per_file()), index % cubes_per_file()};
  }
  std::int64_t cubes_per_file() const { return cuts_ * cuts_ * cuts_; }
  /// Universe of each sample, the same number for samples of the same.  Files are of the same universe where their
  /// names end with two numbers and differ in the last one only ("..._a10018182_006.tfrecord", ".tfrecord.gz").
  std::vector<std::int64_t> universes() const;

 private:
  /// An open file: its cube and its labels.
  struct OpenHdf5 {
    Hdf5Dataset cube;
    std::vector<float> labels;
  };
  /// Corner and edge of a cube in the cube of its file.
  struct Box {
    std::array<std::int64_t, 3> corner;
    std::int64_t edge;
  };

  /// Fills (edge, edge, edge, stored channels) and the labels of the file, none where it has none.
  void read_stored(std::size_t file, const Box& box, std::span<std::int16_t> counts, std::vector<float>& labels) const;

  /// Says what is wrong with the label at this place.
  [[noreturn]] void refuse_label(const std::string& path, std::size_t place, const std::vector<float>& labels) const;

  CosmoDataOptions options_;
  CosmoIndex index_;
  std::int64_t cuts_ = 1;  // along each axis
  std::unique_ptr<RecentlyUsed<OpenHdf5>> open_;
};

/// One of the 48 symmetries of the cube (axes permuted and mirrored), drawn with equal probability and applied to the
/// input (D, H, W, C) of int16 with D = H = W, in place.
class CubeSymmetry {
 public:
  /// @param dims C, D, H, W.  Throws Error(kUser) where they are no cube.
  explicit CubeSymmetry(const std::array<std::int64_t, 4>& dims);
  void operator()(const SampleBytes& sample, RandomSequence& random) const;

 private:
  std::int64_t edge_, channels_;
};

}  // namespace petaflow
