# Every package that petaflow uses.  Search order: <Package>_ROOT, CMAKE_PREFIX_PATH (a site's modules), then what
# cmake/install-dependencies.sh left in PETAFLOW_DEPS, then the system.

set(PETAFLOW_DEPS ${CMAKE_SOURCE_DIR}/build/deps CACHE PATH "Where cmake/install-dependencies.sh put Kokkos and oneDNN")
set(kokkos_hint ${PETAFLOW_DEPS}/kokkos)
if(PETAFLOW_CUDA)
  string(APPEND kokkos_hint -cuda-${PETAFLOW_CUDA})
elseif(PETAFLOW_ARCH AND NOT PETAFLOW_ARCH STREQUAL "native")
  string(APPEND kokkos_hint -${PETAFLOW_ARCH})  # built for that processor
endif()

set(how_to_install "Run cmake/install-dependencies.sh, or say where it is installed: -DCMAKE_PREFIX_PATH=... "
                   "(docs/clusters.md).")
string(JOIN "" how_to_install ${how_to_install})

# ---- Kokkos: OpenMP or CUDA; a serial one is refused -------------------------------------------------------------------
find_package(Kokkos 3.4 CONFIG QUIET HINTS ${kokkos_hint})
if(NOT Kokkos_FOUND)
  find_package(Kokkos CONFIG QUIET HINTS ${kokkos_hint})  # its version file accepts the same major number only
endif()
if(NOT Kokkos_FOUND)
  message(FATAL_ERROR "Kokkos was not found. ${how_to_install}")
endif()
if(Kokkos_VERSION VERSION_LESS 3.4)
  message(FATAL_ERROR "Kokkos ${Kokkos_VERSION} in ${Kokkos_DIR} is too old: petaflow needs 3.4 or newer. ${how_to_install}")
endif()
if(NOT "OPENMP" IN_LIST Kokkos_DEVICES AND NOT "CUDA" IN_LIST Kokkos_DEVICES)
  message(FATAL_ERROR "The Kokkos in ${Kokkos_DIR} has neither OpenMP nor CUDA (its devices: ${Kokkos_DEVICES}): "
                      "petaflow would run on one core. ${how_to_install}")
endif()

if(PETAFLOW_CUDA AND NOT "CUDA" IN_LIST Kokkos_DEVICES)
  message(FATAL_ERROR "PETAFLOW_CUDA=${PETAFLOW_CUDA}, but the Kokkos in ${Kokkos_DIR} has no CUDA (its devices: ${Kokkos_DEVICES}).")
endif()

# Kokkos of cmake/install-dependencies.sh says for which processor it was built.
if(EXISTS ${Kokkos_DIR}/../../../built-for)
  file(STRINGS ${Kokkos_DIR}/../../../built-for built_for LIMIT_COUNT 1)
  string(REGEX REPLACE "^[0-9]+ ([^ ]*) .*" "\\1" built_for "${built_for}")
  if(NOT built_for STREQUAL PETAFLOW_ARCH AND NOT PETAFLOW_ARCH STREQUAL "native")
    message(FATAL_ERROR "PETAFLOW_ARCH=${PETAFLOW_ARCH}, but the Kokkos in ${Kokkos_DIR} was built for -march=${built_for}. "
                        "Run PETAFLOW_ARCH=${PETAFLOW_ARCH} cmake/install-dependencies.sh, or name another Kokkos in CMAKE_PREFIX_PATH.")
  endif()
endif()

if(PETAFLOW_GUARDED)
  if(NOT Kokkos_VERSION VERSION_LESS 3.5 OR "CUDA" IN_LIST Kokkos_DEVICES)
    message(FATAL_ERROR "PETAFLOW_GUARDED is written for the inside of Kokkos 3.4 with OpenMP; ${Kokkos_DIR} is ${Kokkos_VERSION} "
                        "(${Kokkos_DEVICES}). Where no other Kokkos is installed, cmake/install-dependencies.sh builds that one.")
  endif()
  foreach(library ONEDNN KOKKOSKERNELS)  # as on a GPU
    set(PETAFLOW_${library} OFF CACHE STRING "" FORCE)
  endforeach()
endif()

