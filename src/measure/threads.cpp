#include "measure/threads.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <Kokkos_Core.hpp>
#ifdef _OPENMP
#include <omp.h>
#endif

namespace petaflow {
namespace {

int cores_of_process() {
#ifdef _OPENMP
  return omp_get_num_procs();  // this thread may be bound to one of them already (OMP_PROC_BIND)
#else
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
#endif
}

}  // namespace

std::vector<std::string> kokkos_arguments(const Communicator& comm, const std::vector<std::string>& given) {
  std::vector<std::string> arguments = given;
  arguments.emplace_back("--kokkos-disable-warnings");  // its advice on OMP_PROC_BIND is for one process per machine
  const bool said = std::getenv("OMP_NUM_THREADS") != nullptr ||
                    std::any_of(given.begin(), given.end(), [](const std::string& argument) {
                      return argument.find("threads") != std::string::npos;
                    });
  if (said || comm.node_size() == 1) return arguments;
  // A rank that the launcher has bound takes its cores; unbound ranks see all of them and share.
  const int online = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int threads = std::max(1, std::min(cores_of_process(), online / comm.node_size()));
#if KOKKOS_VERSION >= 30700
  arguments.push_back("--kokkos-num-threads=" + std::to_string(threads));
#else
  arguments.push_back("--kokkos-threads=" + std::to_string(threads));
#endif
  return arguments;
}

}  // namespace petaflow
