// Inputs of a micro-batch, from a batch: samples, targets by name, weights and indices, with zeros behind the last
// slot.
#include <algorithm>
#include <numeric>

#include "op_support.hpp"
#include "scratch_folder.hpp"
#include "train/micro_batch_inputs.hpp"

namespace petaflow {
namespace {

using testing_support::DeviceArray;

const TargetSpec kMap = TargetSpec::class_map("map", 200, {1, 2, 3}), kKind = TargetSpec::label("kind", 9);

/// Three slots with a class, a map and numbers; the bytes of everything count up.
struct ThreeSlots {
  ThreeSlots() {
    std::iota(samples.begin(), samples.end(), 0.0F);
    std::iota(map.begin(), map.end(), std::uint8_t{1});
    batch.samples = reinterpret_cast<std::byte*>(samples.data());
    batch.targets = {{kKind, reinterpret_cast<std::byte*>(kind.data())},
                     {TargetSpec::numbers("unread", 1), reinterpret_cast<std::byte*>(unread.data())},
                     {kMap, reinterpret_cast<std::byte*>(map.data())}};
    batch.weights = {0.5F, 1, 2};
    batch.indices = {7, 8, 9};
  }

  std::vector<float> samples = std::vector<float>(3 * 4), unread = std::vector<float>(3);
  std::vector<std::int32_t> kind = {4, 5, 6};
  std::vector<std::uint8_t> map = std::vector<std::uint8_t>(3 * 6);
  Batch batch;
};

template <class T>
std::vector<T> fetch(const void* from, std::size_t count) {
  std::vector<T> host(count);
  Kokkos::deep_copy(Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(host.data(), count),
                    Kokkos::View<const T*, MemorySpace, Kokkos::MemoryUnmanaged>(static_cast<const T*>(from), count));
  return host;
}

// Micro-batches of two slots: the second has one sample.  The map comes first, as the losses list it.
TEST(MicroBatchInputs, BringWhatTheLossesRead) {
  const ThreeSlots three;
  MicroBatchInputs inputs(2, {kMap, kKind});
  const DeviceArray<float> x(std::vector<float>(2 * 4, NAN));
  const Tensor input = Tensor::dense({2, 4}, DType::kF32, x.data());
  const Context context = testing_support::context_for(2);
  for (const std::int64_t micro_batch : {0, 1, 0, 1}) {
    inputs.load(context, three.batch, 2 * micro_batch, input, {});
    const StepState state = fetch<StepState>(inputs.state(), 1).front();
    const bool second = micro_batch == 1;
    EXPECT_EQ(fetch<std::int64_t>(state.sample, 2), (std::vector<std::int64_t>{second ? 9 : 7, second ? -1 : 8}));
    EXPECT_EQ(fetch<float>(state.weight, 2), (std::vector<float>{second ? 2 : 0.5F, second ? 0 : 1.0F}));
    EXPECT_EQ(fetch<std::int32_t>(inputs.targets()[1], 2), (std::vector<std::int32_t>{second ? 6 : 4, second ? 0 : 5}));
    std::vector<std::uint8_t> map(12);
    std::iota(map.begin(), second ? map.begin() + 6 : map.end(), static_cast<std::uint8_t>(second ? 13 : 1));
    EXPECT_EQ(fetch<std::uint8_t>(inputs.targets()[0], 12), map);
    std::vector<float> samples(8);
    std::iota(samples.begin(), second ? samples.begin() + 4 : samples.end(), second ? 8.0F : 0.0F);
    EXPECT_EQ(x.get(), samples);
  }
}

// On a device samples that were brought ahead are those of then: the batch changes in between, which it must not.
TEST(MicroBatchInputs, TakeTheSamplesThatWereBroughtAhead) {
  ThreeSlots three;
  MicroBatchInputs inputs(4, {kMap, kKind});
  const DeviceArray<float> x(std::vector<float>(4 * 4, NAN));
  const Tensor input = Tensor::dense({4, 4}, DType::kF32, x.data());
  const Context context = testing_support::context_for(2);
  const auto loaded = [&] {
    inputs.load(context, three.batch, 0, input, {});
    context.space.fence();
    return x.get();
  };
  const auto with_zeros = [](std::vector<float> samples) {
    samples.resize(4 * 4);
    return samples;
  };
  const std::vector<float> before = three.samples;
  for (const std::int64_t serial : {5, 6}) {
    three.batch.serial = serial;
    three.samples = before;
    inputs.load_ahead(context, &three.batch, input);
    Kokkos::fence();
    three.samples[1] = 99;
    EXPECT_EQ(loaded(), with_zeros(kOnHost ? three.samples : before));
    three.batch.serial += 10;  // another batch
    EXPECT_EQ(loaded(), with_zeros(three.samples));
  }
}

TEST(MicroBatchInputs, RefuseABatchWithoutATarget) {
  const ThreeSlots three;
  MicroBatchInputs inputs(2, {TargetSpec::class_map("map", 200, {1, 3, 2})});
  const DeviceArray<float> x(8);
  EXPECT_HOLDS(test::error_of([&] {
                 inputs.load(testing_support::context_for(2), three.batch, 0,
                             Tensor::dense({2, 4}, DType::kF32, x.data()), {});
               }),
               "no target map, a map of 200 classes, 3x2, in the batch");
}

}  // namespace
}  // namespace petaflow