# ---- Fast paths ----------------------------------------------------------------------------------------------------------
foreach(choice PETAFLOW_ONEDNN PETAFLOW_KOKKOSKERNELS PETAFLOW_CUDNN PETAFLOW_NCCL)
  if(NOT "${${choice}}" MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "${choice}=${${choice}}: expected AUTO, ON or OFF.")
  endif()
endforeach()

set(PETAFLOW_HAVE_ONEDNN OFF)
if(NOT PETAFLOW_ONEDNN STREQUAL "OFF")
  find_package(dnnl 3.1 CONFIG QUIET HINTS ${PETAFLOW_DEPS}/onednn)
  if(dnnl_FOUND AND TARGET DNNL::dnnl)
    set(PETAFLOW_HAVE_ONEDNN ON)
  elseif(PETAFLOW_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "PETAFLOW_ONEDNN=ON, but no oneDNN 3.1 or newer was found. ${how_to_install}")
  endif()
endif()

set(PETAFLOW_HAVE_KOKKOSKERNELS OFF)
if(NOT PETAFLOW_KOKKOSKERNELS STREQUAL "OFF")
  find_package(KokkosKernels CONFIG QUIET HINTS ${kokkos_hint})
  if(KokkosKernels_FOUND)
    set(PETAFLOW_HAVE_KOKKOSKERNELS ON)
  elseif(PETAFLOW_KOKKOSKERNELS STREQUAL "ON")
    message(FATAL_ERROR "PETAFLOW_KOKKOSKERNELS=ON, but Kokkos Kernels was not found. ${how_to_install}")
  endif()
endif()

# petaflow_header_version(file prefix out): "9.19.0" from #define <prefix>_MAJOR, _MINOR and the third one.
function(petaflow_header_version file prefix out)
  file(STRINGS ${file} lines REGEX "#define ${prefix}_(MAJOR|MAJOR_VERSION|MINOR|MINOR_VERSION|PATCH|PATCHLEVEL|PATCH_VERSION) +[0-9]+")
  list(TRANSFORM lines REPLACE ".* ([0-9]+).*" "\\1")
  list(JOIN lines "." version)
  set(${out} "${version}" PARENT_SCOPE)
endfunction()

# petaflow_do_without(choice missing otherwise how): says what follows where a library is missing; ends where choice, the name of an
# option, insists on it.
function(petaflow_do_without choice missing otherwise how)
  if("${${choice}}" STREQUAL "ON")
    message(FATAL_ERROR "${choice}=ON, but: ${missing}. ${how}")
  endif()
  message(STATUS "${missing}: ${otherwise}. ${how}")
endfunction()

set(PETAFLOW_HAVE_CUBLAS OFF)
if(PETAFLOW_CUDA)
  find_package(CUDAToolkit REQUIRED)
  set(PETAFLOW_HAVE_CUBLAS ON)  # every toolkit has it
endif()

set(PETAFLOW_HAVE_CUDNN OFF)
if(PETAFLOW_CUDA AND NOT PETAFLOW_CUDNN STREQUAL "OFF")
  include(petaflow_cudnn)
endif()

set(PETAFLOW_HAVE_NCCL OFF)
if(PETAFLOW_CUDA AND NOT PETAFLOW_NCCL STREQUAL "OFF")
  include(petaflow_nccl)
endif()

# ---- The rest ------------------------------------------------------------------------------------------------------------
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
foreach(package ZLIB fmt CLI11 nlohmann_json)
  find_package(${package} QUIET)
  if(NOT ${package}_FOUND)
    message(FATAL_ERROR "${package} was not found. ${how_to_install}")
  endif()
endforeach()
if(PETAFLOW_CUDA)  # format strings are checked in other builds: nvcc's front end stumbles over fmt's way of doing it
  target_compile_definitions(fmt::fmt INTERFACE FMT_USE_CONSTEXPR=1 FMT_CONSTEVAL= FMT_USE_CONSTEVAL=0)
