// mistake NAME: breaks the named rule of the CUDA runtime, for the test of the mock that has to see it.
#include <cstdio>
#include <string>
#include <vector>

#include <cuda_runtime.h>
#ifdef PETAFLOW_HAVE_NCCL
#include <nccl.h>
#endif
#ifdef PETAFLOW_HAVE_CUDNN
#include "kernels/execution_cudnn.hpp"
#endif

__global__ void nothing() {}

#ifdef PETAFLOW_HAVE_NCCL
/// Two ranks in one process.
void sum(const std::string& mistake, cudaStream_t stream) {
  float* values = nullptr;
  cudaMalloc(reinterpret_cast<void**>(&values), 100 * sizeof *values);
  std::vector<float> on_host(100);
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t ranks[2];
  for (int rank = 0; rank < 2; ++rank) ncclCommInitRank(&ranks[rank], 2, id, rank);
  const auto all_reduce = [&](int rank, float* from, std::size_t count) {
    ncclAllReduce(from, values, count, ncclFloat32, ncclSum, ranks[rank], stream);
  };
  all_reduce(0, values, 60);
  all_reduce(1, values, mistake == "collective_order" ? 40 : 60);
  if (mistake == "collective_past_end") all_reduce(0, values + 41, 60);
  if (mistake == "collective_on_host") all_reduce(0, on_host.data(), 60);
  // Each of the ranks gets half of the sums, and sends it to the other.
  for (int rank = 0; rank < 2; ++rank) {
    float* const own = values + 20 * rank;
    if (mistake == "collective_kind" && rank == 1) {
      ncclAllGather(own, values, 20, ncclFloat32, ranks[rank], stream);
      continue;
    }
    ncclReduceScatter(values, mistake == "collective_place" ? values + 10 : own, 20, ncclFloat32, ncclSum, ranks[rank],
                      stream);
    const int last = mistake == "collective_root" ? rank : 1;
    ncclReduce(values + 40, values + 40, 1, ncclFloat32, ncclSum, last, ranks[rank], stream);
  }
  for (int rank = 0; rank < 2; ++rank) {
    ncclAllGather(values + 20 * rank, values, mistake == "collective_gathers_past_end" ? 51 : 20, ncclFloat32,
                  ranks[rank], stream);
    ncclBroadcast(values + 40, values + 40, 1, ncclFloat32, 1, ranks[rank], stream);
  }
  all_reduce(0, values, 40);
  if (mistake != "collective_missing") all_reduce(1, values, 40);
  for (const ncclComm_t rank : ranks) ncclCommDestroy(rank);
  cudaFree(values);
}
#endif

#ifdef PETAFLOW_HAVE_CUDNN
/// 64 to 64 channels by one tap on 16 x 16 pixels.
void convolve(const std::string& mistake, cudaStream_t stream) {
  using namespace petaflow::cudnn;
  const Tensor pixels{{1, 64, 16, 16}, {64 * 256, 1, 64 * 16, 64}}, weights{{64, 64, 1, 1}, {64, 1, 64, 64}};
  const std::vector<std::int64_t> none = {0, 0}, one = {1, 1};
  const Convolution convolution{Computes::kY, pixels, weights, pixels, none, none, one, one};
  std::string why;
  const Execution execution(make_plan(convolution, device_properties(why)));
  constexpr std::size_t size = 64 * 256 * sizeof(float);
  const std::size_t missing = mistake == "conv_workspace" ? 1 : 0;
  void* workspace = nullptr;
  cudaMalloc(&workspace, static_cast<std::size_t>(execution.workspace()) - missing);
  char* arrays[3];
  for (char*& array : arrays) cudaMalloc(reinterpret_cast<void**>(&array), size + 4);
  std::vector<char> on_host(size);
  const auto run = [&](void* x, void* on) { execution.run(on, x, arrays[1], arrays[2], workspace); };
  if (mistake == "conv_past_end") run(arrays[0] + 16, stream);
  if (mistake == "conv_unaligned") run(arrays[0] + 4, stream);
  if (mistake == "conv_on_host") run(on_host.data(), stream);
  if (mistake == "conv_stream") run(arrays[0], on_host.data());
  run(arrays[0], stream);
  for (char* array : arrays) cudaFree(array);
  cudaFree(workspace);
}
#endif

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
  cudaEvent_t fork = nullptr, join = nullptr;
  cudaEventCreate(&fork);
  cudaEventCreate(&join);
  cudaEventRecord(fork, stream);
  cudaStreamWaitEvent(other, fork, 0);
  nothing<<<1, 1, 0, other>>>();
  cudaEventRecord(join, other);
  if (mistake == "forked_later") nothing<<<1, 1, 0, other>>>();
  if (mistake != "forked") cudaStreamWaitEvent(stream, join, 0);
  cudaGraph_t graph = nullptr;
  cudaStreamEndCapture(stream, &graph);
  cudaGraphExec_t executable = nullptr;
  cudaGraphInstantiateWithFlags(&executable, graph, 0);
  for (int i = 0; i < 3; ++i) cudaGraphLaunch(executable, stream);
  if (mistake == "graph_event_query") cudaEventQuery(join);
  if (mistake == "graph_event_wait") cudaStreamWaitEvent(other, join, 0);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
#ifdef PETAFLOW_HAVE_NCCL
  sum(mistake, stream);
#endif
#ifdef PETAFLOW_HAVE_CUDNN
  convolve(mistake, stream);
#endif
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
