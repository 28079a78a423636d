// Messages between the ranks of one run: all that a medium implements.  Collectives are made of these alone
// (reduction_plan.hpp, reduction.hpp, communicator.hpp), so that they run on any of them: mpi.cpp, virtual_world.hpp.
// Source: the point-to-point operations of the MPI standard 3.1, chapter 3.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>

#include "base/error.hpp"
#include "comm/nodes.hpp"

namespace petaflow {

/// The medium itself fails: nothing can be agreed with the other ranks any more.
class CommError : public Error {
 public:
  explicit CommError(const std::string& message) : Error(ErrorKind::kFailure, message) {}
};

/// Limits and messages of ranks that wait for each other.
struct HangOptions {
  double limit_s = 0;  // a rank that waits so long ends all of them with kHangExitCode; 0: never
  /// Whether this process has been told to end; a rank that goes on waiting then says for whom.  May be empty.
  std::function<bool()> interrupted = {};
  /// Waits are for one rank each, which the call names: there is no roll to call.
  bool one_peer = false;
  /// Takes one line on the rank that speaks.
  std::function<void(const std::string&)> say = {};
};
inline constexpr int kHangExitCode = 2;

enum class ReduceOp { kSum, kMax };
enum class Element { kF32, kF64 };

/// Largest message: MPI 3 counts in int.
inline constexpr std::size_t kLargestMessage = std::size_t{1} << 30;

/// Tells messages between the same two ranks apart: one that is sent with a tag is received with that tag, and those of
/// one tag in the order in which they were sent.  A type of its own, because it stands beside the number of a rank.
class Tag {
 public:
  static constexpr int kMost = 32767;  // that every MPI takes (standard 3.1, section 8.1.2, MPI_TAG_UB)

  constexpr explicit Tag(int number) : number_(number) {
    PETAFLOW_REQUIRE(0 <= number && number <= kMost, "a message's tag is {}, not 0 to {}", number, kMost);
  }
  constexpr int number() const { return number_; }
  /// The one so many places behind.
  constexpr Tag operator+(int places) const { return Tag(number_ + places); }
  bool operator==(const Tag&) const = default;

 private:
  int number_;
};

/// One rank's access to a medium.  Every function throws a CommError naming the call where the medium reports an error.
class Transport {
 public:
  /// Number of a message that was started, on this rank alone, until done() says that it is over; kNone: over.
  using Message = std::uint32_t;
  static constexpr Message kNone = 0;

  Transport() = default;
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual std::string name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const Nodes& nodes() const = 0;

  /// Start a message of up to kLargestMessage bytes and return at once.  The bytes must stay, and those sent keep their
  /// values, until done().
  /// @param to, from  the other rank
  virtual Message send(std::span<const std::byte> bytes, int to, Tag tag) = 0;
  virtual Message receive(std::span<std::byte> bytes, int from, Tag tag) = 0;
  /// Whether the medium has an operation of its own for sums and maxima over all ranks: all_reduce().
  virtual bool has_all_reduce() const { return false; }
  /// Starts values = sum or maximum over ranks, the same bits on all of them.
  virtual Message all_reduce(void* /*values*/, std::size_t /*count*/, Element, ReduceOp) {
    failure("{} has no all-reduce of its own", name());
  }
  /// Moves messages on; whether this one is over, whose number becomes kNone then.
  virtual bool done(Message& message) = 0;

  /// Waits until over() or until now_s() reaches `until_s`.  Nothing else waits but split(); a hang is noticed here.
  /// @param over  is called again and again.  After a call a medium may leave it alone until a message is over that
  ///              over() asked done() of in that call, or that nobody ever asked it of: in every call over() asks it of
  ///              every message that it depends on
  /// @param call  for messages: "all-reduce"
  virtual void wait(const std::function<bool()>& over, const char* call,
                    double until_s = std::numeric_limits<double>::infinity()) = 0;
  virtual double now_s() const = 0;
  /// Lets the time pass that this rank computes, where time is virtual; elsewhere it passes by itself.
  virtual void work(double /*seconds*/) {}
  /// work(), with a call of look() at its beginning and at every multiple of `every_s` while more than that is left.
  /// Additions in look() take time of their own.
  /// @param look  asks for messages as wait()'s over() does: it may be left out where none has ended
  virtual void work_and_look(double seconds, double /*every_s*/, const std::function<void()>& look) {
    look();
    work(seconds);
  }
  /// Lets the time pass that this rank takes to add so many bytes of a vector that has no content to another one.
  virtual void work_on(std::size_t /*bytes*/) {}

  /// An operation of all ranks begins: ranks that wait compare its number.
  virtual void begin_collective() {}
  /// From now on a rank that waits too long finds out who is missing, says so, and ends all ranks.
  virtual void watch_hangs(HangOptions /*options*/) {}

  /// The ranks that call it with the same number, in the order of their ranks here, watched as these are.  Collective;
  /// it waits, so that no rank may fail before it.
  virtual std::unique_ptr<Transport> split(int group) = 0;
  /// Ends all ranks at once, for a rank that fails where the others cannot be asked.
  [[noreturn]] virtual void abort(int exit_code) = 0;
};

/// This rank alone, which can send to itself.
std::unique_ptr<Transport> make_self_transport();

}  // namespace petaflow
