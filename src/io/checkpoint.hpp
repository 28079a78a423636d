// Checkpoints: the weights of a model in one HDF5 file, /weights/<layer>/<name> as f32 in PyTorch's layout (conv (K, C,
// kh, kw), dense (K, C), bias (K)), with texts that say what they belong to; and, beside them in /training, what it
// takes to go on with the run as if it had not been interrupted.
//
// Attributes of the file: petaflow_schema (integer), model, config, provenance, training (texts), weight_names and
// training_names (one per line, in the model's order), texts_crc32 (over these texts in this order, each followed by a
// zero byte).  Attribute of a data set: crc32.  Checksums are zlib's, over little-endian bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace petaflow {

/// A weight, or the slope of one: values row-major.
struct NamedArray {
  std::string name;  // "conv1/weight"
  std::vector<std::int64_t> dims;
  std::vector<float> values;
};

/// An array that a model expects of a checkpoint.
struct NamedDims {
  std::string name;
  std::vector<std::int64_t> dims;
};

struct Checkpoint {
  std::string model;                // description for people
  std::string config;               // the resolved input file, from which the model can be built again
  std::string provenance;           // free text, as a rule JSON
  std::vector<NamedArray> weights;  // in the model's order; by name where another tool wrote the file
  std::string training = {};        // where the run stands, JSON (train/training_state.hpp); empty: weights only
  std::vector<NamedArray> training_arrays = {};  // "optimizer/exp_avg/conv1/weight"
  bool checked = true;  // set by load: false where a data set has no checksum (files of other tools)
};

/// Writes to a temporary name in the same folder, syncs, renames, syncs the folder.  Throws Error where it cannot be
/// written (no such folder; a full disk, with the bytes that are needed and those that are free), leaving an older file
/// of that name as it was and no temporary one.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// Throws Error(kUser) where the file is missing, truncated, damaged (naming the data set), lacks a data set, holds no
/// weights or was written by a newer schema.
Checkpoint load_checkpoint(const std::string& path);

/// The arrays in the order of `model`.  Throws Error(kUser) with the first differences in names and dims:
/// "x.h5 is a checkpoint of another model: fc/weight is (2, 64), the model has (2, 128)".
std::vector<const NamedArray*> match_arrays(const std::vector<NamedArray>& arrays, const std::vector<NamedDims>& model,
                                            const std::string& path);

}  // namespace petaflow
