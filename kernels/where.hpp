// Which files of kernels/ this build compiles: petaflow_fast_path() in CMake takes those with a suffix or leaves them
// out.
#pragma once

/// PETAFLOW_IN_<SUFFIX>(code): the code where *_<suffix>.cpp are compiled, otherwise nothing.
#define PETAFLOW_IN_ALL(...) __VA_ARGS__
#ifdef PETAFLOW_HAVE_HOST
#define PETAFLOW_IN_HOST(...) __VA_ARGS__
#else
#define PETAFLOW_IN_HOST(...)
#endif
#ifdef PETAFLOW_HAVE_AMX
#define PETAFLOW_IN_AMX(...) __VA_ARGS__
#else
#define PETAFLOW_IN_AMX(...)
#endif
#ifdef PETAFLOW_HAVE_ONEDNN
#define PETAFLOW_IN_ONEDNN(...) __VA_ARGS__
#else
#define PETAFLOW_IN_ONEDNN(...)
#endif
#ifdef PETAFLOW_HAVE_CUBLAS
#define PETAFLOW_IN_CUBLAS(...) __VA_ARGS__
#else
#define PETAFLOW_IN_CUBLAS(...)
#endif
#ifdef PETAFLOW_HAVE_CUDNN
#define PETAFLOW_IN_CUDNN(...) __VA_ARGS__
#else
#define PETAFLOW_IN_CUDNN(...)
#endif
#ifdef PETAFLOW_HAVE_KOKKOSKERNELS
#define PETAFLOW_IN_KOKKOSKERNELS(...) __VA_ARGS__
#else
#define PETAFLOW_IN_KOKKOSKERNELS(...)
#endif
