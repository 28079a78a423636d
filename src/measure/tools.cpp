#include "measure/tools.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>
#include <string>

#include <Kokkos_Core.hpp>

#include "base/error.hpp"

namespace petaflow {

void prepare_kokkos_tools() {
  const char* const libraries = std::getenv("KOKKOS_TOOLS_LIBS");
  if (libraries == nullptr || *libraries == '\0') return;
  std::istringstream list(libraries);
  for (std::string library; std::getline(list, library, ';');) {
    if (library.empty()) continue;
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) user_error("KOKKOS_TOOLS_LIBS: {}", dlerror());
    dlclose(handle);
  }
#if KOKKOS_VERSION < 30700
  setenv("KOKKOS_PROFILE_LIBRARY", libraries, 0);  // what the user has set stays
#endif
}

}  // namespace petaflow
