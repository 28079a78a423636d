# NCCL, which has no CMake package: target nccl::nccl and PETAFLOW_HAVE_NCCL.
# Search order: NCCL_ROOT, the CUDA toolkit, what cmake/install-dependencies.sh left in PETAFLOW_DEPS, then the system.

find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${CUDAToolkit_BIN_DIR}/.. ${PETAFLOW_DEPS}/nvidia PATH_SUFFIXES include
          DOC "Folder that holds nccl.h")
if(NCCL_INCLUDE_DIR)
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${NCCL_INCLUDE_DIR}/.. PATH_SUFFIXES lib lib64 DOC "The library of NCCL")
endif()

set(missing)
if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
  set(missing "NCCL was not found")
else()
  petaflow_header_version(${NCCL_INCLUDE_DIR}/nccl.h NCCL nccl_version)
  if(nccl_version VERSION_LESS 2.13)
    set(missing "NCCL ${nccl_version} in ${NCCL_INCLUDE_DIR} is older than 2.13, the first that says what went wrong")
  endif()
endif()

if(missing)
  string(JOIN "" how_to_get_nccl "Run cmake/install-dependencies.sh --cuda ${PETAFLOW_CUDA}, name one (-DNCCL_ROOT=<its prefix>), or do "
                                 "without: -DPETAFLOW_NCCL=OFF.")
  petaflow_do_without(PETAFLOW_NCCL "${missing}" "gradients of several ranks will be summed in the host's memory, which is slower"
                      "${how_to_get_nccl}")
  return()
endif()

add_library(nccl::nccl INTERFACE IMPORTED)
target_include_directories(nccl::nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(nccl::nccl INTERFACE ${NCCL_LIBRARY} CUDA::cudart)
set(PETAFLOW_HAVE_NCCL ON)
