// The labels of HDF5 files of cubes: which parameter each one is of, and whether they were scaled as the options say.
#pragma once

#include <string>
#include <vector>

#include "data/cosmo.hpp"

namespace petaflow {

/// The labels of a file's cube (data set `name`) in the order of the ranges, NaN for parameters that the file has not;
/// none where it has no labels and need not.  Throws Error(kUser) naming the file where they do not mean what the
/// ranges say.
std::vector<float> read_cosmo_labels(const Hdf5File& file, const std::string& name, const CosmoDataOptions& options);

/// Sentence on the order of a file's labels where it names them (namePar) in another one than that of the ranges; "".
std::string unusual_order(const Hdf5File& file, const CosmoDataOptions& options);

}  // namespace petaflow
