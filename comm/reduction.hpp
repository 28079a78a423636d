// All-reduces that go on while a rank computes: the steps of a plan, taken whenever somebody asks how far they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "comm/reduction_plan.hpp"
#include "comm/transport.hpp"

namespace petaflow {

/// What numbers of f32 are between ranks.  Sums are made in f32; every number is rounded once for each message.
enum class Wire : std::uint8_t { kF32, kBf16, kFp16 };
constexpr const char* name_of(Wire wire) {
  switch (wire) {
    case Wire::kF32:
      return "f32";
    case Wire::kBf16:
      return "bf16";
    case Wire::kFp16:
      break;
  }
  return "fp16";
}

/// A way of summing a vector of f32 over ranks.
struct ReductionImpl {
  const char* name;
  /// Empty where it can do it, otherwise the reason in a few words.
  std::string (*why_not)(const Transport& transport, Wire wire);
  /// Null: the medium's own operation.
  ReductionPlan (*plan)(const Transport& transport, std::int64_t elements);
};

/// mpi, ring, doubling, halving, two_level; "tree" is made by tree_plan() for shards of its own.
std::span<const ReductionImpl* const> reduction_impls();
/// The one of that name; nullptr: there is none.
const ReductionImpl* find_reduction(const std::string& name);

/// One all-reduce, done again and again; memory is kept.  T: float or double.  Not to be destroyed while it goes on:
/// messages would be written into memory of others.
template <class T>
class Reduction {
 public:
  /// Of a plan.
  /// @param tag  no other operation between these ranks that is under way has it
  Reduction(Transport& transport, const ReductionPlan& plan, Tag tag, ReduceOp operation = ReduceOp::kSum,
            Wire wire = Wire::kF32);
  /// The medium's own, of one piece.
  Reduction(Transport& transport, std::int64_t elements, ReduceOp operation = ReduceOp::kSum);

  /// Begins; the pieces, whole vectors, are not touched until advance() says that it is over: then piece 0 is the
  /// result and the others hold anything.  Null pieces have sizes alone: messages are without content, and for
  /// additions time passes (Transport::work_on()).
  void start(std::span<T* const> pieces);
  /// Goes on as far as messages allow without waiting; whether it is over.
  bool advance();
  /// A rank whose message it needs to go on; negative: none, or the medium does not say.
  int waits_for() const;
  /// By this rank in one sum; 0 where the medium does not say.
  double sent_bytes() const;

 private:
  struct Pending {
    Transport::Message message;
    std::size_t step;
    std::size_t offset;  // in staging_, of what is received there
  };
  void post_round();
  void finish_round();
  void pass_time();
  T* at(int piece, const Step& step) const;
  std::byte* stage(std::size_t bytes);
  bool narrows(const Step& step) const { return wire_ != Wire::kF32 && !step.wide; }
  std::size_t wire_bytes(const Step& step) const;

  Transport& transport_;
  ReductionPlan plan_;
  Tag tag_{0};
  ReduceOp operation_;
  Wire wire_ = Wire::kF32;
  bool native_ = false;
  std::size_t elements_ = 0;  // of the medium's own
  std::vector<T*> pieces_;
  std::size_t begin_ = 0, end_ = 0;  // steps of the running round
  bool posted_ = false, running_ = false;
  std::vector<Pending> pending_;
  std::size_t open_ = 0;            // the first so many of them, the last of which has yet to end
  std::vector<std::byte> staging_;  // from the first pieces that have content on
  std::size_t staging_bytes_ = 0, staged_ = 0;
};

}  // namespace petaflow
