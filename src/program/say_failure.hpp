// How programs end by an exception.
#pragma once

#include <string>

#include "comm/communicator.hpp"

namespace petaflow {

/// In a handler of any exception: says on standard error what went wrong; the exit code.  An AgreedError, which all
/// ranks have, rank 0 says.  Any other one its rank says, and ends all ranks where there are several: the others wait
/// in some operation and cannot be told.
/// @param world  null: before or behind MPI
int say_failure(const std::string& program, Communicator* world = nullptr);

}  // namespace petaflow
