// A CUDA runtime without a GPU, put before the real one by LD_PRELOAD.  Kernels do nothing, device memory is addresses
// that the host may not touch and starts as zeros, and what a program asks for is checked: kernels, their grids,
// streams, events, and where copies begin and end.  The first complaint ends the process with exit code 97; memory that
// nobody has freed is one.  A process without complaint says at its end how often it called what.  Calls that are not
// here reach the real runtime, which finds no device.
#include <cstdlib>
#include <cstring>

#include "state.hpp"

using namespace mock_cuda;

extern "C" {
// Functions that nvcc's code calls.
void** __cudaRegisterFatBinary(void*) {
  static void* handle[1];
  return handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char* host, char*, const char*, int, size_t bytes, int, int) {
  state().symbols[host] = bytes;
}
void __cudaRegisterFunction(void**, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  state().kernels[host] = name;
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  configs.push_back({grid, block, shared_bytes, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
  if (configs.empty()) complain("launch without a grid");
  const LaunchConfig config = configs.back();
  configs.pop_back();
  *grid = config.grid;
  *block = config.block;
  *shared_bytes = config.shared_bytes;
  std::memcpy(stream, &config.stream, sizeof config.stream);
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  const auto lock = enter(state().captured == nullptr ? "launches" : "captured launches");
  const char* const name = kernel_name("launch", kernel);
  check_stream(name, stream);
  const bool fits = grid.x >= 1 && grid.y >= 1 && grid.z >= 1 && block.x >= 1 && block.y >= 1 && block.z >= 1 &&
                    grid.x <= kGridX && grid.y <= kGridYZ && grid.z <= kGridYZ && block.z <= kThreadsInZ &&
                    std::size_t{block.x} * block.y * block.z <= kThreadsPerBlock;
  if (!fits) {
    complain("%s: no GPU takes %u x %u x %u blocks of %u x %u x %u threads", name, grid.x, grid.y, grid.z, block.x,
             block.y, block.z);
  }
  if (shared_bytes > kSharedPerBlock) complain("%s: %zu bytes of shared memory", name, shared_bytes);
  // Of Kokkos, for what is too large for a kernel's arguments (kernels/launch.hpp).
  if (std::strstr(name, "launch_constant_memory") != nullptr || std::strstr(name, "launch_global_memory") != nullptr)
    complain("%s: not launched with its functor as an argument", name);
  // Kokkos asks a kernel what it was compiled for, and refuses a wrong answer.
  if (std::strstr(name, "query_cuda_kernel_arch") != nullptr) {
    const int answer = PETAFLOW_CUDA * 10;
    std::memcpy(memory_at(name, *static_cast<void**>(arguments[0]), sizeof answer).contents, &answer, sizeof answer);
  }
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(const void** kernel, const void* host) {
  *kernel = host;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const std::lock_guard lock(state().mutex);
  kernel_name("cudaFuncGetAttributes", kernel);
  *attributes = {};
  attributes->numRegs = 64;
  attributes->maxDynamicSharedSizeBytes = kSharedPerBlock;
  attributes->maxThreadsPerBlock = kThreadsPerBlock;
  attributes->binaryVersion = attributes->ptxVersion = PETAFLOW_CUDA;
  return cudaSuccess;
}
cudaError_t cudaFuncSetCacheConfig(const void* kernel, cudaFuncCache) {
  const std::lock_guard lock(state().mutex);
  kernel_name("cudaFuncSetCacheConfig", kernel);
  return cudaSuccess;
}

// The devices: H200s, or as MOCK_CUDA_DRIVER (the version that it knows), MOCK_CUDA_DEVICES and MOCK_CUDA_CAPABILITY
// say.
cudaError_t cudaDriverGetVersion(int* version) {
  *version = number_of("MOCK_CUDA_DRIVER", CUDART_VERSION);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  if (number_of("MOCK_CUDA_DRIVER", CUDART_VERSION) < CUDART_VERSION) return cudaErrorInsufficientDriver;
  *count = number_of("MOCK_CUDA_DEVICES", kDevices);
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int device) {
  const std::lock_guard lock(state().mutex);
  if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
  state().gpu = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  const std::lock_guard lock(state().mutex);
  *device = state().gpu;
  return cudaSuccess;
}
cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {};
  properties->uuid.bytes[0] = static_cast<char>(device + 1);
  std::strcpy(properties->name, "mock of an H200");
  const int capability = number_of("MOCK_CUDA_CAPABILITY", PETAFLOW_CUDA);
  properties->major = capability / 10;
  properties->minor = capability % 10;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = device_memory();
  properties->sharedMemPerBlock = kSharedPerBlock;
  properties->sharedMemPerMultiprocessor = 228 << 10;
  properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
  properties->warpSize = kWarp;
  properties->maxThreadsPerBlock = kThreadsPerBlock;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->maxBlocksPerMultiProcessor = 32;
  properties->maxGridSize[0] = kGridX;
  properties->maxGridSize[1] = properties->maxGridSize[2] = kGridYZ;
  properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = kThreadsPerBlock;
  properties->maxThreadsDim[2] = kThreadsInZ;
  properties->unifiedAddressing = properties->concurrentManagedAccess = 1;
  properties->l2CacheSize = 60 << 20;
  return cudaSuccess;
}

// Memory.
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  const auto lock = enter_uncaptured("cudaMalloc");
  State& all = state();
  if (all.device == nullptr) reserve_addresses();
  const std::size_t pages = (bytes / kAlignment + 2) * kAlignment;  // one of them stays free
  if (bytes == 0 || all.live + bytes > device_memory() || pages > kRegion - all.used) {
    *memory = nullptr;
    return cudaErrorMemoryAllocation;
  }
  *memory = all.device + all.used;
  all.on_device[all.device + all.used] = bytes;
  all.used += pages;
  all.live += bytes;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const auto lock = enter("cudaMemGetInfo");
  *total = device_memory();
  *free = *total - state().live;
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  const auto lock = enter_uncaptured("cudaFree");
  if (memory == nullptr) return cudaSuccess;
  State& all = state();
  const auto found = all.on_device.find(static_cast<std::byte*>(memory));
  if (found == all.on_device.end()) complain("cudaFree: %p is not allocated on the device", memory);
  madvise(all.contents + (found->first - all.device), found->second, MADV_DONTNEED);
  all.live -= found->second;
  all.on_device.erase(found);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) { return allocate_on_host("cudaMallocHost", memory, bytes); }
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  return allocate_on_host("cudaHostAlloc", memory, bytes);
}
cudaError_t cudaFreeHost(void* memory) {
  const auto lock = enter_uncaptured("cudaFreeHost");
  if (memory != nullptr && state().on_host.erase(static_cast<std::byte*>(memory)) == 0)
    complain("cudaFreeHost: %p is no pinned memory", memory);
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const std::lock_guard lock(state().mutex);
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  if (is_device_address(address)) attributes->type = cudaMemoryTypeDevice;
  if (allocation_of(state().on_host, static_cast<const std::byte*>(address)) != nullptr)
    attributes->type = cudaMemoryTypeHost;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const auto lock = enter_uncaptured("cudaMemcpy");
  return copy("cudaMemcpy", to, from, bytes, kind);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const auto lock = enter("cudaMemcpyAsync");
  check_stream("cudaMemcpyAsync", stream);
  return copy("cudaMemcpyAsync", to, from, bytes, kind);
}
cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  const auto lock = enter_uncaptured("cudaMemset");
  const Memory target = memory_at("cudaMemset", memory, bytes);
  if (!target.on_device) complain("cudaMemset: %p is not on the device", memory);
  std::memset(target.contents, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyToSymbol(const void* symbol, const void*, size_t bytes, size_t offset, cudaMemcpyKind) {
  const auto lock = enter_uncaptured("cudaMemcpyToSymbol");
  const auto found = state().symbols.find(symbol);
  if (found == state().symbols.end()) complain("cudaMemcpyToSymbol of a symbol that is not registered");
  if (offset + bytes > found->second) {
    complain("cudaMemcpyToSymbol of %zu bytes at byte %zu of a symbol of %zu", bytes, offset, found->second);
  }
  return cudaSuccess;
}

// Streams, events, and waiting for them.
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  const auto lock = enter_uncaptured("cudaStreamCreate");
  *stream = reinterpret_cast<cudaStream_t>(new char);  // never deleted: no other stream looks the same
  state().streams.insert(*stream);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return cudaStreamCreate(stream); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const auto lock = enter_uncaptured("cudaStreamDestroy");
  if (state().streams.erase(stream) == 0) complain("cudaStreamDestroy of a stream that does not exist");
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) {
  const auto lock = enter("cudaEventCreate");
  *event = reinterpret_cast<cudaEvent_t>(new char);
  state().events[*event];
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const auto lock = enter("cudaEventDestroy");
  check_event("cudaEventDestroy", event);
  state().events.erase(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  const auto lock = enter("cudaEventRecord");
  Event& recorded = check_event("cudaEventRecord", event);
  check_stream("cudaEventRecord", stream);
  const bool captured = state().captured != nullptr, external = flags == cudaEventRecordExternal;
  if (external && !captured) complain("cudaEventRecord: external events are those of a capture");
  const auto fork = state().forks.find(stream);
  recorded = {stream, captured && !external, fork == state().forks.end() ? 0 : fork->second.calls};
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const auto lock = enter("cudaStreamWaitEvent");
  State& all = state();
  const Event& awaited = check_event("cudaStreamWaitEvent", event);
  if (awaited.stream == nullptr) complain("cudaStreamWaitEvent for an event that was never recorded");
  if (awaited.in_graph != (all.captured != nullptr))
    complain("cudaStreamWaitEvent: one of stream and event is of a capture, the other is not");
  if (all.captured != nullptr && stream != all.captured) all.forks[stream];
  check_stream("cudaStreamWaitEvent", stream);
  const auto from = all.forks.find(awaited.stream);
  if (stream == all.captured && from != all.forks.end()) from->second.joined = awaited.calls;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const auto lock = enter_uncaptured("cudaEventElapsedTime");
  check_event_outside("cudaEventElapsedTime", begin);
  check_event_outside("cudaEventElapsedTime", end);
  *milliseconds = 1;
  return cudaSuccess;
}
// No event is reached at the first look after it was recorded, so that what waits for an event has to look again.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto lock = enter_uncaptured("cudaEventQuery");
  return std::exchange(check_event_outside("cudaEventQuery", event).looked_for, true) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const auto lock = enter_uncaptured("cudaEventSynchronize");
  check_event_outside("cudaEventSynchronize", event);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const auto lock = enter_uncaptured("cudaStreamSynchronize");
  check_stream("cudaStreamSynchronize", stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  const auto lock = enter_uncaptured("cudaDeviceSynchronize");
  return cudaSuccess;
}

// Graphs: kernels do nothing in them either; copies and sums are kept for each launch.
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const auto lock = enter_uncaptured("cudaStreamBeginCapture");
  check_stream("cudaStreamBeginCapture", stream);
  if (stream == nullptr) complain("cudaStreamBeginCapture of the legacy stream");
  if (mode != cudaStreamCaptureModeThreadLocal)
    complain("cudaStreamBeginCapture: another thread may break the capture");
  state().captured = stream;
  state().capture = reinterpret_cast<cudaGraph_t>(new char);
  state().graphs[state().capture];
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const auto lock = enter("cudaStreamEndCapture");
  check_stream("cudaStreamEndCapture", stream);
  if (state().captured == nullptr) complain("cudaStreamEndCapture of a stream that is not captured");
  for (const auto& [other, fork] : state().forks) {
    if (fork.joined < fork.calls) complain("cudaStreamEndCapture: another stream's work is not waited for");
  }
  state().forks.clear();
  *graph = state().capture;
  state().captured = nullptr;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const auto lock = enter_uncaptured("cudaGraphInstantiate");
  if (!state().graphs.contains(graph)) complain("cudaGraphInstantiate of a graph that does not exist");
  *executable = reinterpret_cast<cudaGraphExec_t>(new char);
  state().executables[*executable] = graph;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const auto lock = enter_uncaptured("cudaGraphLaunch");
  check_stream("cudaGraphLaunch", stream);
  const auto found = state().executables.find(executable);
  if (found == state().executables.end()) complain("cudaGraphLaunch of a graph that does not exist");
  for (const auto& work : state().graphs.at(found->second)) work();
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const auto lock = enter_uncaptured("cudaGraphExecDestroy");
  if (state().executables.erase(executable) == 0) complain("cudaGraphExecDestroy of a graph that does not exist");
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const auto lock = enter_uncaptured("cudaGraphDestroy");
  if (state().graphs.erase(graph) == 0) complain("cudaGraphDestroy of a graph that does not exist");
  return cudaSuccess;
}

// No call fails but for want of memory, which its status says.
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "an error of the mock CUDA runtime";
}
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
}
