// mistake NAME: breaks the named rule of the CUDA runtime, for the test of the mock that has to see it.
#include <cstdio>
#include <string>
#include <vector>

#include <cuda_runtime.h>

__global__ void nothing() {}

int main(int argc, char** argv) {
  const std::string mistake = argc == 2 ? argv[1] : "";
  constexpr std::size_t size = 1000;
  std::vector<char> values(size + 1);
  void* memory = nullptr;
  cudaMalloc(&memory, size);
  cudaStream_t stream = nullptr;
  cudaStreamCreate(&stream);
  if (mistake == "past_end") cudaMemcpy(memory, values.data(), size + 1, cudaMemcpyHostToDevice);
  if (mistake == "direction") cudaMemcpy(memory, values.data(), size, cudaMemcpyDeviceToHost);
  if (mistake == "host_read") std::printf("%d\n", *static_cast<const volatile char*>(memory));
  if (mistake == "block") nothing<<<1, 1025, 0, stream>>>();
  if (mistake == "unknown_kernel") cudaLaunchKernel(&values, 1, 1, nullptr, 0, stream);
  if (mistake == "shared") nothing<<<1, 1, 49153, stream>>>();
  nothing<<<1, 1, 0, stream>>>();
  cudaStream_t other = nullptr;
  cudaStreamCreate(&other);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  nothing<<<1, 1, 0, stream>>>();
  if (mistake == "captured_wait") cudaStreamSynchronize(stream);
  if (mistake == "captured_malloc") cudaMalloc(&memory, size);
  if (mistake == "captured_blocking_copy") cudaMemcpy(memory, values.data(), size, cudaMemcpyHostToDevice);
  if (mistake == "captured_pageable_copy") cudaMemcpyAsync(memory, values.data(), size, cudaMemcpyHostToDevice, stream);
  if (mistake == "captured_stream") nothing<<<1, 1, 0, other>>>();
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  cudaGraphExec_t executable = nullptr;
  cudaGraphInstantiateWithFlags(&executable, graph, 0);
  for (int i = 0; i < 3; ++i) cudaGraphLaunch(executable, stream);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  if (mistake == "destroyed_graph") cudaGraphLaunch(executable, stream);
  cudaStreamDestroy(other);
  cudaMemcpy(memory, values.data(), size, cudaMemcpyHostToDevice);
  cudaMemcpy(values.data(), memory, size, cudaMemcpyDeviceToHost);
  cudaStreamDestroy(stream);
  if (mistake == "destroyed_stream") nothing<<<1, 1, 0, stream>>>();
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  cudaEventDestroy(event);
  if (mistake == "destroyed_event") cudaEventRecord(event, nullptr);
  if (mistake != "leak") cudaFree(memory);
  if (mistake == "freed_twice") cudaFree(memory);
  if (mistake == "use_after_free") cudaMemcpy(values.data(), memory, 1, cudaMemcpyDeviceToHost);
}
