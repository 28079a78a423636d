#include "comm/agree.hpp"

#include <algorithm>
#include <filesystem>
#include <span>
#include <vector>

#include "base/out_of_memory.hpp"

namespace petaflow {

Error to_error(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const Error& error) {
    return error;
  } catch (const std::filesystem::filesystem_error& error) {
    return {ErrorKind::kUser, error.what()};
  } catch (const std::exception& error) {
    if (const std::string text = out_of_memory_text(error); !text.empty()) {
      return {ErrorKind::kUser, text + "; use a smaller train.batch or network, or more ranks on more nodes"};
    }
    return {ErrorKind::kFailure, error.what()};
  } catch (...) {
    return {ErrorKind::kFailure, "an exception of unknown type"};
  }
}

namespace {

bool is_agreed(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const AgreedError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

void throw_agreed(Communicator& comm, const std::exception_ptr& exception) {
  double failed = exception ? 1 : 0;
  comm.all_reduce_sum(std::span<double>(&failed, 1));
  if (failed == 0) return;

  // "u" user error, "f" failure, nothing: none; "r" where the rank is to be named; then the message.
  std::string mine;
  if (exception) {
    const Error error = to_error(exception);
    mine = fmt::format("{}{}{}", error.kind() == ErrorKind::kUser ? 'u' : 'f', is_agreed(exception) ? ' ' : 'r',
                       error.what());
  }
  const std::vector<std::string> all = gather_text(comm, mine);
  std::string spoken;
  if (comm.rank() == 0) {
    const auto first = std::find_if(all.begin(), all.end(), [](const std::string& text) { return !text.empty(); });
    const bool same = std::all_of(all.begin(), all.end(), [&](const std::string& text) { return text == *first; });
    const bool names_rank = !same && first->at(1) == 'r';
    spoken = first->substr(0, 1) + (names_rank ? fmt::format("rank {}: ", first - all.begin()) : "") + first->substr(2);
  }
  spoken = broadcast_text(comm, spoken);
  throw AgreedError(spoken[0] == 'u' ? ErrorKind::kUser : ErrorKind::kFailure, spoken.substr(1));
}

void agree(Communicator& comm, const std::function<void()>& work) {
  std::exception_ptr exception;
  try {
    work();
  } catch (const AgreedError&) {
    throw;
  } catch (const CommError&) {
    throw;
  } catch (...) {
    exception = std::current_exception();
  }
  throw_agreed(comm, exception);
}

}  // namespace petaflow
