#include "comm/communicator.hpp"

#include <cstring>

#include "base/error.hpp"
#include "comm/mpi.hpp"
#include "comm/self.hpp"

namespace petaflow {

std::vector<std::string> gather_text(Communicator& comm, const std::string& text) {
  std::vector<std::string> texts;
  for (const auto& bytes : comm.gather(std::as_bytes(std::span(text)))) {
    texts.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return texts;
}

std::string broadcast_text(Communicator& comm, const std::string& text) {
  std::uint64_t length = text.size();
  comm.broadcast(std::as_writable_bytes(std::span(&length, 1)), 0);
  std::string result = text;
  result.resize(length);
  comm.broadcast(std::as_writable_bytes(std::span(result)), 0);
  return result;
}

std::unique_ptr<Communicator> make_communicator() {
  if (mpi_is_running() && mpi_world_size() > 1) return make_mpi_communicator();
  return std::make_unique<SelfCommunicator>();
}

}  // namespace petaflow
