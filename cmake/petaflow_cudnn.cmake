# cuDNN and the headers of its frontend, neither of which has a CMake package: target cudnn::cudnn and PETAFLOW_HAVE_CUDNN.
# Search order: CUDNN_ROOT, the CUDA toolkit, what cmake/install-dependencies.sh left in PETAFLOW_DEPS, then the system.

set(cudnn_prefixes ${CUDNN_ROOT} $ENV{CUDNN_ROOT} ${CUDAToolkit_BIN_DIR}/.. ${PETAFLOW_DEPS}/nvidia)
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${cudnn_prefixes} PATH_SUFFIXES include DOC "Folder that holds cudnn.h")
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${cudnn_prefixes} PATH_SUFFIXES include
          DOC "Folder that holds cudnn_frontend.h")
if(CUDNN_INCLUDE_DIR)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDNN_INCLUDE_DIR}/.. PATH_SUFFIXES lib lib64 DOC "The library of cuDNN")
endif()
string(JOIN "" how_to_get_cudnn "Run cmake/install-dependencies.sh --cuda ${PETAFLOW_CUDA}, name another one (-DCUDNN_ROOT=<its prefix>), "
                                "or do without: -DPETAFLOW_CUDNN=OFF.")

set(missing)
if(NOT CUDNN_INCLUDE_DIR OR NOT CUDNN_LIBRARY)
  set(missing "cuDNN was not found")
else()
  petaflow_header_version(${CUDNN_INCLUDE_DIR}/cudnn_version.h CUDNN cudnn_version)
  if(cudnn_version VERSION_LESS 9.15)
    message(FATAL_ERROR "cuDNN ${cudnn_version} in ${CUDNN_INCLUDE_DIR} is too old: petaflow needs 9.15 or newer, as convolutions of bf16 "
                        "in three dimensions are wrong in some before. ${how_to_get_cudnn}")
  endif()
  if(NOT CUDNN_FRONTEND_INCLUDE_DIR)
    set(missing "cuDNN ${cudnn_version} was found, but not the headers of its frontend (cudnn_frontend.h)")
  else()
    petaflow_header_version(${CUDNN_FRONTEND_INCLUDE_DIR}/cudnn_frontend_version.h CUDNN_FRONTEND cudnn_frontend_version)
    if(cudnn_frontend_version VERSION_LESS 1.15 OR cudnn_frontend_version VERSION_GREATER_EQUAL 1.19)  # from then on they want libcuda
      set(missing "cuDNN's frontend ${cudnn_frontend_version} in ${CUDNN_FRONTEND_INCLUDE_DIR} is none from 1.15 to 1.18")
    endif()
  endif()
endif()

if(missing)
  petaflow_do_without(PETAFLOW_CUDNN "${missing}" "convolutions will be those of Kokkos alone, which are slower" "${how_to_get_cudnn}")
  return()
endif()

add_library(cudnn::cudnn INTERFACE IMPORTED)
target_include_directories(cudnn::cudnn SYSTEM INTERFACE ${CUDNN_INCLUDE_DIR} ${CUDNN_FRONTEND_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(cudnn::cudnn INTERFACE ${CUDNN_LIBRARY} CUDA::cudart)
set(PETAFLOW_HAVE_CUDNN ON)
