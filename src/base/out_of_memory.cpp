#include "base/out_of_memory.hpp"

#include <new>
#include <regex>

#include "base/device.hpp"

namespace petaflow {

std::string out_of_memory_text(const std::exception& exception) {
  // A std::runtime_error of Kokkos 3.4: 'Kokkos failed to allocate memory for label "x".
  // Allocation using MemorySpace named "Host" failed with the following error:  Allocation of size 144 G failed, ...'
  static const std::regex pattern(R"re(label "([^"]*)"[^]*of size ([0-9.e+]+) ([BKMG]) failed)re");
  std::cmatch match;
  if (std::regex_search(exception.what(), match, pattern)) {
    const std::string unit = match[3] == "B" ? "B" : match[3].str() + "iB";
    const bool on_device = std::string(exception.what()).find("\"Cuda\"") != std::string::npos;
    return "out of memory: " + match[1].str() + " takes " + match[2].str() + " " + unit +
           (on_device ? free_device_memory() : "");
  }
  return dynamic_cast<const std::bad_alloc*>(&exception) != nullptr ? "out of memory" : "";
}

}  // namespace petaflow
