// Writes universes as the public CosmoFlow data sets are: one file per sub-cube, split HDF5 or TFRecord.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.hpp"
#include "cosmoflow/universe.hpp"

namespace petaflow::cosmoflow {

/// Within the limits of their options (options.hpp).
struct GeneratorOptions {
  UniverseOptions universe;
  ParameterRanges ranges;
  std::int64_t cuts = 2;                                  // of a box along each axis
  std::int64_t train = 200, validation = 50, test = 150;  // universes: no two sets share one
  std::int64_t seed = 1;
  std::string folder;           // that of the folders train, validation and test
  std::string format = "hdf5";  // or "tfrecord"
  std::int64_t gzip = 1;        // level for HDF5, 0 to 9; for TFRecord 0 or not
};

/// The file of a sub-cube below a set's folder: "<seed>_univ_ics_2lpt_a<universe>_<sub-cube>.hdf5" (or .tfrecord).
std::string sample_name(const GeneratorOptions& options, std::int64_t universe, std::int64_t part);

/// Checks everything, then makes the folders of the sets.  Throws user errors: options out of range, a folder that
/// cannot be written or holds other samples (they would be read with these), files that exist (unless `overwrite`). For
/// one rank to call, before any calls write_universes().
void prepare_folders(const GeneratorOptions& options, bool overwrite);

/// Makes this rank's share of the universes (every `ranks`-th of all) and writes their sub-cubes; rank 0 shows how far
/// it is.  Returns the number of files.  What a file holds depends on the options, its universe and part alone.  Throws
/// user errors where a file cannot be written, a failure where the run is asked to stop; the files that are there are
/// whole.
///   HDF5: x int16 (n, n, n, 4), one chunk; y and unitPar f32 (4): the labels; physPar f32 (4) with the names namePar
///   and the ranges rangePar f32 (4, 2); redshifts f32 (4); boxSize f64: of the whole box, Mpc/h; attributes seed,
///   universe, part, cuts, source. TFRecord: one tf.train.Example with x (the bytes of int16) and y (4 floats), gzip or
///   not.
std::int64_t write_universes(const GeneratorOptions& options, int rank, int ranks);

/// Both, on all ranks, while no other process writes to the folder; throws on all alike.
void generate_sets(const GeneratorOptions& options, Communicator& comm, bool overwrite);

}  // namespace petaflow::cosmoflow
