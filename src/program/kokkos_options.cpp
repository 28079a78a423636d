#include "program/kokkos_options.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/error.hpp"
#include "config/schema.hpp"

namespace petaflow {

void check_kokkos_arguments(const std::vector<std::string>& given) {
  static const std::vector<std::string> known = {
      "--kokkos-help",           "--kokkos-disable-warnings", "--kokkos-print-configuration",
      "--kokkos-tune-internals", "--kokkos-num-threads",      "--kokkos-threads",
      "--kokkos-numa",           "--kokkos-device-id",        "--kokkos-device",
      "--kokkos-num-devices",    "--kokkos-ndevices",         "--kokkos-skip-device",
      "--kokkos-tools-libs",     "--kokkos-tools-library",    "--kokkos-tools-args",
      "--kokkos-tools-help",     "--kokkos-map-device-id-by"};
  for (const std::string& argument : given) {
    const std::string name = argument.substr(0, argument.find('='));
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string nearest = nearest_name(name, known);
    user_error("Kokkos has no option {}; {}", name,
               nearest.empty() ? fmt::format("it has {}", fmt::join(known, ", ")) : "the nearest is " + nearest);
  }
}

}  // namespace petaflow
