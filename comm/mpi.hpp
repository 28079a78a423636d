// Ranks of MPI; mpi.h is seen by mpi.cpp and the watch over it (hang_watch.hpp) only.
#pragma once

#include <memory>

#include "comm/communicator.hpp"

namespace petaflow {

/// Whether MPI is started and not yet ended.
bool mpi_is_running();
/// Throws a CommError naming the call where an MPI function has not returned MPI_SUCCESS.
void check_mpi(int status, const char* call);
/// Ranks of MPI_COMM_WORLD; MPI must be running.
int mpi_world_size();

/// All ranks of MPI_COMM_WORLD on a communicator of their own.
std::unique_ptr<Communicator> make_mpi_communicator();

}  // namespace petaflow
