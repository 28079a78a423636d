// Programs for GPUs, as they are, on a CUDA runtime without a GPU: training breaks no rule of the runtime, and what
// does is seen.
#include <map>

#include "program.hpp"

namespace petaflow {
namespace {

#ifdef PETAFLOW_HAVE_CUDNN
constexpr bool kCudnn = true;
#else
constexpr bool kCudnn = false;
#endif

using Counts = std::map<std::string, long>;

class MockCuda : public Program {
 protected:
  using Program::Program;

  /// @param machine  settings of the mock, as "MOCK_CUDA_DEVICES=1"
  Outcome run_on_mock(const std::string& arguments, int ranks = 1, const std::string& machine = "") {
    const fs::path build = fs::read_symlink("/proc/self/exe").parent_path().parent_path().parent_path();
    const fs::path mock = build / "lib/libpetaflow_mock_cuda.so";
    return run(arguments, ranks, "env LD_PRELOAD=" + mock.string() + " " + machine + " timeout 120");
  }
};

/// How often all processes together called what.  Each says: "mock CUDA: <call> <count>, ..., no complaint".
Counts counts_of(const std::string& text) {
  const std::string start = "mock CUDA: ";
  Counts counts;
  for (std::size_t begin = text.find(start); begin != std::string::npos; begin = text.find(start, begin + 1)) {
    const std::size_t end = text.find(", no complaint", begin);
    if (end == std::string::npos) break;
    std::istringstream line(text.substr(begin + start.size(), end - begin - start.size()));
    for (std::string item; std::getline(line, item, ',');) {
      const std::size_t space = item.rfind(' ');
      counts[item.substr(item.find_first_not_of(' '), space - item.find_first_not_of(' '))] +=
          std::stol(item.substr(space));
    }
  }
  return counts;
}

class MockCudaTraining : public MockCuda {
 protected:
  MockCudaTraining(const std::string& program, const std::string& input, const std::string& options)
      : MockCuda(program), arguments_(" " + fs::absolute(input).string() + " " + options) {}

  void SetUp() override {
    MockCuda::SetUp();
    const Outcome outcome = run_on_mock("generate" + arguments_);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }

  void expect_refused_on_mock(const std::string& arguments, int ranks, const std::string& machine,
                              const std::string& words) {
    const Outcome outcome = run_on_mock(arguments, ranks, machine);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << words << "\n" << outcome.err;
    EXPECT_EQ(count(outcome.err, name_ + ": "), 1U) << outcome.err;
  }

  Counts train(int steps, int ranks = 1, const std::string& options = "", const std::string& machine = "") {
    const Outcome outcome = run_on_mock(
        "train" + arguments_ + " --overwrite log.trace_steps=0 train.steps=" + std::to_string(steps) + " " + options,
        ranks, machine);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find(std::to_string(steps) + " steps, "), std::string::npos) << outcome.out;
    EXPECT_EQ(count(outcome.err, "no complaint"), static_cast<std::size_t>(ranks)) << outcome.err;
    return counts_of(outcome.err);
  }

  /// Of a step behind those that differ: the first one, and the second one, which is recorded.
  Counts a_step(int ranks, const std::string& options) {
    Counts three = train(3, ranks, options), four = train(4, ranks, options);
    for (const auto& [call, times] : three) four[call] -= times;
    return four;
  }

  static void expect_no_other_waits(Counts& counts) {
    for (const char* call : {"on the legacy stream", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy",
                             "copies of pageable memory", "cudaMalloc", "cudaMallocHost", "cudaHostAlloc", "cudaFree",
                             "cudaFreeHost", "cudaStreamCreate", "cudaEventCreate"})
      EXPECT_EQ(counts[call], 0) << call;
  }

  /// Copies from and to the host.  The samples of a step come ahead of it where the loader has them, and those of the
  /// step behind a run's last one in vain.
  static void expect_copies(Counts& counts, long copies, long ranks) {
    EXPECT_NEAR(counts["cudaMemcpyAsync"] - counts["copies on the device"], copies, ranks);
  }

