// Ranks whose GPUs NCCL connects, and what it does with the buckets of a flat buffer, on a stream of its own.
// Source: NVIDIA, "NCCL 2.28 User Guide", chapters "Creating a Communicator" and "In-place Operations".
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nccl.h>

#include "base/arrival.hpp"
#include "base/context.hpp"
#include "base/slice.hpp"
#include "comm/communicator.hpp"

namespace petaflow {

/// Throws a CommError: ranks cannot agree on what one of them finds out, since others may wait inside NCCL.
void check_nccl(ncclResult_t result, const char* call, ncclComm_t ranks = nullptr);
void check_cuda(cudaError_t error, const char* call);

/// Orders streams, and takes no times.
class StreamEvent {
 public:
  StreamEvent() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  ~StreamEvent() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }
  StreamEvent(StreamEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  StreamEvent& operator=(StreamEvent&&) = delete;

  /// Behind all that the stream was given so far.
  void record(cudaStream_t stream) const { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  bool reached() const {
    const cudaError_t error = cudaEventQuery(event_);
    if (error != cudaErrorNotReady) check_cuda(error, "cudaEventQuery");
    return error == cudaSuccess;
  }
  /// What the stream is given from now on comes behind it.
  void precede(cudaStream_t stream) const { check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent"); }

 private:
  cudaEvent_t event_ = nullptr;
};

class NcclRanks {
 public:
  /// Collective; throws a CommError where NCCL does not start.
  /// @param comm     who they are; must outlive this
  /// @param buckets  of the flat buffers, from their end to their begin
  NcclRanks(Communicator& comm, const Context& context, std::vector<Slice> buckets);
  ~NcclRanks();
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  const std::vector<Slice>& buckets() const { return buckets_; }
  cudaStream_t stream() const { return stream_; }
  /// Where every rank owns a slice of a bucket: that of this one.  The last rank's may be longer by less than there are
  /// ranks; those of the others are of one size, which may be nothing.
  Slice own_of(const Slice& bucket) const;

  /// What the stream is given from now on comes behind what the context's space was given so far.
  void follow_the_space();
  /// A bucket of the buffer becomes its sum over ranks.
  void sum(const Slice& bucket, float* buffer);
  /// The own slice of it does.
  void scatter(const Slice& bucket, float* buffer);
  /// The own slice goes to all ranks.
  void gather(const Slice& bucket, float* buffer);
  /// Has `operations` work once on every bucket of zeros: the first of a size makes connections between ranks, for
  /// which the host waits: outside of a graph, where all are present.
  void connect(const std::function<void(const Slice& bucket, float* zeros)>& operations);

  /// Ends all ranks where NCCL or CUDA reports an error or `arrived` throws one; otherwise whether that says so.
  bool look(const std::function<bool()>& arrived);
  /// Waits until the context's space has done all that it was given.  A hang is noticed here.
  void wait();
  /// "7 buckets of 0.10 to 4.00 MiB by NCCL 2.28.9"
  std::string describe() const;

 private:
  void in_shares(const Slice& bucket, auto&& call);

  Communicator& comm_;
  Context context_;
  std::vector<Slice> buckets_;
  ncclComm_t ranks_ = nullptr;
  cudaStream_t stream_ = nullptr;
  StreamEvent ready_;
  Arrival arrival_;
};

inline constexpr const char* kSumsByNccl = "sums by NCCL";  // in messages

}  // namespace petaflow
