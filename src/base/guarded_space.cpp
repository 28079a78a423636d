#include "base/guarded_space.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <impl/Kokkos_MemorySpace.hpp>
#include <impl/Kokkos_SharedAlloc_timpl.hpp>

#include "base/unwritten.hpp"

namespace petaflow {
namespace {

constexpr int kExitCode = 98;
constexpr std::size_t kPage = 4096;

struct Block {
  std::byte* pages = nullptr;  // closed ones follow
  std::size_t page_bytes = 0;
  std::byte* begin =
      nullptr;  // Kokkos' header, then what was asked for, up to the end of the pages as alignment allows
  std::size_t header_bytes = 0, bytes = 0;
  std::string label;
};

// Addresses are never used again, so that memory which was freed stays recognisable; nothing but addresses is reserved,
// fewer where a limit of the process wants that.
std::byte* region = nullptr;
std::size_t region_bytes = std::size_t{8} << 40;
std::byte* next_pages = nullptr;
std::map<const std::byte*, Block> live, freed;  // by their first page
std::recursive_mutex mutex;
int kernels = 0;  // and copies, under way
std::string kernel;
std::string loop;                    // under way on the host: not by launch()
thread_local bool launched = false;  // by launch(): the next kernel that begins in this thread

bool guarded(const void* address) {
  const auto* at = static_cast<const std::byte*>(address);
  return region != nullptr && at >= region && at < region + region_bytes;
}

/// The block whose pages, or the closed page behind them, hold the address, and whether it is still there.
std::pair<const Block&, bool> block_of(const void* address) {
  for (const auto* all : {&live, &freed}) {
    const auto behind = all->upper_bound(static_cast<const std::byte*>(address));
    if (behind == all->begin()) continue;
    const Block& block = std::prev(behind)->second;
    if (address < block.pages + block.page_bytes + kPage) return {block, all == &live};
  }
  static const Block none{.label = "nothing"};
  return {none, true};
}

/// Pages that a kernel or copy under way has touched: opened where it does, since opening all memory for every kernel
/// took nine tenths of the time of the tests.
std::vector<std::span<std::byte>> open_pages;

void open(std::span<std::byte> pages) {
  if (mprotect(pages.data(), pages.size(), PROT_READ | PROT_WRITE) != 0) Kokkos::abort("guard: mprotect failed");
  open_pages.push_back(pages);
}

void close_all() {
  for (const std::span<std::byte> pages : open_pages) mprotect(pages.data(), pages.size(), PROT_NONE);
  open_pages.clear();
}

/// The pages around an address of a block, at most so many: the fewer, the more faults.
std::span<std::byte> pages_around(const Block& block, const void* address) {
  constexpr std::size_t kAtMost = 16 * kPage;
  const auto at = static_cast<std::size_t>(static_cast<const std::byte*>(address) - block.pages) / kAtMost * kAtMost;
  return {block.pages + at, std::min(kAtMost, block.page_bytes - at)};
}

/// While a copy runs; it may touch all of it.
class Open {
 public:
  Open() {
    const std::lock_guard lock(mutex);
    ++kernels;
  }
  ~Open() {
    const std::lock_guard lock(mutex);
    if (--kernels == 0) close_all();
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
};

/// The callers, with file and line where there is debug information, and the end.
/// @param skipped  innermost callers that are not shown
/// @param fault    the first one shown is where a fault happened, not where a call returns to
[[noreturn]] void end_process(int skipped, bool fault) {
  constexpr int kShown = 10;
  void* frames[32];
  const int depth = std::min(backtrace(frames, 32), skipped + kShown);
  std::fflush(stderr);
  for (int i = skipped; i < depth; ++i) {
    Dl_info object{};
    if (dladdr(frames[i], &object) == 0 || object.dli_fname == nullptr) continue;
    const auto offset = static_cast<std::byte*>(frames[i]) - static_cast<std::byte*>(object.dli_fbase);
    char command[4200];
    std::snprintf(command, sizeof command, "addr2line -Cfipe '%s' 0x%tx >&2 2>/dev/null || echo '%s' >&2",
                  object.dli_fname, fault && i == skipped ? offset : offset - 1, object.dli_fname);
    if (std::system(command) != 0) break;
  }
  _exit(kExitCode);
}

void on_fault(int, siginfo_t* signal, void* context) {
  if (!guarded(signal->si_addr)) {
    std::signal(SIGSEGV, SIG_DFL);  // somebody else's: it comes again
    return;
  }
  const std::lock_guard lock(mutex);
  const auto& [block, alive] = block_of(signal->si_addr);
  if (kernels > 0 && alive && signal->si_addr < block.pages + block.page_bytes) {
    open(pages_around(block, signal->si_addr));
    return;
  }
  const bool writes = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  const auto offset =
      static_cast<std::byte*>(signal->si_addr) - block.begin - static_cast<std::ptrdiff_t>(block.header_bytes);
  const std::string who = kernels > 0     ? "kernel \"" + kernel + "\""
                          : !loop.empty() ? "the host, in loop \"" + loop + "\" without launch(),"
                                          : "the host";
  std::fprintf(stderr, "guard: %s %s device memory \"%s\"%s, byte %td of %zu:\n", who.c_str(),
               writes ? "writes to" : "reads", block.label.c_str(), alive ? "" : ", which was freed", offset,
               block.bytes);
  end_process(3, true);
}

/// Kernels are what launch() starts, and what Kokkos itself does for views; any other loop is one of the host.
void begin_kernel(const char* label, std::uint32_t, std::uint64_t* is_kernel) {
  const std::lock_guard lock(mutex);
  *is_kernel = std::exchange(launched, false) || std::string_view(label).starts_with("Kokkos::") ? 1 : 0;
  kernels += *is_kernel == 1 ? 1 : 0;
  (*is_kernel == 1 ? kernel : loop) = label;
}
void end_kernel(std::uint64_t is_kernel) {
  const std::lock_guard lock(mutex);
  if (is_kernel == 0) {
    loop.clear();
  } else if (--kernels == 0) {
    close_all();
  }
}

void start() {
  const auto reserve = [] {
    return mmap(nullptr, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  };
  void* memory = reserve();
  while (memory == MAP_FAILED) {
    region_bytes /= 2;
    if (region_bytes == 0) Kokkos::abort("guard: no addresses for guarded memory");
    memory = reserve();
  }
  region = next_pages = static_cast<std::byte*>(memory);
  struct sigaction action{};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(begin_kernel);
  tools::set_begin_parallel_reduce_callback(begin_kernel);
  tools::set_begin_parallel_scan_callback(begin_kernel);
  tools::set_end_parallel_for_callback(end_kernel);
  tools::set_end_parallel_reduce_callback(end_kernel);
  tools::set_end_parallel_scan_callback(end_kernel);
}

/// True where none of the bytes has been written since they were allocated.
bool is_fresh(const void* memory, std::size_t bytes) {
  const auto* at = static_cast<const unsigned char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) {
    const bool odd = (reinterpret_cast<std::uintptr_t>(at + i) & 1) != 0;
    if (at[i] != (odd ? kUnwritten >> 8 : kUnwritten & 0xFF)) return false;
  }
  return bytes >= sizeof kUnwritten;
}

/// The first byte of a word that is an address of host memory; `bytes` where there is none.
std::size_t find_host_pointer(const void* words, std::size_t bytes) {
  std::size_t i = 0;
  for (; i + sizeof(std::uintptr_t) <= bytes; i += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const std::byte*>(words) + i, sizeof word);
    // Programs, libraries, heap and stacks lie between these on x86-64 Linux; sizes and floating-point numbers do not.
    if (word < std::uintptr_t{1} << 40 || word >= std::uintptr_t{1} << 47) continue;
    auto* const address = reinterpret_cast<std::byte*>(word);
    unsigned char resident = 0;
    if (!guarded(address) && mincore(address - word % kPage, 1, &resident) == 0) return i;  // something is mapped there
  }
  return bytes;
}

/// A copy without a look at what is copied.
void copy_bytes(void* to, const void* from, std::size_t bytes) {
  const Open open;
  std::memcpy(to, from, bytes);
}

}  // namespace

void* GuardedSpace::allocate(const char* label, std::size_t bytes, std::size_t logical_bytes) const {
  constexpr std::size_t kAlignment = 128;
  const std::lock_guard lock(mutex);
  if (region == nullptr) start();
  Block block;
  block.page_bytes = (bytes + kPage - 1) / kPage * kPage;
  if (next_pages + block.page_bytes + kPage > region + region_bytes) {
    using Failure = Kokkos::Experimental::RawMemoryAllocationFailure;
    throw Failure(bytes, kAlignment, Failure::FailureMode::OutOfMemoryError, Failure::AllocationMechanism::PosixMMap);
  }
  block.pages = next_pages;
  block.begin = block.pages + (block.page_bytes - bytes) / kAlignment * kAlignment;
  block.header_bytes = logical_bytes > 0 ? bytes - logical_bytes : 0;
  block.bytes = bytes - block.header_bytes;
  block.label = label;
  next_pages += block.page_bytes + kPage;
  open({block.pages, block.page_bytes});
  std::fill_n(reinterpret_cast<std::uint16_t*>(block.pages), block.page_bytes / sizeof kUnwritten, kUnwritten);
  if (kernels == 0) close_all();
  return live.emplace(block.pages, block).first->second.begin;
}

void GuardedSpace::deallocate(const char* /*label*/, void* memory, std::size_t, std::size_t) const {
  const std::lock_guard lock(mutex);
  const Block& block = block_of(memory).first;
  madvise(block.pages, block.page_bytes, MADV_DONTNEED);
  mprotect(block.pages, block.page_bytes, PROT_NONE);
  freed.insert(live.extract(block.pages));
}

void guard::copy(void* to, const void* from, std::size_t bytes) {
  const Open open;
  if (guarded(to) && !guarded(from)) {
    if (const std::size_t at = find_host_pointer(from, bytes); at < bytes) {
      std::fprintf(stderr, "guard: a copy to device memory \"%s\" brings a host pointer in byte %zu of %zu:\n",
                   block_of(to).first.label.c_str(), at, bytes);
      end_process(2, false);
    }
  }
  if (guarded(from) && !guarded(to) && is_fresh(from, bytes)) {
    const Block& block = block_of(from).first;
    std::fprintf(
        stderr,
        "guard: a copy to the host of %zu bytes of device memory \"%s\" that nothing has written to: a copy to "
        "the device, or a kernel, is missing:\n",
        bytes, block.label.c_str());
    end_process(2, false);
  }
  std::memcpy(to, from, bytes);
}

void guard::check_words(const std::string& label, const void* functor, std::size_t bytes,
                        const std::source_location& where) {
  launched = region != nullptr;  // before, nothing is told of kernels
  const std::size_t at = find_host_pointer(functor, bytes);
  if (at == bytes) return;
  std::fprintf(stderr, "guard: kernel \"%s\", launched at %s:%u, gets a host pointer in byte %zu of its functor:\n",
               label.c_str(), where.file_name(), static_cast<unsigned>(where.line()), at);
  end_process(2, false);
}

}  // namespace petaflow

namespace Kokkos::Impl {

SharedAllocationRecord<petaflow::GuardedSpace, void>::SharedAllocationRecord(
    const petaflow::GuardedSpace& space, const std::string& label, std::size_t bytes,
    SharedAllocationRecord<void, void>::function_type free)
    : HostInaccessibleSharedAllocationRecordCommon<petaflow::GuardedSpace>(
          checked_allocation_with_header(space, label, bytes), sizeof(SharedAllocationHeader) + bytes, free),
      m_space(space) {
  SharedAllocationHeader header;
  _fill_host_accessible_header_info(header, label);
  petaflow::copy_bytes(m_alloc_ptr, &header, sizeof header);  // it points to this record
}

SharedAllocationRecord<petaflow::GuardedSpace, void>::~SharedAllocationRecord() { m_space.deallocate("", m_alloc_ptr); }

template class SharedAllocationRecordCommon<petaflow::GuardedSpace>;
template class HostInaccessibleSharedAllocationRecordCommon<petaflow::GuardedSpace>;

}  // namespace Kokkos::Impl
