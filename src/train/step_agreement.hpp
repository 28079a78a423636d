// What ranks tell each other of a step before its gradient is used: losses, failures and requests to stop, as one small
// sum that goes on beside those of gradients.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/counted_wait.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

class StepAgreement {
 public:
  /// @param parts  sums of losses that are kept apart (BatchShare::parts), and of squares, where these are told too
  StepAgreement(Communicator& comm, std::int64_t parts, bool squares);

  /// Begins a step.
  void clear();
  void add_loss(std::int64_t part, double loss);
  /// Of a micro-batch.
  void add_squares(std::int64_t part, double squares);
  /// Tells the others how this rank fared.
  /// @param error  of this rank, or null; a loss that is not finite is one too
  void start(const std::exception_ptr& error);
  /// Lets what is told move on, between start() and wait().
  void progress() { sum_->advance(); }
  /// Waits until all have told; whether all went well.
  /// @param progress  lets the sums of gradients move on, called while it waits
  bool wait(const std::function<void()>& progress, const CountWait& count);
  /// After wait() where a rank failed: throws the AgreedError of all.
  /// @param name_rank  a loss that is not finite is said to be of this rank
  [[noreturn]] void raise(std::int64_t step, bool name_rank) const;

  // ---- After wait() ----
  /// Of all ranks, added in the order of the parts.
  double loss() const;
  /// Likewise; and of how many micro-batches.
  double squares() const;
  std::int64_t micro_batches_with_squares() const;
  /// Of any rank.
  StopRequest stop() const;

  /// Takes the place of a step whose loss is known.
  void set_loss(double loss);

 private:
  static constexpr std::size_t kCounts = 3;

  std::span<double> durations() { return std::span(values_).last(meeting_.numbers()); }

  Communicator& comm_;
  std::size_t parts_;
  CountedMeeting meeting_;
  // Sums of losses; then the number of failed ranks, of those with a signal, of those whose wall time is up; then,
  // where they are told, sums of squares and the number of their micro-batches; at last durations().
  std::vector<double> values_;
  std::unique_ptr<Reduction<double>> sum_;
  double mine_ = 0;           // loss of this rank
  std::exception_ptr error_;  // of this rank
};

}  // namespace petaflow
