# Builds for GPUs, included before project(): PETAFLOW_CUDA chooses the compiler.
#
# Kokkos' nvcc_wrapper stands in for the C++ compiler: it hands every source to nvcc, and what nvcc does not know to the host compiler.

set(PETAFLOW_CUDA "" CACHE STRING "CUDA compute capability to build for (70: V100, 90: H100 and H200); empty: no GPU")
if(NOT PETAFLOW_CUDA)
  return()
endif()

find_program(PETAFLOW_NVCC nvcc HINTS ENV CUDA_HOME PATH_SUFFIXES bin DOC "CUDA compiler")
if(NOT PETAFLOW_NVCC)
  message(FATAL_ERROR "PETAFLOW_CUDA=${PETAFLOW_CUDA}: nvcc was not found. Load a CUDA module or put its bin folder into PATH.")
endif()
execute_process(COMMAND ${PETAFLOW_NVCC} --list-gpu-arch OUTPUT_VARIABLE known OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REPLACE "\n" ";" known "${known}")
if(NOT "compute_${PETAFLOW_CUDA}" IN_LIST known)
  list(JOIN known " " known)
  message(FATAL_ERROR "PETAFLOW_CUDA=${PETAFLOW_CUDA}: ${PETAFLOW_NVCC} does not compile for it; it knows ${known}. "
                      "The V100 (70) needs CUDA 12 or older, H100 and H200 (90) CUDA 11.8 or newer.")
endif()

if(NOT CMAKE_CXX_COMPILER)
  set(CMAKE_CXX_COMPILER ${CMAKE_SOURCE_DIR}/build/deps/kokkos-cuda-${PETAFLOW_CUDA}/bin/nvcc_wrapper)
  if(NOT EXISTS ${CMAKE_CXX_COMPILER})
    message(FATAL_ERROR "No Kokkos with CUDA in build/deps. Run cmake/install-dependencies.sh --cuda ${PETAFLOW_CUDA}, or "
                        "give a site's own: -DCMAKE_CXX_COMPILER=<its prefix>/bin/nvcc_wrapper -DCMAKE_PREFIX_PATH=<its prefix>.")
  endif()
endif()
# Kernels are reached through Kokkos alone so far: no library of the host can work on a GPU's memory.
set(PETAFLOW_ONEDNN OFF CACHE STRING "" FORCE)
set(PETAFLOW_KOKKOSKERNELS OFF CACHE STRING "" FORCE)
