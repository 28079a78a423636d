// What the mock CUDA runtime knows of a process, and the checks that its calls share.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <execinfo.h>

struct ncclComm;
using ncclComm_t = ncclComm*;

namespace mock_cuda {

constexpr int kExitCode = 97;
constexpr std::size_t kAlignment = 4096;
constexpr std::size_t kRegion = std::size_t{1} << 40;  // bytes of addresses, none of which is used twice
constexpr int kDevices = 8;
constexpr int kDeviceMegabytes = 141'000;
constexpr std::size_t kSharedPerBlock = 48 << 10;
constexpr unsigned kThreadsPerBlock = 1024, kThreadsInZ = 64, kWarp = 32;
constexpr unsigned kGridX = 0x7FFFFFFF, kGridYZ = 0xFFFF;

/// Where an event was recorded last.
struct Event {
  cudaStream_t stream = nullptr;  // nullptr: nowhere
  bool in_graph = false;          // for a capture's own use
  std::size_t calls = 0;          // that the stream had got in the capture
  bool looked_for = false;
};

/// A stream that waited for an event of a captured one: what it is given becomes a part of the graph, too.
struct Fork {
  std::size_t calls = 0, joined = 0;  // given to it, and that the captured stream has waited for
};

/// All that the runtime knows; never destroyed, since programs free memory in their last destructors.
struct State {
  std::mutex mutex;
  int gpu = 0;                    // of the node
  std::byte* device = nullptr;    // what programs know: pages that nobody may touch
  std::byte* contents = nullptr;  // what lies there
  std::size_t used = 0, live = 0;
  std::map<const std::byte*, std::size_t> on_device, on_host;  // bytes of each allocation; on_host: pinned
  std::map<const void*, std::string> kernels;                  // device names by the host's stand-ins
  std::map<const void*, std::size_t> symbols;                  // bytes
  std::set<cudaStream_t> streams;
  std::map<cudaEvent_t, Event> events;
  std::map<cudaGraph_t, std::vector<std::function<void()>>> graphs;  // their copies and sums
  std::map<cudaGraphExec_t, cudaGraph_t> executables;
  cudaStream_t captured = nullptr;  // what is given to it becomes a part of `capture`
  cudaGraph_t capture = nullptr;
  std::map<cudaStream_t, Fork> forks;  // other streams that became parts of it
  std::set<ncclComm_t> communicators;
  std::map<std::string, long> counts;
};
inline State& state() {
  static auto* const all = new State;
  return *all;
}

[[noreturn, gnu::format(printf, 1, 2)]] inline void complain(const char* format, ...) {
  std::fputs("mock CUDA: ", stderr);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::fflush(nullptr);
  void* frames[16];
  backtrace_symbols_fd(frames, backtrace(frames, 16), STDERR_FILENO);
  _exit(kExitCode);
}

/// Of the environment, which may make the mock another machine.
inline int number_of(const char* variable, int otherwise) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? std::atoi(text) : otherwise;
}
inline std::size_t device_memory() {
  return std::size_t{1'000'000} * static_cast<std::size_t>(number_of("MOCK_CUDA_MEGABYTES", kDeviceMegabytes));
}

inline bool is_device_address(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  return state().device != nullptr && at >= state().device && at < state().device + kRegion;
}

inline void on_fault(int, siginfo_t* signal, void*) {
  if (is_device_address(signal->si_addr)) complain("the host touches device memory at %p", signal->si_addr);
  std::signal(SIGSEGV, SIG_DFL);  // somebody else's: it comes again
}