  /// The kernels of a step are recorded once, and then two graphs and copies from and to pinned memory are all that the
  /// GPU is asked for, and one wait; or kernel by kernel, as with several ranks.
  /// Two ranks that sum by NCCL ask for twice the same, and for all-reduces inside the graphs.
  void expect_steps(long launches) {
    Counts recorded = train(2, 1);
    EXPECT_GT(recorded["captured launches"], 0);
    EXPECT_LE(recorded["captured launches"], launches);
    EXPECT_EQ(recorded["captured convolutions"] > 0, kCudnn);
    Counts replayed = a_step(1, ""), called = a_step(1, "kernels.replay=false");
    Counts summed = a_step(2, "comm.reduction=two_level");
#ifdef PETAFLOW_HAVE_NCCL
    Counts by_nccl = a_step(2, "comm.reduction=nccl");
    EXPECT_GT(by_nccl["all-reduces"], 0);
    EXPECT_EQ(by_nccl["all-reduces"], a_step(2, "kernels.replay=false")["all-reduces"]);
    for (const char* call : {"launches", "captured launches", "cudaGraphLaunch"})
      EXPECT_EQ(by_nccl[call], 2 * replayed[call]) << call;
    expect_copies(by_nccl, 2 * 5, 2);
    EXPECT_EQ(by_nccl["cudaEventQuery"], 2 * 2);  // one wait: the mock's events are reached at the second look
    EXPECT_EQ(by_nccl["cudaStreamSynchronize"], 0);
    expect_no_other_waits(by_nccl);
#endif
    EXPECT_EQ(replayed["launches"], 0);
    EXPECT_EQ(replayed["captured launches"], 0);
    EXPECT_EQ(replayed["cudaGraphLaunch"], 2);
    expect_copies(replayed, 5, 1);
    EXPECT_EQ(called["launches"], recorded["captured launches"]);
    expect_copies(called, 6, 1);
    EXPECT_EQ(summed["launches"], 2 * called["launches"]);
    EXPECT_GE(summed["cudaMemcpyAsync"], 2 * 8);  // gradients, to the host and back
    for (Counts* counts : {&replayed, &called, &summed}) {
      EXPECT_EQ((*counts)["cudaStreamSynchronize"], counts == &summed ? 2 : 1);
      expect_no_other_waits(*counts);
    }
  }

