#include "train/step_agreement.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "comm/agree.hpp"

namespace petaflow {
namespace {

double sum_of(std::span<const double> parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace
StepAgreement::StepAgreement(Communicator& comm, std::int64_t parts, bool squares)
    : comm_(comm),
      parts_(static_cast<std::size_t>(parts)),
      meeting_(comm, CountedMeeting::kMostTimed),
      values_(parts_ + kCounts + (squares ? parts_ + 1 : 0) + meeting_.numbers()),
      sum_(comm.make_sum(std::ssize(values_))) {}

void StepAgreement::clear() {
  std::ranges::fill(values_, 0.0);
  mine_ = 0;
}

void StepAgreement::add_loss(std::int64_t part, double loss) {
  values_[static_cast<std::size_t>(part)] += loss;
  mine_ += loss;
}

void StepAgreement::add_squares(std::int64_t part, double squares) {
  values_[parts_ + kCounts + static_cast<std::size_t>(part)] += squares;
  values_[2 * parts_ + kCounts] += 1;
}

void StepAgreement::start(const std::exception_ptr& error) {
  const std::span<double> counts = std::span(values_).subspan(parts_, kCounts);
  const StopRequest request = stop_request();
  error_ = error;
  counts[0] = error || !std::isfinite(mine_) ? 1 : 0;
  counts[1] = request == StopRequest::kSignal ? 1 : 0;
  counts[2] = request == StopRequest::kWallTime ? 1 : 0;
  meeting_.arrive(durations());
  if (comm_.size() > 1) sum_->start(std::array{values_.data()});
}

bool StepAgreement::wait(const std::function<void()>& progress, const CountWait& count) {
  meeting_.wait(*sum_, durations(), progress, count);
  return values_[parts_] == 0;
}

void StepAgreement::raise(std::int64_t step, bool name_rank) const {
  std::exception_ptr error = error_;
  try {
    if (!error && !std::isfinite(mine_)) {
      failure("step {}: the loss is {}{}; a smaller optimizer.lr or a warm-up (schedule.warmup_steps) may help", step,
              mine_, name_rank ? fmt::format(" on rank {}", comm_.rank()) : "");
    }
  } catch (...) {
    error = std::current_exception();
  }
  throw_agreed(comm_, error);
  failure("step {}: no rank says why it failed", step);
}

double StepAgreement::loss() const { return sum_of(std::span(values_).first(parts_)); }

double StepAgreement::squares() const { return sum_of(std::span(values_).subspan(parts_ + kCounts, parts_)); }

std::int64_t StepAgreement::micro_batches_with_squares() const { return std::llround(values_[2 * parts_ + kCounts]); }

StopRequest StepAgreement::stop() const {
  const std::span<const double> counts = std::span(values_).subspan(parts_, kCounts);
  if (counts[1] > 0) return StopRequest::kSignal;
  return counts[2] > 0 ? StopRequest::kWallTime : StopRequest::kNone;
}

void StepAgreement::set_loss(double loss) {
  clear();
  values_[0] = loss;
}

}  // namespace petaflow
