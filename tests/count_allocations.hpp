// Counts what a program asks for: malloc and its relatives of glibc and mmap are replaced in the whole process, the
// libraries' calls included.  For one source file of a program; not with AddressSanitizer, which replaces them too.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string_view>

#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace petaflow::allocations {

/// Allocations of one size by one chain of calls, which are one entry: a step of a large network makes a hundred
/// thousand of oneDNN's.
struct Allocation {
  std::size_t bytes = 0;  // of each
  std::size_t times = 0;
  const void* caller = nullptr;
  int depth = 0;
  void* callers[32] = {};  // and theirs, innermost first

  bool is_like(const Allocation& other) const {
    return bytes == other.bytes && std::ranges::equal(stack(), other.stack());
  }
  std::span<void* const> stack() const { return {callers, static_cast<std::size_t>(depth)}; }
  /// True where a function of this shared library asked for it.
  bool is_by(std::string_view library) const { return is_in(caller, library); }
  /// True where a function of this shared library did, or one that it called.
  bool is_below(std::string_view library) const {
    return std::ranges::any_of(stack(), [&](const void* address) { return is_in(address, library); });
  }
  /// Writes the callers to the standard error.
  void print() const { backtrace_symbols_fd(callers, depth, STDERR_FILENO); }

 private:
  static bool is_in(const void* address, std::string_view library) {
    Dl_info info{};
    if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
    const std::string_view path = info.dli_fname;
    return path.substr(path.rfind('/') + 1).starts_with(library);
  }
};

inline Allocation seen[1 << 12];
inline std::atomic<std::size_t> count = 0;  // entries, with those for which there was no room
inline std::atomic_flag being_written;
inline std::atomic<bool> counting = false;
/// Set by threads whose allocations do not count.
inline thread_local bool ignored = false;

inline void note(std::size_t bytes, const void* caller) {
  if (ignored || !counting.load(std::memory_order_relaxed)) return;
  ignored = true;  // what backtrace itself may ask for
  Allocation now{bytes, 1, caller};
  now.depth = backtrace(now.callers, std::size(now.callers));
  while (being_written.test_and_set(std::memory_order_acquire)) {
  }
  const std::span<Allocation> known(seen, std::min(count.load(), std::size(seen)));
  const auto same = std::ranges::find_if(known, [&](const Allocation& a) { return a.is_like(now); });
  if (same != known.end()) {
    ++same->times;
  } else if (const std::size_t index = count.fetch_add(1); index < std::size(seen)) {
    seen[index] = now;
  }
  being_written.clear(std::memory_order_release);
  ignored = false;
}

/// Memory that f() asks for, in all threads.  More than `seen` holds is a failure of its own: see `count`.
template <class F>
std::span<const Allocation> during(const F& f) {
  void* warm_up[4];
  backtrace(warm_up, 4);  // loads the unwinder
  count = 0;
  counting = true;
  f();
  counting = false;
  return {seen, std::min(count.load(), std::size(seen))};
}

}  // namespace petaflow::allocations

extern "C" {
// glibc's own names; they are in no header.  NOLINTBEGIN(bugprone-reserved-identifier)
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t n, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(std::size_t bytes) noexcept {
  petaflow::allocations::note(bytes, __builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t n, std::size_t bytes) noexcept {
  petaflow::allocations::note(n * bytes, __builtin_return_address(0));
  return __libc_calloc(n, bytes);
}
void* realloc(void* old, std::size_t bytes) noexcept {
  petaflow::allocations::note(bytes, __builtin_return_address(0));
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) noexcept {
  petaflow::allocations::note(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) noexcept {
  petaflow::allocations::note(bytes, __builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** to, std::size_t alignment, std::size_t bytes) noexcept {
  petaflow::allocations::note(bytes, __builtin_return_address(0));
  *to = __libc_memalign(alignment, bytes);
  return *to == nullptr ? ENOMEM : 0;
}
void* mmap(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  petaflow::allocations::note(bytes, __builtin_return_address(0));
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}
}
