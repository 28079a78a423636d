#include <algorithm>
#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nccl.h>

#include "base/arrival.hpp"
#include "base/context.hpp"
#include "base/error.hpp"
#include "comm/device_sum.hpp"
#include "comm/gradient_sum.hpp"

namespace petaflow {
namespace {

/// Ranks cannot agree on what one of them finds out here, and below: others may wait inside NCCL.
void check(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw CommError(fmt::format("{}: {}", call, cudaGetErrorString(error)));
}

void check(ncclResult_t result, const char* call, ncclComm_t ranks = nullptr) {
  if (result == ncclSuccess) return;
  throw CommError(
      fmt::format("{}: {} ({}); NCCL_DEBUG=INFO says more", call, ncclGetErrorString(result), ncclGetLastError(ranks)));
}

/// "2.28.9"
std::string nccl_version() {
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

class NcclSum final : public DeviceSum {
 public:
  NcclSum(Communicator& comm, const Context& context, std::span<const std::int64_t> ends,
          const DeviceSumOptions& options)
      : comm_(comm),
        context_(context),
        overlap_(options.overlap),
        owners_(options.owners),
        buckets_(cut_into_buckets(ends, options.bucket)),
        over_(static_cast<std::size_t>(options.steps)) {
    for (const Slice& bucket : buckets_) {
      if (const Slice own = owners_ ? own_of(bucket) : bucket; own.size() > 0) own_.push_back(own);
    }
    ncclUniqueId id{};
    if (comm.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    comm.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    check(ncclCommInitRank(&ranks_, comm.size(), id, comm.rank()), "ncclCommInitRank");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    for (cudaEvent_t& over : over_)
      check(cudaEventCreateWithFlags(&over, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    check(cudaEventCreateWithFlags(&spread_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    connect();
  }
  ~NcclSum() override {
    if (ranks_ != nullptr) std::uncaught_exceptions() > 0 ? ncclCommAbort(ranks_) : ncclCommDestroy(ranks_);
    for (const cudaEvent_t over : over_) {
      if (over != nullptr) cudaEventDestroy(over);
    }
    if (spread_ != nullptr) cudaEventDestroy(spread_);
    if (ready_ != nullptr) cudaEventDestroy(ready_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  void begin(std::int64_t place, float* buffer) override {
    place_ = static_cast<std::size_t>(place);
    buffer_ = buffer;
    started_ = 0;
  }

  void ready_from(std::int64_t first) override {
    const auto ready = [&](const Slice& bucket) { return bucket.begin >= first && (overlap_ || first == 0); };
    if (started_ == buckets_.size() || !ready(buckets_[started_])) return;
    follow_the_space();
    // One by one, not as a group of NCCL: a rank that fails sums the rest at once, and groups have to be the same.
    for (; started_ < buckets_.size() && ready(buckets_[started_]); ++started_) sum(buckets_[started_], buffer_);
    if (started_ == buckets_.size()) check(cudaEventRecord(over_[place_], stream_), "cudaEventRecord");
  }

  void join(std::int64_t place) override {
    check(cudaStreamWaitEvent(context_.space.cuda_stream(), over_[static_cast<std::size_t>(place)], 0),
          "cudaStreamWaitEvent");
  }

  const std::vector<Slice>& own() const override { return own_; }

  void spread(float* values) override {
    follow_the_space();
    for (const Slice& bucket : buckets_) gather(bucket, values);
    check(cudaEventRecord(spread_, stream_), "cudaEventRecord");
    check(cudaStreamWaitEvent(context_.space.cuda_stream(), spread_, 0), "cudaStreamWaitEvent");
  }

  void wait() override {
    arrival_.expect(context_);
    const auto over = [this] {
      try {
        ncclResult_t error = ncclSuccess;
        check(ncclCommGetAsyncError(ranks_, &error), "ncclCommGetAsyncError", ranks_);
        check(error, kCall, ranks_);
        return arrival_.reached();
      } catch (const Error& error) {  // at once: no memory of a GPU is freed while its kernels wait for other ranks
        std::fprintf(stderr, "rank %d: %s\n", comm_.rank(), error.what());
        comm_.abort(kHangExitCode);
      }
    };
    comm_.transport().wait(over, kCall);
  }

  std::string describe() const override {
    return fmt::format("{} by NCCL {}{}", describe_buckets(buckets_), nccl_version(),
                       owners_ ? ", each slice to its owner" : "");
  }

 private:
  static constexpr const char* kCall = "sums by NCCL";  // in messages

  /// Elements of a bucket that every rank owns; the last one has those behind, too, less than there are ranks.
  std::int64_t share_of(const Slice& bucket) const { return bucket.size() / comm_.size(); }
  Slice own_of(const Slice& bucket) const {
    const std::int64_t share = share_of(bucket), begin = bucket.begin + comm_.rank() * share;
    return {begin, comm_.rank() + 1 == comm_.size() ? bucket.end : begin + share};
  }

  /// stream_ goes on behind what the context's space was given.
  void follow_the_space() {
    check(cudaEventRecord(ready_, context_.space.cuda_stream()), "cudaEventRecord");
    check(cudaStreamWaitEvent(stream_, ready_, 0), "cudaStreamWaitEvent");
  }

  void sum(const Slice& bucket, float* buffer) {
    float* const values = buffer + bucket.begin;
    if (!owners_) {
      check(
          ncclAllReduce(values, values, static_cast<std::size_t>(bucket.size()), ncclFloat32, ncclSum, ranks_, stream_),
          "ncclAllReduce", ranks_);
      return;
    }
    in_shares(bucket, [&](std::size_t share, std::int64_t behind, std::size_t rest, int last) {
      check(ncclReduceScatter(values, buffer + own_of(bucket).begin, share, ncclFloat32, ncclSum, ranks_, stream_),
            "ncclReduceScatter", ranks_);
      if (rest == 0) return;
      float* const elements = values + behind;
      check(ncclReduce(elements, elements, rest, ncclFloat32, ncclSum, last, ranks_, stream_), "ncclReduce", ranks_);
    });
  }

  void gather(const Slice& bucket, float* buffer) {
    float* const values = buffer + bucket.begin;
    in_shares(bucket, [&](std::size_t share, std::int64_t behind, std::size_t rest, int last) {
      check(ncclAllGather(buffer + own_of(bucket).begin, values, share, ncclFloat32, ranks_, stream_), "ncclAllGather",
            ranks_);
      if (rest == 0) return;
      float* const elements = values + behind;
      check(ncclBroadcast(elements, elements, rest, ncclFloat32, last, ranks_, stream_), "ncclBroadcast", ranks_);
    });
  }

  /// Has call(share, behind, rest, last) ask for one operation, in NCCL's words: of the shares, and of the `rest`
  /// elements from `behind` on that the rank `last` owns beside its share.
  void in_shares(const Slice& bucket, auto&& call) {
    const std::int64_t share = share_of(bucket), behind = share * comm_.size();
    check(ncclGroupStart(), "ncclGroupStart");
    call(static_cast<std::size_t>(share), behind, static_cast<std::size_t>(bucket.size() - behind), comm_.size() - 1);
    check(ncclGroupEnd(), "ncclGroupEnd", ranks_);
  }

  /// The first sum of a size makes connections between ranks, for which the host waits: here, where all are present,
  /// and outside of a graph.
  void connect() {
    const Kokkos::View<float*, MemorySpace> zeros("petaflow::nccl", static_cast<std::size_t>(buckets_.front().end));
    context_.space.fence();
    for (const Slice& bucket : buckets_) {
      sum(bucket, zeros.data());
      if (owners_) gather(bucket, zeros.data());
    }
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }

  Communicator& comm_;
  Context context_;
  bool overlap_, owners_;
  std::vector<Slice> buckets_, own_;
  ncclComm_t ranks_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr, spread_ = nullptr;
  std::vector<cudaEvent_t> over_;  // of each place: its last sum
  Arrival arrival_;
  std::size_t place_ = 0;
  float* buffer_ = nullptr;
  std::size_t started_ = 0;  // of the buckets
};

}  // namespace

std::string why_no_device_sum(const Transport& transport) {
  return transport.has_all_reduce() ? "" : "messages are delayed ([inject])";
}

std::unique_ptr<DeviceSum> make_device_sum(Communicator& comm, const Context& context,
                                           std::span<const std::int64_t> ends, const DeviceSumOptions& options) {
  return std::make_unique<NcclSum>(comm, context, ends, options);
}

}  // namespace petaflow
