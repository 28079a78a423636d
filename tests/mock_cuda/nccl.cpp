// NCCL without a GPU, beside the mock CUDA runtime.  Nothing is added; ranks compare what they ask for: the same
// collectives, of as many numbers, in the same order, of memory on the device, on streams that exist.
#include <fcntl.h>

#include <array>
#include <atomic>

#include <nccl.h>

#include "state.hpp"

using namespace mock_cuda;

namespace {

/// Of all ranks, in a file of the folder that they run in.  Zeros at first.
struct Shared {
  std::array<std::atomic<std::size_t>, 1 << 16> collectives;  // of each: 2 numbers, and one where recorded, and one
  std::atomic<std::size_t> count;                             // of them, and one
  std::atomic<int> left;
};

/// Whether the environment has the call fail on this rank, as MOCK_NCCL_FAILS=ncclAllReduce MOCK_NCCL_FAILING_RANK=1.
bool fails(const char* call, int rank) {
  const char* const failing = std::getenv("MOCK_NCCL_FAILS");
  return failing != nullptr && std::string(failing) == call && rank == number_of("MOCK_NCCL_FAILING_RANK", 0);
}

/// What the first rank says the others have to say; gives that.
std::size_t agree(std::atomic<std::size_t>& place, std::size_t value) {
  std::size_t found = 0;
  return place.compare_exchange_strong(found, value) ? value : found;
}

}  // namespace

struct ncclComm {
  std::string path;
  int rank, size;
  Shared* shared;
  std::size_t collectives = 0;
};

extern "C" {
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t) { return "an error of the mock of NCCL"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int count = 0;
  std::snprintf(id->internal, sizeof id->internal, "mock_nccl_%d_%d", getpid(), count++);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  const auto lock = enter_uncaptured("ncclCommInitRank");
  if (rank < 0 || rank >= size) complain("ncclCommInitRank: rank %d of %d", rank, size);
  if (fails("ncclCommInitRank", rank)) return ncclSystemError;
  const int file = open(id.internal, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) complain("ncclCommInitRank: no file %s", id.internal);
  void* const shared = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared == MAP_FAILED) complain("ncclCommInitRank: %s cannot be mapped", id.internal);
  *comm = new ncclComm{id.internal, rank, size, static_cast<Shared*>(shared)};
  state().communicators.insert(*comm);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const auto lock = enter_uncaptured("ncclCommDestroy");
  if (state().communicators.erase(comm) == 0) complain("ncclCommDestroy of a communicator that does not exist");
  const std::size_t others = agree(comm->shared->count, comm->collectives + 1) - 1;
  if (others != comm->collectives)
    complain("rank %d has taken part in %zu collectives, another one in %zu", comm->rank, comm->collectives, others);
  if (++comm->shared->left == comm->size) unlink(comm->path.c_str());
  munmap(comm->shared, sizeof(Shared));
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const auto lock = enter_uncaptured("ncclCommAbort");
  state().communicators.erase(comm);
  unlink(comm->path.c_str());
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const std::lock_guard lock(state().mutex);
  if (!state().communicators.contains(comm)) complain("ncclCommGetAsyncError of a communicator that does not exist");
  *error = fails("ncclCommGetAsyncError", comm->rank) ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  const auto lock = enter("ncclAllReduce");
  if (!state().communicators.contains(comm)) complain("ncclAllReduce of a communicator that does not exist");
  if (fails("ncclAllReduce", comm->rank)) return ncclInternalError;
  check_stream("ncclAllReduce", stream);
  if (type != ncclFloat32) complain("ncclAllReduce of numbers that are not f32");
  for (const void* address : {from, static_cast<const void*>(to)}) {
    if (!memory_at("ncclAllReduce", address, count * sizeof(float)).on_device)
      complain("ncclAllReduce: %p is not on the device", address);
  }
  const bool recorded = state().captured != nullptr;
  do_or_capture([comm, count, recorded] {
    ++state().counts["all-reduces"];
    const std::size_t number = comm->collectives++, mine = 2 * count + (recorded ? 1 : 0);
    if (number >= comm->shared->collectives.size()) complain("more than %zu collectives", number);
    const std::size_t others = agree(comm->shared->collectives[number], mine + 1) - 1;
    if (others / 2 != count) {
      complain("rank %d sums %zu numbers in collective %zu, another one %zu", comm->rank, count, number, others / 2);
    }
    if (others != mine) complain("collective %zu is recorded in a graph on one rank, but not on another", number);
  });
  return ncclSuccess;
}
}
