#include "program/say_failure.hpp"

#include <cstdio>
#include <exception>

#include "comm/agree.hpp"
#include "io/log.hpp"
#include "program/commands.hpp"

namespace petaflow {

int say_failure(const std::string& program, Communicator* world) {
  const auto complain = [&](const std::string& text) {
    log_status("");
    std::fprintf(stderr, "%s: %s\n", program.c_str(), text.c_str());
  };
  try {
    throw;
  } catch (const AgreedError& error) {
    if (world == nullptr || world->rank() == 0) complain(error.what());
    return exit_code(error);
  } catch (...) {
    const Error error = to_error(std::current_exception());
    const bool alone = world == nullptr || world->size() == 1;
    complain(alone ? error.what() : fmt::format("rank {}: {}", world->rank(), error.what()));
    if (!alone) world->abort(exit_code(error));
    return exit_code(error);
  }
}

}  // namespace petaflow
