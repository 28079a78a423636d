// MPI on several nodes, which are parts of this machine: MOCK_RANKS_PER_NODE neighbouring ranks are on one.  Open MPI
// says in the environment which rank of all this is.
#include <dlfcn.h>
#include <mpi.h>

#include "state.hpp"

namespace {

/// MPI's function under its other name (standard 3.1, section 14.2).  It is looked up, because programs without MPI are
/// started with this library, too.
template <class Function>
Function* function_of_mpi(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

}  // namespace

extern "C" int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm* part) {
  const int ranks = mock_cuda::number_of("MOCK_RANKS_PER_NODE", 0);
  if (ranks == 0 || type != MPI_COMM_TYPE_SHARED) {
    return function_of_mpi<decltype(MPI_Comm_split_type)>("PMPI_Comm_split_type")(comm, type, key, info, part);
  }
  const int node = mock_cuda::number_of("OMPI_COMM_WORLD_RANK", 0) / ranks;
  return function_of_mpi<decltype(MPI_Comm_split)>("PMPI_Comm_split")(comm, node, key, part);
}