  std::string arguments_;
};

class MockCudaHep : public MockCudaTraining {
 protected:
  MockCudaHep()
      : MockCudaTraining("hep", "inputs/hep_quick.toml", "generate.train=128 generate.validation=32 generate.test=32") {
  }
};

// docs/gpus.md names the figure; fewer are better.
TEST_F(MockCudaHep, BreaksNoRule) {
  expect_steps(kCudnn ? 78 : 94);
  train(2, 4);
  train(2, 4, "comm.reduction=two_level");
  train(3, 1, "precision=bf16");
  Counts averaged = a_step(1, "optimizer.ema=0.9");
  EXPECT_EQ(averaged["cudaGraphLaunch"], 2);
  EXPECT_EQ(averaged["launches"], 0);
}

// Losses are multiplied; whether the gradient is finite is waited for.
TEST_F(MockCudaHep, WaitsOnceMoreInFp16) {
  Counts step = a_step(1, "precision=fp16");
  EXPECT_EQ(step["cudaGraphLaunch"], 2);
  EXPECT_EQ(step["cudaStreamSynchronize"], 2);
  EXPECT_EQ(step["launches"], 2);  // the flag is cleared, the gradient divided
  expect_copies(step, 6, 1);
  expect_no_other_waits(step);
  train(4, 2, "precision=fp16 update.lag=1");
}

#ifdef PETAFLOW_HAVE_CUDNN
TEST_F(MockCudaHep, TimesPlansOfCudnn) {
  const std::string train = "train" + arguments_ + " --overwrite train.steps=2 kernels.conv=tune";
  const Outcome timed = run_on_mock(train, 2), known = run_on_mock(train, 2);
  EXPECT_EQ(timed.code, 0) << timed.err;
  EXPECT_EQ(count(timed.out, "(timed now)"), 14U) << timed.out;
  for (const char* plan : {"cudnn 0", "cudnn2 0", "cudnn3 0", "cudnn4 0"})
    EXPECT_EQ(count(timed.out, plan), 14U) << timed.out;
  EXPECT_EQ(known.code, 0) << known.err;
  EXPECT_NE(known.out.find("14 choices of convolutions from"), std::string::npos) << known.out;
  EXPECT_EQ(count(known.out, "(timed now)"), 0U) << known.out;
}
#endif

#ifdef PETAFLOW_HAVE_NCCL
TEST_F(MockCudaHep, SumsByNcclWhateverElseAStepDoes) {
  for (const char* options : {"update.lag=1", "comm.overlap=false", "log.noise_scale=true", "kernels.replay=false",
                              "optimizer.ema=0.9", "update.groups=2 update.average_every=2", "comm.bucket_mb=0.01"}) {
    EXPECT_GT(train(4, 4, options)["all-reduces"], 0) << options;
  }
  for (const char* options : {"update.sharded=true optimizer.clip_norm=1", "train.deterministic=true",
                              "comm.order=fixed", "comm.wire=bf16"}) {
    EXPECT_EQ(train(2, 2, options)["collectives"], 0) << options;
  }
}

// Of each bucket, a sum that is scattered and weights that are gathered, in the two graphs of a step.
TEST_F(MockCudaHep, DividesSumsByNccl) {
  for (const char* options : {"", "update.lag=2", "kernels.replay=false", "log.noise_scale=true", "comm.bucket_mb=0.01",
                              "train.loss_scaling=dynamic", "comm.overlap=false"}) {
    Counts counts = train(4, 4, "update.sharded=true " + std::string(options));
    EXPECT_GT(counts["collectives"], 0) << options;
    EXPECT_EQ(counts["all-reduces"], 0) << options;
  }
  Counts replayed = a_step(2, ""), divided = a_step(2, "update.sharded=true");
  for (const char* call : {"launches", "cudaGraphLaunch", "cudaEventQuery", "cudaStreamSynchronize"})
    EXPECT_EQ(divided[call], replayed[call]) << call;
  Counts called = a_step(2, "update.sharded=true kernels.replay=false");
  for (Counts* counts : {&divided, &called})  // the numbers of its one bucket are even
    EXPECT_EQ((*counts)["collectives"], 2 * replayed["collectives"]);
  expect_copies(divided, 2 * 5, 2);
  expect_no_other_waits(divided);
}

// Of each bucket, a sum that is scattered and gathered in each node, and between them the host's.
TEST_F(MockCudaHep, SumsByNcclInNodesAndByMpiBetweenThem) {
  const std::string nodes = "MOCK_RANKS_PER_NODE=2", train_by = "comm.reduction=nccl_mpi ";
  for (const char* options : {"", "update.lag=2", "kernels.replay=false", "log.noise_scale=true", "comm.bucket_mb=0.01",
                              "train.loss_scaling=dynamic", "comm.overlap=false"}) {
    Counts counts = train(4, 4, train_by + options, nodes);
    EXPECT_GT(counts["collectives"], 0) << options;
    EXPECT_EQ(counts["all-reduces"], 0) << options;
  }
  const std::string start = "train" + arguments_ + " --overwrite train.steps=2 " + train_by;
  expect_refused_on_mock(start, 2, "", "\"nccl_mpi\" cannot be used here: all ranks share a node");
  expect_refused_on_mock(start, 3, nodes, "\"nccl_mpi\" cannot be used here: nodes have 2 and 1 ranks");
  expect_refused_on_mock(start + "update.sharded=true", 4, nodes, "\"nccl_mpi\" gives all ranks the whole sum, but");
}

TEST_F(MockCudaHep, EndsOnAllRanksWhereNcclFailsOnOne) {
  for (const std::string call : {"ncclCommInitRank", "ncclAllReduce", "ncclCommGetAsyncError"}) {
    const Outcome outcome = run_on_mock("train" + arguments_ + " train.steps=2 --overwrite", 2,
                                        "MOCK_NCCL_FAILS=" + call + " MOCK_NCCL_FAILING_RANK=1");
    EXPECT_NE(outcome.code, 0) << call;
    EXPECT_NE(outcome.code, 124) << call << ": somebody waited";
    EXPECT_EQ(count(outcome.err, "an error of the mock of NCCL"), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find("rank 1"), std::string::npos) << outcome.err;
  }
}

TEST_F(MockCudaHep, RefusesRanksThatShareAGpuUnasked) {
  const std::string train = "train" + arguments_ + " train.steps=2 --overwrite ";
  for (const char* reduction : {"", "comm.reduction=nccl"}) {
    expect_refused_on_mock(train + reduction, 2, "MOCK_CUDA_DEVICES=1",
                           "ranks 0 and 1 have the same GPU (mock of an H200): start at most");
  }
  EXPECT_EQ(run_on_mock(train + "comm.reduction=two_level", 2, "MOCK_CUDA_DEVICES=1").code, 0);
}
#endif

TEST_F(MockCudaHep, RefusesMachinesThatWillNotDo) {
  const std::string train = "train" + arguments_ + " train.steps=2 ";
  for (const int ranks : {1, 2}) {
    expect_refused_on_mock(train, ranks, "MOCK_CUDA_DRIVER=0", "but this machine has no NVIDIA driver; start it where");
    expect_refused_on_mock(train, ranks, "MOCK_CUDA_DRIVER=9020", "knows no more than CUDA 9.2: build with");
    expect_refused_on_mock(train, ranks, "MOCK_CUDA_DEVICES=0", "but no GPU is to be seen here (CUDA_VISIBLE_DEVICES");
    expect_refused_on_mock(train, ranks, "MOCK_CUDA_CAPABILITY=75", "but GPU 0 (mock of an H200) has 7.5; build with");
    expect_refused_on_mock(train, ranks, "MOCK_CUDA_MEGABYTES=2",
                           " of a GPU's memory, of whose 0.0 GiB 0.0 are free; ");
  }
}

class MockCudaCosmoflow : public MockCudaTraining {
 protected:
  MockCudaCosmoflow()
      : MockCudaTraining("cosmoflow", "inputs/cosmoflow_quick.toml",
                         "data.edge=16 generate.particles=32 generate.train=64 generate.validation=1 generate.test=1") {
  }
};

TEST_F(MockCudaCosmoflow, BreaksNoRule) { expect_steps(kCudnn ? 117 : 126); }

/// The programs for weather; two and four ranks sum their gradients, and the sums of their batch norms beside them.
class MockCudaClimate : public MockCudaTraining {
 protected:
  MockCudaClimate(const std::string& program, const std::string& input, const std::string& options)
      : MockCudaTraining(program, input,
                         "data.height=48 data.width=72 train.batch=4 generate.train=16 generate.validation=1 "
                         "generate.test=1 " +
                             options) {}

