// The safetensors format (huggingface.co/docs/safetensors): 8 bytes with the length of the header, a JSON header with
// names, types, shapes and offsets, then the arrays one after the other.
#pragma once

#include <map>
#include <span>
#include <string>

#include "io/checkpoint.hpp"

namespace petaflow {

/// "conv1/weight" -> "conv1.weight", as PyTorch names it.
std::string pytorch_name(const std::string& name);

/// Length and header, padded with spaces so that the arrays begin at a multiple of 8 bytes.  Throws a user error where
/// two names are the same for PyTorch.
std::string safetensors_header(std::span<const NamedArray> arrays, const std::map<std::string, std::string>& metadata);

/// Writes f32 arrays to a temporary name, syncs, renames.  Throws where it cannot, leaving an older file as it was.
void save_safetensors(const std::string& path, std::span<const NamedArray> arrays,
                      const std::map<std::string, std::string>& metadata);

/// The arrays of a file as weights ("conv1.weight" -> "conv1/weight"), by name; the configuration where the file is an
/// export of petaflow.  F32, F64 and BF16 are read.  Throws a user error where the file is missing, damaged, or holds
/// another type.
Checkpoint load_safetensors(const std::string& path);

}  // namespace petaflow
