// Preset "guarded": memory that behaves as a GPU's does, on a machine without one.  Only kernels of launch() and copies
// may touch it, it begins as NaN, and neither functors nor copies may bring host pointers; what breaks a rule ends the
// process with a message that names memory or kernel, and the line.  Not seen: what a host does on pages that a kernel
// has open in another thread, and host pointers that are not aligned.  Written for the inside of Kokkos 3.4.
#pragma once

#include <cstddef>
#include <cstring>
#include <source_location>
#include <string>
#include <type_traits>

#include <Kokkos_Core.hpp>

namespace petaflow {

class GuardedSpace {
 public:
  using memory_space = GuardedSpace;
  using size_type = std::size_t;
  using execution_space = Kokkos::DefaultHostExecutionSpace;
  using device_type = Kokkos::Device<execution_space, memory_space>;

  // As Kokkos calls them.
  void* allocate(std::size_t bytes) const { return allocate("unnamed", bytes); }
  void* allocate(const char* label, std::size_t bytes, std::size_t logical_bytes = 0) const;
  void deallocate(void* memory, std::size_t /*bytes*/) const { deallocate("", memory); }
  void deallocate(const char* label, void* memory, std::size_t bytes = 0, std::size_t logical_bytes = 0) const;
  static constexpr const char* name() { return "Guarded"; }
};

namespace guard {

/// memcpy where either side may be guarded memory.
void copy(void* to, const void* from, std::size_t bytes);

/// Ends the process where one of the words of a functor is an address of host memory.  A Kokkos::View has one: functors
/// hold plain pointers.
void check_words(const std::string& label, const void* functor, std::size_t bytes, const std::source_location& where);

/// The same, without what happens to lie between the members.
template <class Functor>
void check_functor(const std::string& label, const Functor& functor, const std::source_location& where) {
  if constexpr (std::is_trivially_copyable_v<Functor>) {
    alignas(Functor) unsigned char words[sizeof(Functor)];
    std::memcpy(words, &functor, sizeof functor);
    __builtin_clear_padding(reinterpret_cast<Functor*>(words));
    check_words(label, words, sizeof words, where);
  } else {
    check_words(label, &functor, sizeof functor, where);
  }
}

}  // namespace guard
}  // namespace petaflow

namespace Kokkos::Impl {

template <>
struct MemorySpaceAccess<HostSpace, petaflow::GuardedSpace> {
  enum { assignable = false };
  enum { accessible = false };
  enum { deepcopy = true };
};
template <>
struct MemorySpaceAccess<petaflow::GuardedSpace, HostSpace> {
  enum { assignable = false };
  enum { accessible = false };
  enum { deepcopy = true };
};

/// Kernels run on the host: that they may use views is seen by the pages, not by types.
template <>
struct verify_space<HostSpace, petaflow::GuardedSpace, false> {
  static void check() {}
};

struct GuardedCopy {
  GuardedCopy(void* to, const void* from, std::size_t bytes) { petaflow::guard::copy(to, from, bytes); }
};
template <class Instance>
struct DeepCopy<petaflow::GuardedSpace, HostSpace, Instance> : GuardedCopy {
  using GuardedCopy::GuardedCopy;
  DeepCopy(const Instance&, void* to, const void* from, std::size_t bytes) : GuardedCopy(to, from, bytes) {}
};
template <class Instance>
struct DeepCopy<HostSpace, petaflow::GuardedSpace, Instance> : GuardedCopy {
  using GuardedCopy::GuardedCopy;
  DeepCopy(const Instance&, void* to, const void* from, std::size_t bytes) : GuardedCopy(to, from, bytes) {}
};
template <class Instance>
struct DeepCopy<petaflow::GuardedSpace, petaflow::GuardedSpace, Instance> : GuardedCopy {
  using GuardedCopy::GuardedCopy;
  DeepCopy(const Instance&, void* to, const void* from, std::size_t bytes) : GuardedCopy(to, from, bytes) {}
};

template <>
class SharedAllocationRecord<petaflow::GuardedSpace, void>
    : public HostInaccessibleSharedAllocationRecordCommon<petaflow::GuardedSpace> {
 public:
  SharedAllocationRecord(const SharedAllocationRecord&) = delete;
  SharedAllocationRecord& operator=(const SharedAllocationRecord&) = delete;

 protected:
  SharedAllocationRecord() = default;
  SharedAllocationRecord(const petaflow::GuardedSpace& space, const std::string& label, std::size_t bytes,
                         SharedAllocationRecord<void, void>::function_type free = &deallocate);
  ~SharedAllocationRecord();

 private:
  friend class SharedAllocationRecordCommon<petaflow::GuardedSpace>;
  friend class HostInaccessibleSharedAllocationRecordCommon<petaflow::GuardedSpace>;

  petaflow::GuardedSpace m_space;  // Kokkos' name for it
};

}  // namespace Kokkos::Impl