  void expect_training() {
    Counts step = a_step(1, "");
    EXPECT_EQ(step["cudaGraphLaunch"], 2);
    EXPECT_EQ(step["cudaStreamSynchronize"], 1);
    EXPECT_EQ(step["launches"], 0);
    expect_no_other_waits(step);
    train(3, 2);
    train(3, 4);
  }
};

class MockCudaSegmentation : public MockCudaClimate {
 protected:
  MockCudaSegmentation()
      : MockCudaClimate("climate_segmentation", "inputs/climate_small.toml", "evaluate.baseline_trials=0") {}
};
TEST_F(MockCudaSegmentation, BreaksNoRule) { expect_training(); }

class MockCudaDetection : public MockCudaClimate {
 protected:
  MockCudaDetection()
      : MockCudaClimate("climate_detection", "inputs/climate_detection.toml", "model.filters=[8,8,16]") {}
};
TEST_F(MockCudaDetection, BreaksNoRule) { expect_training(); }

#ifdef PETAFLOW_HAVE_NCCL
class MockCudaSums : public MockCuda {
 protected:
  MockCudaSums() : MockCuda("tests/mock_cuda_device_sums") {}
};

TEST_F(MockCudaSums, AreRightWhereItsNcclAdds) {
  const Outcome outcome = run_on_mock("", 4, "MOCK_RANKS_PER_NODE=2 MOCK_NCCL_ADDS=2000");
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_EQ(count(outcome.err, "no complaint"), 4U) << outcome.err;
  EXPECT_NE(outcome.out.find("[  PASSED  ] 10 tests."), std::string::npos) << outcome.out;
}
#endif

class MockCudaSummary : public MockCuda {
 protected:
  MockCudaSummary() : MockCuda("hep") {}
};

#ifdef PETAFLOW_HAVE_CUDNN
// On the machine as it is, without the mock.
TEST_F(MockCudaSummary, NeedsNoGpu) {
  const std::string input = fs::absolute("inputs/hep_quick.toml").string();
  const Outcome f32 = run("summary " + input + " --gpu h200");
  ASSERT_EQ(f32.code, 0) << f32.err;
  EXPECT_EQ(count(f32.out, "cudnn eng"), 14U) << f32.out;  // 5 layers, the first without a gradient of its input
  EXPECT_NE(f32.out.find("for an H200, f32, a micro-batch of 32 samples"), std::string::npos) << f32.out;
  const Outcome bf16 = run("summary " + input + " --gpu A100 --json precision=bf16");
  ASSERT_EQ(bf16.code, 0) << bf16.err;
  EXPECT_EQ(count(bf16.out, "cudnn eng"), 14U) << bf16.out;
  EXPECT_NE(bf16.out.find(", 8 pixels folded"), std::string::npos) << bf16.out;  // a first layer of 3 channels
  EXPECT_EQ(count(run("summary " + input + " --gpu H100 precision=fp16").out, "cudnn eng"), 14U);
  EXPECT_EQ(run("summary " + input + " --gpu h200 kernels.conv=kokkos").out.find("cudnn eng"), std::string::npos);
  EXPECT_EQ(run("summary " + input + " --gpu K80").code, 1);
}

class MockCudaSummaryOfCounts : public MockCuda {
 protected:
  MockCudaSummaryOfCounts() : MockCuda("cosmoflow") {}
};

// A first stage that keeps a table in the GPU's memory.
TEST_F(MockCudaSummaryOfCounts, NeedsNoGpu) {
  const std::string input = fs::absolute("inputs/cosmoflow_quick.toml").string();
  const Outcome planned = run("summary " + input + " --gpu h200 precision=bf16");
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_GT(count(planned.out, "cudnn eng"), 0U) << planned.out;
}
#endif

class MockCudaMistake : public MockCuda {
 protected:
  MockCudaMistake() : MockCuda("tests/mock_cuda_mistake") {}
};

TEST_F(MockCudaMistake, IsSeen) {
  struct Case {
    const char *mistake, *message;
  };
  for (const Case& c :
       {Case{"past_end", "cudaMemcpy of 1001 bytes at byte 0 of an allocation of 1000"},
        Case{"direction", "cudaMemcpy: the direction does not fit the addresses"},
        Case{"host_read", "the host touches device memory at 0x"},
        Case{"block", "nothingv: no GPU takes 1 x 1 x 1 blocks of 1025 x 1 x 1 threads"},
        Case{"shared", "nothingv: 49153 bytes of shared memory"},
        Case{"unknown_kernel", "launch of a kernel that is not registered"},
        Case{"destroyed_event", "cudaEventRecord of an event that does not exist"},
        Case{"destroyed_stream", "nothingv on a stream that does not exist"},
        Case{"freed_twice", "cudaFree: 0x"},
        Case{"captured_wait", "cudaStreamSynchronize while a stream is captured"},
        Case{"captured_malloc", "cudaMalloc while a stream is captured"},
        Case{"captured_blocking_copy", "cudaMemcpy while a stream is captured"},
        Case{"captured_pageable_copy", "cudaMemcpyAsync of pageable memory while a stream is captured"},
        Case{"captured_stream", "on another stream than that which is captured"},
        Case{"forked", "cudaStreamEndCapture: another stream's work is not waited for"},
        Case{"forked_later", "cudaStreamEndCapture: another stream's work is not waited for"},
        Case{"graph_event_query", "cudaEventQuery of an event that was recorded in a graph"},
        Case{"graph_event_wait", "one of stream and event is of a capture"},
#ifdef PETAFLOW_HAVE_NCCL
        Case{"collective_order", "rank 1 sums 40 numbers in collective 0, another one 60"},
        Case{"collective_missing", "rank 1 has taken part in 5 collectives, another one in 6"},
        Case{"collective_past_end", "ncclAllReduce of 240 bytes at byte 164 of an allocation of 400"},
        Case{"collective_on_host", "is not on the device"},
        Case{"collective_kind", "rank 1 gathers in collective 1, another one does not"},
        Case{"collective_place", "ncclReduceScatter: of rank 0, which is in place, but not at its own part"},
        Case{"collective_root", "rank 1 reduces in collective 2, another one does not, or by another root"},
        Case{"collective_gathers_past_end", "ncclAllGather of 408 bytes at byte 0 of an allocation of 400"},
#endif
#ifdef PETAFLOW_HAVE_CUDNN
        Case{"conv_past_end", "cudnnBackendExecute of 65536 bytes at byte 16 of an allocation of 65540"},
        Case{"conv_unaligned", "cudnnBackendExecute: tensor 1 begins at 0x"},
        Case{"conv_on_host", "is not on the device"},
        Case{"conv_workspace", "cudnnBackendExecute of "},
        Case{"conv_stream", "cudnnBackendExecute on a stream that does not exist"},
#endif
        Case{"destroyed_graph", "cudaGraphLaunch of a graph that does not exist"},
        Case{"use_after_free", "cudaMemcpy: 0x"},
        Case{"leak", "1 allocations on the device left at the end"}}) {
    const Outcome outcome = run_on_mock(c.mistake);
    EXPECT_EQ(outcome.code, 97) << c.mistake << "\n" << outcome.err;
    EXPECT_NE(outcome.err.find("mock CUDA: "), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find(c.message), std::string::npos) << outcome.err;
  }
  const Outcome outcome = run_on_mock("none");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  Counts counts = counts_of(outcome.err);
  EXPECT_EQ(counts["launches"], 1) << outcome.err;
  EXPECT_EQ(counts["captured launches"], 2) << outcome.err;
  EXPECT_EQ(counts["cudaGraphLaunch"], 3) << outcome.err;
  EXPECT_EQ(counts["convolutions"], kCudnn ? 1 : 0) << outcome.err;
}

}  // namespace
}  // namespace petaflow
