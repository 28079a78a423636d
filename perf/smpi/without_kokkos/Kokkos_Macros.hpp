// Stands for Kokkos where the code that communicates is compiled alone.
#pragma once

#define KOKKOS_INLINE_FUNCTION inline
