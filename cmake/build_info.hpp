// The origin of this binary: for the log, the resolved configuration and the report of a run.
#pragma once

namespace petaflow {

struct BuildInfo {
  const char* version;         // of petaflow
  const char* commit;          // git describe; "unknown" outside a checkout; ends in -dirty where files were changed
  const char* kernel_sources;  // hash of the sources of base, kernels and nn
  const char* compiler;        // "GNU 12.2.0"
  const char* flags;           // optimisation and architecture flags
  const char* build_type;      // "Release", "Debug"
  const char* kokkos;          // version and devices
  const char* onednn;          // version, or empty where built without
  const char* cudnn;           // version, or empty where built without
  const char* nccl;            // version, or empty where built without
  const char* kokkos_kernels;  // version, or empty where built without
  const char* hdf5;            // version
};

const BuildInfo& build_info();

}  // namespace petaflow
