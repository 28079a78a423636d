#include "comm/ranks_nccl.hpp"

#include <cstdio>
#include <exception>

#include <fmt/format.h>

#include "base/error.hpp"
#include "comm/gradient_sum.hpp"

namespace petaflow {
namespace {

/// "2.28.9"
std::string nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace

void check_cuda(cudaError_t error, const char* call) {
  if (error != cudaSuccess) throw CommError(fmt::format("{}: {}", call, cudaGetErrorString(error)));
}

void check_nccl(ncclResult_t result, const char* call, ncclComm_t ranks) {
  if (result == ncclSuccess) return;
  throw CommError(
      fmt::format("{}: {} ({}); NCCL_DEBUG=INFO says more", call, ncclGetErrorString(result), ncclGetLastError(ranks)));
}

NcclRanks::NcclRanks(Communicator& comm, const Context& context, std::vector<Slice> buckets)
    : comm_(comm), context_(context), buckets_(std::move(buckets)) {
  ncclUniqueId id{};
  if (comm.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
  comm.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
  check_nccl(ncclCommInitRank(&ranks_, comm.size(), id, comm.rank()), "ncclCommInitRank");
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

NcclRanks::~NcclRanks() {
  if (ranks_ != nullptr) std::uncaught_exceptions() > 0 ? ncclCommAbort(ranks_) : ncclCommDestroy(ranks_);
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Slice NcclRanks::own_of(const Slice& bucket) const {
  const std::int64_t share = bucket.size() / comm_.size(), begin = bucket.begin + comm_.rank() * share;
  return {begin, comm_.rank() + 1 == comm_.size() ? bucket.end : begin + share};
}

void NcclRanks::follow_the_space() {
  ready_.record(context_.space.cuda_stream());
  ready_.precede(stream_);
}

void NcclRanks::sum(const Slice& bucket, float* buffer) {
  float* const values = buffer + bucket.begin;
  check_nccl(
      ncclAllReduce(values, values, static_cast<std::size_t>(bucket.size()), ncclFloat32, ncclSum, ranks_, stream_),
      "ncclAllReduce", ranks_);
}

void NcclRanks::scatter(const Slice& bucket, float* buffer) {
  float* const values = buffer + bucket.begin;
  in_shares(bucket, [&](std::size_t share, std::int64_t behind, std::size_t rest, int last) {
    check_nccl(ncclReduceScatter(values, buffer + own_of(bucket).begin, share, ncclFloat32, ncclSum, ranks_, stream_),
               "ncclReduceScatter", ranks_);
    if (rest == 0) return;
    float* const elements = values + behind;
    check_nccl(ncclReduce(elements, elements, rest, ncclFloat32, ncclSum, last, ranks_, stream_), "ncclReduce", ranks_);
  });
}

void NcclRanks::gather(const Slice& bucket, float* buffer) {
  float* const values = buffer + bucket.begin;
  in_shares(bucket, [&](std::size_t share, std::int64_t behind, std::size_t rest, int last) {
    check_nccl(ncclAllGather(buffer + own_of(bucket).begin, values, share, ncclFloat32, ranks_, stream_),
               "ncclAllGather", ranks_);
    if (rest == 0) return;
    float* const elements = values + behind;
    check_nccl(ncclBroadcast(elements, elements, rest, ncclFloat32, last, ranks_, stream_), "ncclBroadcast", ranks_);
  });
}

// Has call(share, behind, rest, last) ask for one operation, in NCCL's words: of the shares, and of the `rest` elements
// from `behind` on that the rank `last` owns beside its share.
void NcclRanks::in_shares(const Slice& bucket, auto&& call) {
  const std::int64_t share = bucket.size() / comm_.size(), behind = share * comm_.size();
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  call(static_cast<std::size_t>(share), behind, static_cast<std::size_t>(bucket.size() - behind), comm_.size() - 1);
  check_nccl(ncclGroupEnd(), "ncclGroupEnd", ranks_);
}

void NcclRanks::connect(const std::function<void(const Slice&, float*)>& operations) {
  const Kokkos::View<float*, MemorySpace> zeros("petaflow::nccl", static_cast<std::size_t>(buckets_.front().end));
  context_.space.fence();
  for (const Slice& bucket : buckets_) operations(bucket, zeros.data());
  check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

bool NcclRanks::look(const std::function<bool()>& arrived) {
  try {
    ncclResult_t error = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(ranks_, &error), "ncclCommGetAsyncError", ranks_);
    check_nccl(error, kSumsByNccl, ranks_);
    return arrived();
  } catch (const Error& error) {  // at once: no memory of a GPU is freed while its kernels wait for other ranks
    std::fprintf(stderr, "rank %d: %s\n", comm_.rank(), error.what());
    comm_.abort(kHangExitCode);
  }
}

void NcclRanks::wait() {
  arrival_.expect(context_);
  comm_.transport().wait([this] { return look([this] { return arrival_.reached(); }); }, kSumsByNccl);
}

std::string NcclRanks::describe() const {
  return fmt::format("{} by NCCL {}", describe_buckets(buckets_), nccl_version());
}

}  // namespace petaflow
