// Sums by NCCL on the mock, which adds there (MOCK_NCCL_ADDS), against the sums: between all ranks, to owners, and by
// MPI between nodes (MOCK_RANKS_PER_NODE).
#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/staged.hpp"
#include "comm/device_sum.hpp"
#include "comm/mpi.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kElements = 1003;
const std::vector<std::int64_t> kEnds = {10, 11, 300, 303, 997, kElements};

/// Whole numbers, whose sums are exact.
float number(int rank, std::int64_t i, std::int64_t step) {
  return static_cast<float>((rank * 31 + i * 7 + step * 13) % 101);
}

class DeviceSums : public testing::TestWithParam<DeviceSumOptions> {
 protected:
  using Gradient = Staged<float>;

  /// The passes of a step, whose gradient gets ready in several parts.
  void pass(DeviceSum& sums, std::int64_t step, const Gradient& gradient) {
    for (std::int64_t i = 0; i < kElements; ++i) gradient.host()[i] = number(comm_->rank(), i, step);
    gradient.upload(context_);
    sums.begin(step % GetParam().steps, gradient.device());
    for (const std::int64_t first : {std::int64_t{990}, std::int64_t{299}, std::int64_t{0}}) {
      sums.ready_from(first);
      sums.progress();
    }
  }

  /// Finds them in what the context's space is given behind join().
  void expect_sums(DeviceSum& sums, std::int64_t step, const Gradient& gradient) {
    sums.join(step % GetParam().steps);
    gradient.download(context_);
    sums.wait();
    for (const Slice& own : sums.own()) {
      for (std::int64_t i = own.begin; i < own.end; ++i) ASSERT_EQ(gradient.host()[i], sum(i, step)) << i;
    }
  }

  float sum(std::int64_t i, std::int64_t step) const {
    float sum = 0;
    for (int rank = 0; rank < comm_->size(); ++rank) sum += number(rank, i, step);
    return sum;
  }

  std::unique_ptr<Communicator> comm_ = make_mpi_communicator();
  Context context_;
};

TEST_P(DeviceSums, AreTheSums) {
  const auto sums = make_device_sum(*comm_, context_, kEnds, GetParam());
  std::vector<Gradient> gradients;
  for (std::int64_t place = 0; place < GetParam().steps; ++place)
    gradients.emplace_back("gradient", static_cast<std::size_t>(kElements));
  const auto gradient_of = [&](std::int64_t step) -> const Gradient& {
    return gradients[static_cast<std::size_t>(step % GetParam().steps)];
  };
  constexpr std::int64_t kSteps = 5;
  for (std::int64_t step = 0; step < kSteps; ++step) {
    pass(*sums, step, gradient_of(step));
    const std::int64_t due = step + 1 - GetParam().steps;
    if (due >= 0) expect_sums(*sums, due, gradient_of(due));
  }
  for (std::int64_t due = kSteps + 1 - GetParam().steps; due < kSteps; ++due) expect_sums(*sums, due, gradient_of(due));
}

TEST_P(DeviceSums, GoFromOwnersToAll) {
  if (!GetParam().owners) GTEST_SKIP() << "all ranks have all sums";
  const auto sums = make_device_sum(*comm_, context_, kEnds, GetParam());
  const Gradient weights("weights", static_cast<std::size_t>(kElements));
  for (const Slice& own : sums->own()) {
    for (std::int64_t i = own.begin; i < own.end; ++i) weights.host()[i] = number(0, i, 0);
  }
  weights.upload(context_);
  sums->spread(weights.device());
  weights.download(context_);
  sums->wait();
  for (std::int64_t i = 0; i < kElements; ++i) ASSERT_EQ(weights.host()[i], number(0, i, 0)) << i;
}

INSTANTIATE_TEST_SUITE_P(Options, DeviceSums,
                         testing::Values(DeviceSumOptions{.bucket = 1}, DeviceSumOptions{.bucket = 300, .steps = 2},
                                         DeviceSumOptions{.bucket = 2000, .overlap = false},
                                         DeviceSumOptions{.bucket = 1, .owners = true},
                                         DeviceSumOptions{.bucket = 300, .steps = 3, .owners = true},
                                         DeviceSumOptions{.bucket = 1, .nodes = true},
                                         DeviceSumOptions{.bucket = 300, .steps = 3, .nodes = true},
                                         DeviceSumOptions{.bucket = 300, .overlap = false, .nodes = true}));

}  // namespace
}  // namespace petaflow
