// A CUDA runtime without a GPU, for LD_PRELOAD: kernels do nothing, device memory is pages that the host may not touch,
// and launches, copies and streams are checked as a runtime would, or strictly.  A complaint ends the process with exit
// code 97.  At the end of the process the calls are counted into $PETAFLOW_MOCK_CUDA, "count what" in each line.
#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

namespace {

constexpr int kExitCode = 97;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kRegion = std::size_t{1} << 40;  // addresses, none of which is used twice

/// All that the runtime knows; never destroyed, since programs free memory in their last destructors.
struct State {
  std::recursive_mutex mutex;
  std::byte* region = nullptr;
  std::byte* next = nullptr;
  std::map<std::byte*, std::size_t> allocations;  // bytes
  std::map<const void*, std::string> kernels;     // device names by the host's stand-ins
  std::set<cudaStream_t> streams, capturing;
  std::set<cudaEvent_t> events;
  std::map<std::string, long> counts;
};
State& state() {
  static auto* const all = new State;
  return *all;
}

[[noreturn, gnu::format(printf, 1, 2)]] void complain(const char* format, ...) {
  std::fputs("mock CUDA: ", stderr);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::fflush(stderr);
  void* frames[16];
  backtrace_symbols_fd(frames, backtrace(frames, 16), STDERR_FILENO);
  _exit(kExitCode);
}

bool on_device(const void* address) {
  const auto* const at = static_cast<const std::byte*>(address);
  return state().region != nullptr && at >= state().region && at < state().region + kRegion;
}

void on_fault(int, siginfo_t* signal, void*) {
  if (!on_device(signal->si_addr)) {
    std::signal(SIGSEGV, SIG_DFL);  // somebody else's: it comes again
    return;
  }
  complain("the host touches device memory at %p", signal->si_addr);
}

void start() {
  if (state().region != nullptr) return;
  void* const memory = mmap(nullptr, kRegion, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) complain("no addresses for device memory");
  state().region = state().next = static_cast<std::byte*>(memory);
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
}

[[gnu::destructor]] void write_counts() {
  const char* const path = std::getenv("PETAFLOW_MOCK_CUDA");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  for (const auto& [what, count] : state().counts) std::fprintf(file, "%ld %s\n", count, what.c_str());
  std::fclose(file);
}

/// The allocation that holds all of the bytes, which may then be read and written.
class Opened {
 public:
  Opened(const char* call, const void* memory, std::size_t bytes) {
    if (!on_device(memory)) return;
    auto* const begin = static_cast<std::byte*>(const_cast<void*>(memory));
    const auto behind = state().allocations.upper_bound(begin);
    if (behind == state().allocations.begin()) complain("%s: %p is not allocated", call, memory);
    const auto [first, size] = *std::prev(behind);
    if (begin + bytes > first + size)
      complain("%s of %zu bytes at byte %td of an allocation of %zu", call, bytes, begin - first, size);
    first_ = first;
    bytes_ = size;
    mprotect(first_, bytes_, PROT_READ | PROT_WRITE);
  }
  ~Opened() {
    if (first_ != nullptr) mprotect(first_, bytes_, PROT_NONE);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  std::byte* first_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Counts; what waits for the device, or allocates, may not be called while a stream is captured.
std::unique_lock<std::recursive_mutex> call(const char* name, bool in_capture = true) {
  std::unique_lock lock(state().mutex);
  start();
  ++state().counts[name];
  if (!in_capture && !state().capturing.empty()) complain("%s while a stream is captured", name);
  return lock;
}

void check_stream(const char* name, cudaStream_t stream) {
  if (stream == nullptr && !state().capturing.empty()) complain("%s on the legacy stream during capture", name);
  if (stream != nullptr && !state().streams.contains(stream)) complain("%s on a stream that does not exist", name);
}

cudaError_t copy(const char* name, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = on_device(to), from_device = on_device(from);
  ++state().counts[std::string(name) + (from_device ? " from device" : " from host") +
                   (to_device ? " to device" : " to host")];
  const auto expect = [&](cudaMemcpyKind named, bool wants_to, bool wants_from) {
    if (kind == named && (to_device != wants_to || from_device != wants_from))
      complain("%s: the direction does not fit the addresses", name);
  };
  expect(cudaMemcpyHostToDevice, true, false);
  expect(cudaMemcpyDeviceToHost, false, true);
  expect(cudaMemcpyDeviceToDevice, true, true);
  const Opened source(name, from, bytes), target(name, to, bytes);
  std::memmove(to, from, bytes);
  return cudaSuccess;
}

struct LaunchConfig {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};
thread_local std::vector<LaunchConfig> configs;

}  // namespace

extern "C" {
// What nvcc's code calls; the names are the runtime's.  NOLINTBEGIN
void** __cudaRegisterFatBinary(void*) {
  static void* handle[1];
  return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*, int*) {
  state().kernels[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  configs.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  const LaunchConfig config = configs.back();
  configs.pop_back();
  *grid = config.grid, *block = config.block, *shared_bytes = config.shared_bytes;
  std::memcpy(stream, &config.stream, sizeof config.stream);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  const auto lock = call("launch");
  const auto found = state().kernels.find(kernel);
  if (found == state().kernels.end()) complain("launch of an unknown kernel");
  const char* const name = found->second.c_str();
  if (stream == nullptr) ++state().counts["launch on the legacy stream"];
  check_stream(name, stream);
  const bool fits = grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && block.x >= 1 && block.y >= 1 && block.z >= 1 &&
                    grid.x <= 0x7FFFFFFF && grid.y <= 65535 && grid.z <= 65535 && block.z <= 64 &&
                    std::size_t{block.x} * block.y * block.z <= 1024;
  if (!fits) {
    complain("%s: no GPU takes %u x %u x %u blocks of %u x %u x %u threads", name, grid.x, grid.y, grid.z, block.x,
             block.y, block.z);
  }
  if (shared_bytes > 49152) complain("%s: %zu bytes of shared memory", name, shared_bytes);
  if (found->second.find("query_cuda_kernel_arch") != std::string::npos) {  // Kokkos asks what it was compiled for
    int* const answer = *static_cast<int**>(arguments[0]);
    const Opened memory("query", answer, sizeof *answer);
    *answer = 900;
  }
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = static_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return device == 0 ? cudaSuccess : cudaErrorInvalidDevice; }
cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {};
  std::strcpy(properties->name, "mock of an H200");
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = std::size_t{141} << 30;
  properties->sharedMemPerBlock = 49152;
  properties->sharedMemPerMultiprocessor = 233472;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->maxGridSize[0] = 2147483647;
  properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
  properties->maxThreadsDim[2] = 64;
  properties->unifiedAddressing = properties->concurrentManagedAccess = 1;
  properties->l2CacheSize = 62914560;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const auto lock = call("cudaMalloc", false);
  const std::size_t pages = (bytes + kPage - 1) / kPage * kPage;
  if (bytes == 0 || bytes > kRegion / 2 || state().next + pages + kPage > state().region + kRegion)
    return *memory = nullptr, cudaErrorMemoryAllocation;
  *memory = state().next;
  state().allocations[state().next] = bytes;
  state().next += pages + kPage;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const auto lock = call("cudaFree", false);
  if (memory == nullptr) return cudaSuccess;
  const auto found = state().allocations.find(static_cast<std::byte*>(memory));
  if (found == state().allocations.end()) complain("cudaFree of what was not allocated: %p", memory);
  madvise(found->first, found->second, MADV_DONTNEED);
  state().allocations.erase(found);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const auto lock = call("cudaMallocHost", false);
  return *memory = std::calloc(1, bytes), cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  const auto lock = call("cudaHostAlloc", false);
  return *memory = std::calloc(1, bytes), cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) { return std::free(memory), cudaSuccess; }
cudaError_t cudaMallocManaged(void** memory, size_t bytes, unsigned) {
  const auto lock = call("cudaMallocManaged", false);
  return *memory = std::calloc(1, bytes), cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const auto lock = call("cudaMemcpy", false);
  return copy("cudaMemcpy", to, from, bytes, kind);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const auto lock = call("cudaMemcpyAsync");
  check_stream("cudaMemcpyAsync", stream);
  return copy("cudaMemcpyAsync", to, from, bytes, kind);
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  const auto lock = call("cudaMemset", false);
  const Opened target("cudaMemset", memory, bytes);
  return std::memset(memory, value, bytes), cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t stream) {
  const auto lock = call("cudaMemsetAsync");
  check_stream("cudaMemsetAsync", stream);
  const Opened target("cudaMemsetAsync", memory, bytes);
  return std::memset(memory, value, bytes), cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void*, const void*, size_t, size_t, cudaMemcpyKind) {
  const auto lock = call("cudaMemcpyToSymbol", false);
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbolAsync(const void*, const void*, size_t, size_t, cudaMemcpyKind, cudaStream_t stream) {
  const auto lock = call("cudaMemcpyToSymbolAsync");
  check_stream("cudaMemcpyToSymbolAsync", stream);
  return cudaSuccess;
}
cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned, cudaStream_t) { return cudaSuccess; }

cudaError_t cudaDeviceSynchronize() {
  const auto lock = call("cudaDeviceSynchronize", false);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const auto lock = call("cudaStreamSynchronize", false);
  check_stream("cudaStreamSynchronize", stream);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto lock = call("cudaEventSynchronize", false);
  if (!state().events.contains(event)) complain("cudaEventSynchronize of an event that does not exist");
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const auto lock = call("cudaStreamCreate", false);
  *stream = reinterpret_cast<cudaStream_t>(new char);
  state().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) { return cudaStreamCreateWithFlags(stream, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto lock = call("cudaStreamDestroy", false);
  if (state().streams.erase(stream) == 0) complain("cudaStreamDestroy of a stream that does not exist");
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const auto lock = call("cudaStreamBeginCapture");
  if (stream == nullptr) complain("capture of the legacy stream");
  state().capturing.insert(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto lock = call("cudaStreamEndCapture");
  if (state().capturing.erase(stream) == 0) complain("cudaStreamEndCapture without a capture");
  *graph = reinterpret_cast<cudaGraph_t>(new char);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  const auto lock = call("cudaEventCreate", false);
  *event = reinterpret_cast<cudaEvent_t>(new char);
  state().events.insert(*event);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return state().events.erase(event), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto lock = call("cudaEventRecord");
  check_stream("cudaEventRecord", stream);
  if (!state().events.contains(event)) complain("cudaEventRecord of an event that does not exist");
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->numRegs = 64;
  attributes->maxDynamicSharedSizeBytes = 49152;
  attributes->maxThreadsPerBlock = 1024;
  attributes->binaryVersion = attributes->ptxVersion = 90;
  return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "an error of the mock CUDA runtime"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the mock CUDA runtime"; }
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
cudaError_t cudaCreateTextureObject(cudaTextureObject_t*, const cudaResourceDesc*, const cudaTextureDesc*,
                                    const cudaResourceViewDesc*) {
  return cudaErrorNotSupported;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  *attributes = {};
  attributes->type = on_device(address) ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}
// NOLINTEND
}