endif()
find_package(MPI QUIET COMPONENTS C)
if(NOT MPI_C_FOUND)
  # Without a network interface Open MPI's wrapper complains, and FindMPI takes the complaint for an answer: ask without it.
  execute_process(COMMAND mpicc --showme:incdirs OUTPUT_VARIABLE mpi_include ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE " " ";" mpi_include "${mpi_include}")
  set(MPI_C_ADDITIONAL_INCLUDE_DIRS ${mpi_include} CACHE STRING "Folders of mpi.h" FORCE)
endif()
find_package(MPI REQUIRED COMPONENTS C)
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX=1 MPICH_SKIP_MPICXX=1)  # mpi.h without its C++ classes: the C library is linked
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
if(HDF5_IS_PARALLEL)  # its headers include mpi.h
  target_link_libraries(hdf5::hdf5 INTERFACE MPI::MPI_C)
endif()

find_package(tomlplusplus CONFIG QUIET)
if(NOT TARGET tomlplusplus::tomlplusplus)  # header only, and older packages bring no CMake file
  find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h DOC "Folder that holds toml++/toml.h")
  if(NOT TOMLPLUSPLUS_INCLUDE_DIR)
    message(FATAL_ERROR "toml++ was not found. ${how_to_install}")
  endif()
  add_library(tomlplusplus::tomlplusplus INTERFACE IMPORTED)
  target_include_directories(tomlplusplus::tomlplusplus SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE_DIR})
endif()

find_path(ISAL_INCLUDE_DIR isa-l/crc.h DOC "Folder that holds isa-l/crc.h")  # Intel's storage library brings no CMake file
find_library(ISAL_LIBRARY isal DOC "The library of ISA-L")
if(NOT ISAL_INCLUDE_DIR OR NOT ISAL_LIBRARY)
  message(FATAL_ERROR "ISA-L (CRC-32C) was not found. ${how_to_install}")
endif()
add_library(isal::isal UNKNOWN IMPORTED)
set_target_properties(isal::isal PROPERTIES IMPORTED_LOCATION ${ISAL_LIBRARY})
target_include_directories(isal::isal SYSTEM INTERFACE ${ISAL_INCLUDE_DIR})

find_path(FFTW3_INCLUDE_DIR fftw3.h DOC "Folder that holds fftw3.h")  # its CMake file is missing from most packages
find_library(FFTW3F_LIBRARY fftw3f DOC "FFTW in single precision")
if(NOT FFTW3_INCLUDE_DIR OR NOT FFTW3F_LIBRARY)
  message(FATAL_ERROR "FFTW 3 in single precision (fftw3f) was not found. ${how_to_install}")
endif()
add_library(fftw3::fftw3f UNKNOWN IMPORTED)
set_target_properties(fftw3::fftw3f PROPERTIES IMPORTED_LOCATION ${FFTW3F_LIBRARY})
target_include_directories(fftw3::fftw3f SYSTEM INTERFACE ${FFTW3_INCLUDE_DIR})

find_path(NETCDF_INCLUDE_DIR netcdf.h DOC "Folder that holds netcdf.h")  # its CMake file names folders that not all packages have
find_library(NETCDF_LIBRARY netcdf DOC "The C library of netCDF")
if(NOT NETCDF_INCLUDE_DIR OR NOT NETCDF_LIBRARY)
  message(FATAL_ERROR "netCDF-C was not found. ${how_to_install}")
endif()
add_library(netcdf::netcdf UNKNOWN IMPORTED)
set_target_properties(netcdf::netcdf PROPERTIES IMPORTED_LOCATION ${NETCDF_LIBRARY})
target_include_directories(netcdf::netcdf SYSTEM INTERFACE ${NETCDF_INCLUDE_DIR})

# Ranks as fibers of one process: for tests of what ranks say to each other, and for simulations of many.
find_package(Boost 1.70 CONFIG QUIET COMPONENTS context)

if(PETAFLOW_TESTS)
  if(NOT TARGET Boost::context)
    message(FATAL_ERROR "Boost.Context was not found. ${how_to_install} Or build without tests: -DPETAFLOW_TESTS=OFF.")
  endif()
  find_package(GTest QUIET)
  if(NOT GTest_FOUND)
    message(FATAL_ERROR "GoogleTest was not found. ${how_to_install} Or build without tests: -DPETAFLOW_TESTS=OFF.")
  endif()
endif()
