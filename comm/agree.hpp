// Errors on several ranks: what one rank finds out, all ranks throw, so that none waits for another for ever.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include "base/error.hpp"
#include "comm/communicator.hpp"

namespace petaflow {

/// An error that every rank throws at the same point: rank 0 speaks for all.
class AgreedError : public Error {
 public:
  using Error::Error;
};

/// The exception as an Error: an Error as it is; what the file system says and exhausted memory as user errors;
/// anything else as a failure.
Error to_error(const std::exception_ptr& exception);

/// All ranks come here, each with its exception or none.  Where any has one, all throw the AgreedError of the lowest
/// such rank; it names the rank unless all ranks say the same, or it was agreed on before by some of them.
void throw_agreed(Communicator& comm, const std::exception_ptr& exception);

/// Does `work` on every rank, then agrees on how it went.  The work must not communicate, unless it throws on all ranks
/// alike.
void agree(Communicator& comm, const std::function<void()>& work);

}  // namespace petaflow
