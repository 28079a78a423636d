#include "io/host_name.hpp"

#include <unistd.h>

#include <array>

namespace petaflow {

std::string host_name() {
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  return host.data();
}

}  // namespace petaflow
