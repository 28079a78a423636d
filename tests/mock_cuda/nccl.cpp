// NCCL without a GPU, beside the mock CUDA runtime.  Ranks compare what they ask for: the same collectives, of as many
// numbers, in the same order, of memory on the device, on streams that exist.  Nothing is added, unless MOCK_NCCL_ADDS
// says so, which is for a process per rank: there a collective waits for the other ranks.
#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include <nccl.h>

#include "state.hpp"

using namespace mock_cuda;

namespace {

/// Of all ranks, in a file of the folder that they run in.  Zeros at first.
struct Shared {
  std::array<std::atomic<std::size_t>, 1 << 16> collectives;  // of each: what is asked for, and one
  std::atomic<std::size_t> count;                             // of them, and one
  std::atomic<std::size_t> met;                               // ranks, in all meetings together
  std::atomic<int> left;
};

/// The most numbers that a rank may add to others', of which it has a place in a file; 0: nothing is added.
std::size_t most_numbers() { return static_cast<std::size_t>(number_of("MOCK_NCCL_ADDS", 0)); }

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
  float* numbers;  // of all ranks, behind what they share
  std::size_t collectives = 0, meetings = 0;

  std::size_t bytes() const { return bytes_of(size); }
  static std::size_t bytes_of(int size) {
    return sizeof(Shared) + static_cast<std::size_t>(size) * most_numbers() * sizeof(float);
  }
  /// Waits for the other ranks.
  void meet() {
    ++shared->met;
    for (++meetings; shared->met < meetings * static_cast<std::size_t>(size);) sched_yield();
  }
};

namespace {

enum class Kind : std::size_t { kAllReduce, kReduceScatter, kAllGather, kReduce, kBroadcast };

/// What ranks compare of a collective.
struct Collective {
  const char *call, *does;  // "ncclAllReduce", "sums"
  Kind kind;
  std::size_t count;
  int root;  // 0 where there is none
};

int groups = 0;  // that were started and have not ended

/// The collective with its numbers.
void add(const Collective& asked, ncclComm& comm, const float* from, std::size_t from_count, float* to,
         std::size_t to_count) {
  if (std::max(from_count, to_count) > most_numbers()) complain("%s: MOCK_NCCL_ADDS is too small", asked.call);
  const auto mine = static_cast<std::size_t>(comm.rank), ranks = static_cast<std::size_t>(comm.size);
  const auto numbers_of = [&](std::size_t rank) { return comm.numbers + rank * most_numbers(); };
  std::copy_n(from, from_count, numbers_of(mine));
  comm.meet();
  const bool only_root = asked.kind == Kind::kReduce && comm.rank != asked.root;
  for (std::size_t i = 0; i < to_count && !only_root; ++i) {
    if (asked.kind == Kind::kBroadcast) {
      to[i] = numbers_of(static_cast<std::size_t>(asked.root))[i];
    } else if (asked.kind == Kind::kAllGather) {
      to[i] = numbers_of(i / from_count)[i % from_count];
    } else {
      const std::size_t first = asked.kind == Kind::kReduceScatter ? mine * to_count : 0;
      to[i] = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) to[i] += numbers_of(rank)[first + i];
    }
  }
  comm.meet();
}

/// All ranks' numbers where each has so many.
std::size_t all_of(ncclComm_t comm, std::size_t count) {
  const std::lock_guard lock(state().mutex);
  return state().communicators.contains(comm) ? count * static_cast<std::size_t>(comm->size) : count;
}

