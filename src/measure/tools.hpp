// Profiling tools that Kokkos loads.
#pragma once

namespace petaflow {

/// Before Kokkos starts: KOKKOS_TOOLS_LIBS, the libraries that the user wants, is handed on as KOKKOS_PROFILE_LIBRARY
/// to a Kokkos older than 3.7, which knows no other name.  Throws a user error where one of them cannot be loaded;
/// Kokkos itself goes on without it.
void prepare_kokkos_tools();

}  // namespace petaflow