inline void reserve_addresses() {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const device = mmap(nullptr, kRegion, PROT_NONE, flags, -1, 0);
  void* const contents = mmap(nullptr, kRegion, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (device == MAP_FAILED || contents == MAP_FAILED) complain("no addresses for device memory");
  state().device = static_cast<std::byte*>(device);
  state().contents = static_cast<std::byte*>(contents);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

[[gnu::destructor]] inline void finish() {
  const State& all = state();
  if (all.counts.empty()) return;  // another program that was started with the same LD_PRELOAD
  const auto none_left = [](std::size_t left, const char* what) {
    if (left != 0) complain("%zu %s left at the end", left, what);
  };
  none_left(all.on_device.size(), "allocations on the device");
  none_left(all.on_host.size(), "allocations of pinned memory");
  none_left(all.streams.size(), "streams");
  none_left(all.events.size(), "events");
  none_left(all.graphs.size() + all.executables.size(), "graphs");
  none_left(all.communicators.size(), "communicators of NCCL");
  std::string line = "mock CUDA: ";
  for (const auto& [call, count] : all.counts) line += call + ' ' + std::to_string(count) + ", ";
  std::fprintf(stderr, "%sno complaint\n", line.c_str());
}

/// Counts the call, and lets no other thread in until the lock goes.
inline std::unique_lock<std::mutex> enter(const char* call) {
  std::unique_lock lock(state().mutex);
  ++state().counts[call];
  return lock;
}

/// The same for a call that breaks a capture.
inline std::unique_lock<std::mutex> enter_uncaptured(const char* call) {
  std::unique_lock lock = enter(call);
  if (state().captured != nullptr) complain("%s while a stream is captured", call);
  return lock;
}

inline void check_stream(const char* call, cudaStream_t stream) {
  if (stream == nullptr) {
    ++state().counts["on the legacy stream"];
  } else if (!state().streams.contains(stream)) {
    complain("%s on a stream that does not exist", call);
  }
  if (state().captured == nullptr || stream == state().captured) return;
  const auto fork = state().forks.find(stream);
  if (fork == state().forks.end()) complain("%s on another stream than that which is captured", call);
  ++fork->second.calls;
}

inline Event& check_event(const char* call, cudaEvent_t event) {
  const auto found = state().events.find(event);
  if (found == state().events.end()) complain("%s of an event that does not exist", call);
  return found->second;
}

/// For the host, to which a graph's own events say nothing.
inline Event& check_event_outside(const char* call, cudaEvent_t event) {
  Event& found = check_event(call, event);
  if (found.in_graph) complain("%s of an event that was recorded in a graph", call);
  return found;
}

inline const char* kernel_name(const char* call, const void* kernel) {
  const auto found = state().kernels.find(kernel);
  if (found == state().kernels.end()) complain("%s of a kernel that is not registered", call);
  return found->second.c_str();
}

/// The allocation that holds the address; nullptr: none of them.
inline const std::pair<const std::byte* const, std::size_t>* allocation_of(
    const std::map<const std::byte*, std::size_t>& allocations, const std::byte* at) {
  const auto behind = allocations.upper_bound(at);
  if (behind == allocations.begin()) return nullptr;
  const auto found = std::prev(behind);
  return at < found->first + found->second ? &*found : nullptr;
}

struct Memory {
  std::byte* contents;
  bool on_device, pinned;
};

/// So many bytes there, all of one allocation; complains otherwise.
inline Memory memory_at(const char* call, const void* address, std::size_t bytes) {
  auto* const at = static_cast<std::byte*>(const_cast<void*>(address));
  const bool on_device = is_device_address(at);
  const auto* const allocation = allocation_of(on_device ? state().on_device : state().on_host, at);
  if (on_device && allocation == nullptr) complain("%s: %p is not allocated on the device", call, address);
  if (allocation != nullptr && at + bytes > allocation->first + allocation->second) {
    complain("%s of %zu bytes at byte %td of an allocation of %zu", call, bytes, at - allocation->first,
             allocation->second);
  }
  return {on_device ? state().contents + (at - state().device) : at, on_device, !on_device && allocation != nullptr};
}

/// Does it now, or whenever the graph runs that is being captured.
inline void do_or_capture(std::function<void()> work) {
  if (state().captured == nullptr) {
    work();
  } else {
    state().graphs[state().capture].push_back(std::move(work));
  }
}

inline cudaError_t copy(const char* call, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  const Memory source = memory_at(call, from, bytes), target = memory_at(call, to, bytes);
  const auto expect = [&](cudaMemcpyKind named, bool from_device, bool to_device) {
    if (kind == named && (source.on_device != from_device || target.on_device != to_device))
      complain("%s: the direction does not fit the addresses", call);
  };
  expect(cudaMemcpyHostToHost, false, false);
  expect(cudaMemcpyHostToDevice, false, true);
  expect(cudaMemcpyDeviceToHost, true, false);
  expect(cudaMemcpyDeviceToDevice, true, true);
  if (target.on_device && source.on_device) ++state().counts["copies on the device"];
  for (const Memory& memory : {source, target}) {
    if (!memory.on_device && !memory.pinned) ++state().counts["copies of pageable memory"];
  }
  for (const Memory& memory : {source, target}) {
    if (state().captured != nullptr && !memory.on_device && !memory.pinned)
      complain("%s of pageable memory while a stream is captured", call);
  }
  do_or_capture([=] { std::memmove(target.contents, source.contents, bytes); });
  return cudaSuccess;
}

inline cudaError_t allocate_on_host(const char* call, void** memory, std::size_t bytes) {
  const auto lock = enter_uncaptured(call);
  *memory = std::calloc(1, bytes);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  state().on_host[static_cast<std::byte*>(*memory)] = bytes;
  return cudaSuccess;
}

struct LaunchConfig {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
inline thread_local std::vector<LaunchConfig> configs;

}  // namespace mock_cuda
