// planted_mistake NAME: breaks the named rule about a GPU's memory, for the tests of what finds such mistakes.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include "device_memory.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kCount = 1000;

void fill(const Context& context, float* to, const float* from, std::int64_t count = kCount) {
  copy(context, from, to, count);
}

bool make(const std::string& mistake) {
  const Context context;
  const std::vector<float> values(kCount, 3.0F);
  auto* const memory = static_cast<float*>(Kokkos::kokkos_malloc<MemorySpace>("planted", kCount * sizeof(float)));
  if (mistake == "host_read") {
    const volatile float value = memory[7];
    std::printf("read %g\n", static_cast<double>(value));
  } else if (mistake == "host_write") {
    memory[8] = 1;
  } else if (mistake == "host_pointer") {
    fill(context, memory, values.data());
  } else if (mistake == "host_pointer_in_struct") {
    StepState state;
    const std::vector<std::int64_t> samples(kCount, 3);
    state.sample = samples.data();
    const testing_support::DeviceState device_state(state);
  } else if (mistake == "host_loop") {
    testing_support::to_device(values, memory);
    float sum = 0;
    Kokkos::parallel_reduce(
        "planted_loop", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, static_cast<int>(kCount)),
        [=](int i, float& part) { part += memory[i]; }, sum);
    std::printf("sum %g\n", static_cast<double>(sum));
  } else if (mistake == "missing_copy") {
    std::printf("read %g\n", static_cast<double>(testing_support::to_host(memory, kCount)[9]));
  } else if (mistake == "missing_copy_before_kernel") {
    auto* const result = static_cast<float*>(Kokkos::kokkos_malloc<MemorySpace>("result", kCount * sizeof(float)));
    fill(context, result, memory);
    std::printf("read %g\n", static_cast<double>(testing_support::to_host(result, kCount)[9]));
  } else if (mistake == "kernel_past_end") {
    auto* const more = static_cast<float*>(Kokkos::kokkos_malloc<MemorySpace>("more", 2 * kCount * sizeof(float)));
    fill(context, memory, more, 2 * kCount);
  } else if (mistake == "kernel_on_freed") {
    auto* const gone = static_cast<float*>(Kokkos::kokkos_malloc<MemorySpace>("gone", kCount * sizeof(float)));
    Kokkos::kokkos_free<MemorySpace>(gone);
    fill(context, memory, gone);
  } else if (mistake == "copy_past_end") {
    std::printf("read %g\n", static_cast<double>(testing_support::to_host(memory, 2 * kCount)[9]));
  } else if (mistake == "host_memcpy") {
    std::vector<float> there(kCount);
    std::memcpy(there.data(), memory, kCount * sizeof(float));
    std::printf("read %g\n", static_cast<double>(there[9]));
  } else if (mistake == "host_algorithm") {
    std::fill_n(memory, kCount, 3.0F);
  } else if (mistake == "host_view") {
    const Kokkos::View<float*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> view(memory, kCount);
    view(11) = 3;
  } else if (mistake == "none") {
    testing_support::to_device(values, memory);
    fill(context, memory, memory);
    testing_support::to_host(memory, kCount);
  } else {
    return false;
  }
  Kokkos::kokkos_free<MemorySpace>(memory);
  return true;
}

}  // namespace
}  // namespace petaflow

int main(int argc, char** argv) {
  const Kokkos::ScopeGuard kokkos(argc, argv);
  if (argc == 2 && petaflow::make(argv[1])) return 0;
  std::fputs(
      "planted_mistake host_read|host_write|host_memcpy|host_algorithm|host_view|host_loop|host_pointer|"
      "host_pointer_in_struct|missing_copy|missing_copy_before_kernel|kernel_past_end|kernel_on_freed|copy_past_end|"
      "none\n",
      stderr);
  return 1;
}
