#include "data/idle_thread.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace petaflow {

void make_thread_idle() {
  cpu_set_t all, one;
  CPU_ZERO(&all);
  std::error_code ignored;
  for (std::filesystem::directory_iterator task("/proc/self/task", ignored), end; task != end;
       task.increment(ignored)) {
    const auto id = static_cast<pid_t>(std::atoi(task->path().filename().c_str()));
    if (sched_getaffinity(id, sizeof one, &one) == 0) CPU_OR(&all, &all, &one);
  }
  if (CPU_COUNT(&all) > 0) sched_setaffinity(0, sizeof all, &all);
  const sched_param none{};
  if (pthread_setschedparam(pthread_self(), SCHED_IDLE, &none) != 0) {
    setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), 19);
  }
}

}  // namespace petaflow
