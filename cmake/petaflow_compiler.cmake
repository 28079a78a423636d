# Language, flags and output folders, for every target of the tree.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "petaflow needs GCC 12 or newer; ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_VERSION}. "
                      "Load a newer compiler module or pass -DCMAKE_CXX_COMPILER=...")
endif()

get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT multi_config)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

find_program(PETAFLOW_CCACHE ccache DOC "Compiler cache, used where it is found")
if(PETAFLOW_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER AND NOT PETAFLOW_CUDA)  # it does not know nvcc_wrapper
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PETAFLOW_CCACHE})
endif()

# Floating point: contraction and "errno and traps are not looked at" free the vectoriser; sums keep their order and NaN stays
# NaN, because the deterministic mode and the divergence check rest on both. So: not -ffast-math.
set(petaflow_flags -ffp-contract=fast -fno-math-errno -fno-trapping-math)
if(PETAFLOW_ARCH)
  list(PREPEND petaflow_flags -march=${PETAFLOW_ARCH})
endif()
include(CheckCXXCompilerFlag)
string(MAKE_C_IDENTIFIER "PETAFLOW_ACCEPTS_ARCH_${PETAFLOW_ARCH}" accepts_arch)
if(PETAFLOW_ARCH)
  check_cxx_compiler_flag(-march=${PETAFLOW_ARCH} ${accepts_arch})
  if(NOT ${accepts_arch})
    message(FATAL_ERROR "PETAFLOW_ARCH=${PETAFLOW_ARCH}: the compiler ${CMAKE_CXX_COMPILER} does not know -march=${PETAFLOW_ARCH}.")
  endif()
endif()

# -march=native means another thing on another processor: with its meaning on the command line, a build folder or a compiler
# cache that moves to one is rebuilt instead of dying of an illegal instruction.
if(PETAFLOW_ARCH STREQUAL "native")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -march=native -E -v -x c++ /dev/null
                  OUTPUT_QUIET ERROR_VARIABLE native_meaning)
  string(REGEX MATCHALL " -m[^ \n]+( l[12]-cache[^ \n]+)?" native_meaning "${native_meaning}")
  string(SHA1 native_meaning "${native_meaning}")
  string(SUBSTRING ${native_meaning} 0 12 native_meaning)
  list(APPEND petaflow_flags -DPETAFLOW_NATIVE_${native_meaning})
endif()

set(petaflow_warnings -Wall -Wextra)
if(NOT PETAFLOW_CUDA)  # what nvcc makes of a source is neither pedantic nor without shadows
  list(APPEND petaflow_warnings -Wpedantic -Wshadow)
endif()
# GCC 12 sees overlapping copies in its own std::string at -O3 (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND petaflow_warnings -Wno-restrict)
endif()
if(PETAFLOW_WERROR)
  list(APPEND petaflow_warnings -Werror)
endif()

add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${petaflow_flags}>" "$<$<COMPILE_LANGUAGE:CXX>:${petaflow_warnings}>")