/// One collective of this rank: its memory, its stream, and that other ranks ask for the same.
ncclResult_t ask(const Collective& asked, const void* from, std::size_t from_count, void* to, std::size_t to_count,
                 ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  const auto lock = enter(asked.call);
  if (!state().communicators.contains(comm)) complain("%s of a communicator that does not exist", asked.call);
  if (fails(asked.call, comm->rank)) return ncclInternalError;
  check_stream(asked.call, stream);
  if (type != ncclFloat32) complain("%s of numbers that are not f32", asked.call);
  if (asked.root < 0 || asked.root >= comm->size) complain("%s: rank %d of %d", asked.call, asked.root, comm->size);
  for (const auto& [address, count] :
       {std::pair(from, from_count), std::pair<const void*, std::size_t>(to, to_count)}) {
    if (count > 0 && !memory_at(asked.call, address, count * sizeof(float)).on_device)
      complain("%s: %p is not on the device", asked.call, address);
  }
  // Where one holds the numbers of all ranks, the other is this rank's part of it, or lies elsewhere.
  const bool scatters = from_count > to_count;
  const auto* const whole = static_cast<const float*>(scatters ? from : to);
  const auto* const part = static_cast<const float*>(scatters ? to : from);
  const auto [part_count, whole_count] = std::minmax({from_count, to_count});
  if (part_count < whole_count && part < whole + whole_count && whole < part + part_count &&
      part != whole + static_cast<std::size_t>(comm->rank) * part_count)
    complain("%s: of rank %d, which is in place, but not at its own part", asked.call, comm->rank);
  const bool recorded = state().captured != nullptr;
  do_or_capture([=] {
    ++state().counts["collectives"];
    if (asked.kind == Kind::kAllReduce) ++state().counts["all-reduces"];
    const std::size_t number = comm->collectives++;
    if (number >= comm->shared->collectives.size()) complain("more than %zu collectives", number);
    constexpr std::size_t kRoots = 1024, kKinds = 8;  // more than there are
    const std::size_t what =
        (asked.count * kKinds + static_cast<std::size_t>(asked.kind)) * kRoots + static_cast<std::size_t>(asked.root);
    const std::size_t mine = 2 * what + (recorded ? 1 : 0),
                      others = agree(comm->shared->collectives[number], mine + 1) - 1;
    const std::size_t count = others / 2 / kRoots / kKinds;
    if (count != asked.count) {
      complain("rank %d %s %zu numbers in collective %zu, another one %zu", comm->rank, asked.does, asked.count, number,
               count);
    }
    if (others / 2 != what)
      complain("rank %d %s in collective %zu, another one does not, or by another root", comm->rank, asked.does,
               number);
    if (others != mine) complain("collective %zu is recorded in a graph on one rank, but not on another", number);
    if (most_numbers() == 0 || asked.count == 0) return;
    const auto contents = [&](const void* address, std::size_t count) {
      return reinterpret_cast<float*>(memory_at(asked.call, address, count * sizeof(float)).contents);
    };
    add(asked, *comm, contents(from, from_count), from_count, contents(to, to_count), to_count);
  });
  return ncclSuccess;
}

}  // namespace

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
  if (file < 0 || ftruncate(file, static_cast<off_t>(ncclComm::bytes_of(size))) != 0)
    complain("ncclCommInitRank: no file %s", id.internal);
  void* const shared = mmap(nullptr, ncclComm::bytes_of(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared == MAP_FAILED) complain("ncclCommInitRank: %s cannot be mapped", id.internal);
  *comm = new ncclComm{id.internal, rank, size, static_cast<Shared*>(shared),
                       reinterpret_cast<float*>(static_cast<std::byte*>(shared) + sizeof(Shared))};
  state().communicators.insert(*comm);
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const auto lock = enter_uncaptured("ncclCommDestroy");
  if (state().communicators.erase(comm) == 0) complain("ncclCommDestroy of a communicator that does not exist");
  const std::size_t others = agree(comm->shared->count, comm->collectives + 1) - 1;
  if (others != comm->collectives)
    complain("rank %d has taken part in %zu collectives, another one in %zu", comm->rank, comm->collectives, others);
  if (groups != 0) complain("ncclCommDestroy inside of a group");
  if (++comm->shared->left == comm->size) unlink(comm->path.c_str());
  munmap(comm->shared, comm->bytes());
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
ncclResult_t ncclGroupStart() {
  const std::lock_guard lock(state().mutex);
  ++groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  const std::lock_guard lock(state().mutex);
  if (groups-- == 0) complain("ncclGroupEnd without ncclGroupStart");
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm,
                           cudaStream_t stream) {
  return ask({"ncclAllReduce", "sums", Kind::kAllReduce, count, 0}, from, count, to, count, type, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  return ask({"ncclReduceScatter", "scatters", Kind::kReduceScatter, count, 0}, from, all_of(comm, count), to, count,
             type, comm, stream);
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return ask({"ncclAllGather", "gathers", Kind::kAllGather, count, 0}, from, count, to, all_of(comm, count), type, comm,
             stream);
}
ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return ask({"ncclReduce", "reduces", Kind::kReduce, count, root}, from, count, to, count, type, comm, stream);
}
ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return ask({"ncclBroadcast", "broadcasts", Kind::kBroadcast, count, root}, from, count, to, count, type, comm,
             stream);
}
}
