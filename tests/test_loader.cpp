// The loader: order and content do not depend on threads, prefetching or ranks; padding, errors, endings.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "base/error.hpp"
#include "data/augment.hpp"
#include "data/loader.hpp"
#include "scratch_folder.hpp"

// Counts what is allocated, in every thread.  The operator itself does not: nvcc compiles it for GPUs too, which know
// no exceptions.
static std::atomic<int> allocations = 0;
static void* counted_malloc(std::size_t size) {
  ++allocations;
  if (void* const memory = std::malloc(size); memory != nullptr) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size) { return counted_malloc(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace petaflow {
namespace {

using test::error_of;

/// Sample i is 2 x 1 x 2 x 3 pixels of 100 i + place; its targets: class i mod 2, the numbers i and -i, a map whose
/// pixels are pixels of the first channel's place, and i mod 4 boxes: box b begins at column b of the first row, where
/// the image is what it says next.
class CountingData final : public Dataset {
 public:
  explicit CountingData(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  std::array<std::int64_t, 4> sample_dims() const override { return {2, 1, 2, 3}; }
  std::vector<TargetSpec> targets() const override {
    return {TargetSpec::label("class", 2), TargetSpec::numbers("numbers", 2),
            TargetSpec::class_map("map", 12, {1, 2, 3}), TargetSpec::boxes("boxes", 3, 5)};
  }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    const auto pixels = numbers<float>(sample.input);
    if (index == bad_) user_error("sample {} is bad", index);
    if (slow_us_ > 0) std::this_thread::sleep_for(std::chrono::microseconds(slow_us_ * (index % 3)));
    std::iota(pixels.begin(), pixels.end(), static_cast<float>(100 * index));
    sample.target<std::int32_t>(0).front() = static_cast<std::int32_t>(index % 2);
    sample.target<float>(1)[0] = static_cast<float>(index);
    sample.target<float>(1)[1] = -static_cast<float>(index);
    for (std::size_t p = 0; p < 6; ++p) sample.target<std::uint8_t>(2)[p] = static_cast<std::uint8_t>(2 * p);
    BoxTarget boxes(sample.targets[3], 5);
    boxes.resize(static_cast<std::size_t>(index % 4));
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      std::ranges::fill(boxes[b], static_cast<float>(10 * index) + static_cast<float>(b));
      boxes[b][0] = static_cast<float>(b);
      boxes[b][1] = pixels[2 * b];
    }
    ++reads_;
    policy_ = sched_getscheduler(0);
    return 0.5F + static_cast<float>(index);
  }

  std::int64_t bad_ = -1;
  int slow_us_ = 0;
  mutable std::atomic<int> reads_ = 0, policy_ = -1;

 private:
  std::int64_t size_;
};

struct Seen {
  std::vector<std::int64_t> indices;
  std::vector<std::int32_t> labels;
  std::vector<float> weights, numbers, images;
  std::vector<std::uint8_t> maps;
  std::vector<std::byte> boxes;
  bool operator==(const Seen&) const = default;
};

/// Values of target t in a batch.
template <class T>
std::span<const T> target(const Batch& batch, std::size_t t) {
  const std::size_t bytes = batch.indices.size() * batch.targets[t].spec.bytes();
  return {reinterpret_cast<const T*>(batch.targets[t].data), bytes / sizeof(T)};
}

template <class T>
void append_target(std::vector<T>& seen, const Batch& batch, std::size_t t) {
  const auto values = target<T>(batch, t);
  seen.insert(seen.end(), values.begin(), values.end());
}

const float* images(const Batch& batch) { return reinterpret_cast<const float*>(batch.samples); }

void append(Seen& seen, const Batch& batch) {
  seen.indices.insert(seen.indices.end(), batch.indices.begin(), batch.indices.end());
  append_target(seen.labels, batch, 0);
  append_target(seen.numbers, batch, 1);
  append_target(seen.maps, batch, 2);
  append_target(seen.boxes, batch, 3);
  seen.weights.insert(seen.weights.end(), batch.weights.begin(), batch.weights.end());
  seen.images.insert(seen.images.end(), images(batch), images(batch) + batch.indices.size() * 12);
}

void augment(const SampleBytes& sample, RandomSequence& random) {
  DetectorAugment({2, 1, 2, 3}, {})(sample, random);
  numbers<float>(sample.input)[0] += static_cast<float>(random.uniform());
}

/// All batches of one epoch, as seen by `ranks` ranks and put together again.
Seen epoch_of(const Dataset& data, LoaderOptions options, std::int64_t epoch, int ranks = 1, std::int64_t skip = 0) {
  std::vector<std::unique_ptr<Loader>> loaders;
  const std::int64_t slots = options.global_batch / ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    options.begin = rank * slots;
    options.end = options.begin + slots;
    loaders.push_back(std::make_unique<Loader>(data, options));
    loaders.back()->start_epoch(epoch, skip);
  }
  Seen seen;
  for (std::int64_t step = skip; step < loaders[0]->steps_per_epoch(); ++step) {
    for (auto& loader : loaders) append(seen, loader->next());
  }
  return seen;
}

TEST(Loader, EachSampleOnceInAnOrderOfItsEpoch) {
  const CountingData data(23);
  LoaderOptions options{.global_batch = 4, .seed = 7};
  const Seen first = epoch_of(data, options, 0), second = epoch_of(data, options, 1);
  EXPECT_NE(first.indices, second.indices);
  EXPECT_EQ(first, epoch_of(data, options, 0));
  options.seed = 8;
  EXPECT_NE(first.indices, epoch_of(data, options, 0).indices);
  auto indices = first.indices;
  EXPECT_EQ(indices.back(), -1);  // 24 slots for 23 samples
  indices.pop_back();
  std::ranges::sort(indices);
  std::vector<std::int64_t> all(23);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(indices, all);
  for (std::size_t i = 0; i < 23; ++i) {
    const auto index = first.indices[i];
    EXPECT_EQ(first.labels[i], index % 2);
    EXPECT_EQ(first.weights[i], 0.5F + static_cast<float>(index));
    EXPECT_EQ(first.numbers[2 * i], static_cast<float>(index));
    EXPECT_EQ(first.numbers[2 * i + 1], -static_cast<float>(index));
    EXPECT_EQ(first.images[12 * i + 11], static_cast<float>(100 * index + 11));
    EXPECT_EQ(first.maps[6 * i + 5], 10);
    const std::size_t box_bytes = data.targets()[3].bytes();
    std::vector<std::byte> bytes(&first.boxes[i * box_bytes], &first.boxes[i * box_bytes] + box_bytes);
    const BoxTarget boxes(bytes, 5);
    ASSERT_EQ(boxes.size(), static_cast<std::size_t>(index % 4));
    for (std::size_t b = 0; b < boxes.size(); ++b)
      EXPECT_EQ(boxes[b][4], static_cast<float>(10 * index) + static_cast<float>(b));
  }
  options.shuffle = false;
  const auto plain = epoch_of(data, options, 3).indices;
  EXPECT_TRUE(std::equal(all.begin(), all.end(), plain.begin()));
}

TEST(Loader, DoesNotDependOnThreadsPrefetchingOrRanks) {
  CountingData data(45);
  data.slow_us_ = 100;
  LoaderOptions options{.global_batch = 8, .seed = 3, .augment = augment};
  const Seen one = epoch_of(data, options, 5);
  EXPECT_NE(one.images, epoch_of(data, options, 6).images);
  for (const int threads : {0, 1, 2, 5}) {
    for (const int prefetch : {1, 4}) {
      options.threads = threads;
      options.prefetch = prefetch;
      for (const int ranks : {1, 2, 4, 8}) EXPECT_EQ(one, epoch_of(data, options, 5, ranks)) << threads << ' ' << ranks;
    }
  }
  options.augment = {};
  EXPECT_NE(one.images, epoch_of(data, options, 5).images);
}

TEST(Loader, AugmentationFollowsTheSampleNotItsPlace) {
  const CountingData data(6);
  LoaderOptions options{.global_batch = 2, .shuffle = false, .seed = 3, .augment = augment};
  const Seen plain = epoch_of(data, options, 0);
  options.shuffle = true;
  const Seen shuffled = epoch_of(data, options, 0);
  ASSERT_NE(plain.indices, shuffled.indices);
  for (std::size_t i = 0; i < 6; ++i) {
    const auto sample = static_cast<std::ptrdiff_t>(shuffled.indices[i]);
    EXPECT_TRUE(std::equal(plain.images.begin() + 12 * sample, plain.images.begin() + 12 * (sample + 1),
                           shuffled.images.begin() + 12 * static_cast<std::ptrdiff_t>(i)));
  }
}

// A mirror of the image is one of its map and its boxes: all know their places.
TEST(Loader, AugmentationSeesSampleAndTargetsTogether) {
  const CountingData data(64);
  const auto flip = [](const SampleBytes& sample, RandomSequence& random) {
    if (random.below(2) == 0) return;
    mirror(numbers<float>(sample.input), {2, 1, 2, 3}, ImageAxis::kW);
    mirror(sample.target<std::uint8_t>(2), {1, 1, 2, 3}, ImageAxis::kW);
    const BoxTarget boxes(sample.targets[3], 5);
    for (std::size_t b = 0; b < boxes.size(); ++b) boxes[b][0] = 2 - boxes[b][0];
  };
  const Seen seen = epoch_of(data, {.global_batch = 4, .seed = 3, .augment = flip}, 0);
  const std::size_t box_bytes = data.targets()[3].bytes();
  int flipped = 0;
  for (std::size_t i = 0; i < 64; ++i) {
    flipped += seen.maps[6 * i] != 0;
    std::vector<std::byte> bytes(&seen.boxes[i * box_bytes], &seen.boxes[i * box_bytes] + box_bytes);
    const BoxTarget boxes(bytes, 5);
    ASSERT_EQ(boxes.size(), static_cast<std::size_t>(seen.indices[i] % 4));
    for (std::size_t b = 0; b < boxes.size(); ++b) {
      ASSERT_EQ(seen.images[12 * i + 2 * static_cast<std::size_t>(boxes[b][0])], boxes[b][1]);
    }
    for (std::size_t p = 0; p < 6; ++p) {
      ASSERT_EQ(seen.images[12 * i + 2 * p] - static_cast<float>(100 * seen.indices[i]),
                static_cast<float>(seen.maps[6 * i + p]));
    }
  }
  EXPECT_GT(flipped, 16);
  EXPECT_LT(flipped, 48);
}

TEST(BoxTarget, RefusesMoreThanThereIsRoomFor) {
  std::vector<std::byte> bytes(TargetSpec::boxes("", 3, 5).bytes(), std::byte{1});
  BoxTarget boxes(bytes, 5);
  EXPECT_EQ(boxes.room(), 3U);
  EXPECT_HOLDS(error_of([&] { boxes.resize(4); }), "4 boxes where there is room for 3");
  boxes.resize(1);
  EXPECT_EQ(boxes[2][4], 0.0F);
  EXPECT_NE(boxes[0][4], 0.0F);
}

TEST(Loader, PadsTheLastBatch) {
  const CountingData data(9);
  for (const bool last_rank : {false, true}) {
    const std::int64_t begin = last_rank ? 3 : 0;
    Loader loader(data, {.global_batch = 6, .begin = begin, .end = begin + 3, .shuffle = false, .prefetch = 1});
    EXPECT_EQ(loader.steps_per_epoch(), 2);
    for (int epoch = 0; epoch < 3; ++epoch) {  // again: buffers are used again
      loader.start_epoch(epoch);
      EXPECT_EQ(loader.next().valid_global, 6);
      const Batch& batch = loader.next();
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(batch.step, 1);
      EXPECT_EQ(batch.valid_global, 3);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.samples) % 64, 0U);
      if (last_rank) {
        EXPECT_EQ(batch.indices, (std::vector<std::int64_t>{-1, -1, -1}));
        EXPECT_EQ(batch.weights, (std::vector<float>{0, 0, 0}));
        for (std::size_t t = 0; t < 4; ++t) {
          EXPECT_EQ(reinterpret_cast<std::uintptr_t>(batch.targets[t].data) % 64, 0U);
          EXPECT_TRUE(std::ranges::all_of(target<std::byte>(batch, t), [](std::byte b) { return b == std::byte{0}; }));
        }
        EXPECT_TRUE(std::all_of(images(batch), images(batch) + 36, [](float x) { return x == 0; }));
      }
    }
  }
}

TEST(Loader, StartsInTheMiddleAndAgain) {
  const CountingData data(40);
  const LoaderOptions options{.global_batch = 4, .end = 4, .seed = 2, .augment = augment, .threads = 2};
  const Seen whole = epoch_of(data, options, 1), rest = epoch_of(data, options, 1, 1, 7);
  ASSERT_EQ(rest.indices.size(), 12U);
  EXPECT_TRUE(std::equal(rest.indices.begin(), rest.indices.end(), whole.indices.begin() + 28));
  EXPECT_TRUE(std::equal(rest.images.begin(), rest.images.end(), whole.images.begin() + 28 * 12));
  Loader loader(data, options);
  for (int i = 0; i < 5; ++i) {  // an epoch left early leaves nothing behind
    loader.start_epoch(0);
    loader.next();
    loader.start_epoch(1);
    Seen seen;
    for (int step = 0; step < 10; ++step) append(seen, loader.next());
    EXPECT_EQ(seen, whole);
  }
  EXPECT_HOLDS(error_of([&] { loader.next(); }), "the epoch of 10 steps has ended");
  loader.start_epoch(2, 10);
  EXPECT_HOLDS(error_of([&] { loader.next(); }), "has ended");
}

// The order of events inside next() on an earlier batch: prefetching must not overwrite what the caller still uses.
TEST(Loader, TheBatchInUseIsLeftAlone) {
  const CountingData data(64);
  Loader loader(data, {.global_batch = 2, .end = 2, .shuffle = false, .threads = 3, .prefetch = 2});
  loader.start_epoch(0);
  for (std::int64_t step = 0; step < 32; ++step) {
    const Batch& batch = loader.next();
    if (step % 8 == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // threads run ahead as far as they may
    EXPECT_LE(data.reads_, 2 * (step + 3));
    for (std::int64_t slot = 0; slot < 2; ++slot) {
      EXPECT_EQ(batch.indices[static_cast<std::size_t>(slot)], 2 * step + slot);
      EXPECT_EQ(images(batch)[slot * 12 + 5], static_cast<float>(100 * (2 * step + slot) + 5));
    }
  }
}

TEST(Loader, PeeksAtTheNextBatchOnceAllOfItIsThere) {
  CountingData data(10);
  data.slow_us_ = 300;
  Loader loader(data, {.global_batch = 4, .end = 4});
  EXPECT_EQ(loader.peek(), nullptr) << "no epoch has begun";
  std::set<std::int64_t> serials;
  for (const std::int64_t epoch : {3, 3}) {
    loader.start_epoch(epoch);
    for (std::int64_t step = 0; step < 3; ++step) {
      const Batch* peeked = loader.peek();
      while (peeked == nullptr) peeked = loader.peek();
      EXPECT_EQ(peeked->step, step);
      const std::vector<std::int64_t> indices = peeked->indices;
      const std::int64_t serial = peeked->serial;
      EXPECT_EQ(loader.peek(), peeked);
      EXPECT_EQ(&loader.next(), peeked);
      EXPECT_EQ(peeked->indices, indices);
      EXPECT_EQ(peeked->serial, serial);
      EXPECT_TRUE(serials.insert(serial).second);
    }
    EXPECT_EQ(loader.peek(), nullptr) << "the epoch has ended";
  }
}

TEST(Loader, TheSteadyStateAllocatesNothing) {
  const CountingData data(64);
  Loader loader(data, {.global_batch = 4, .end = 4, .augment = augment});
  int allocated = 1;
  // Threads allocate when they start, which on a busy machine is not in the first epoch.
  for (std::int64_t epoch = 0; epoch < 1000 && allocated > 0; ++epoch) {
    loader.start_epoch(epoch);
    const int before = allocations;
    for (int step = 0; step < 16; ++step) loader.next();
    allocated = epoch == 0 ? 1 : allocations - before;
  }
  EXPECT_EQ(allocated, 0);
}

TEST(Loader, RethrowsWhatAThreadThrewAtItsBatch) {
  CountingData data(40);
  data.bad_ = 21;
  data.slow_us_ = 2000;  // earlier samples are still being read when it fails
  for (const int threads : {0, 1, 4}) {
    Loader loader(data, {.global_batch = 4, .end = 4, .shuffle = false, .threads = threads, .prefetch = 3});
    for (int again = 0; again < 2; ++again) {
      loader.start_epoch(again);
      for (int step = 0; step < 5; ++step) EXPECT_EQ(loader.next().indices[3], 4 * step + 3);
      EXPECT_EQ(error_of([&] { loader.next(); }), "sample 21 is bad");
      EXPECT_EQ(error_of([&] { loader.next(); }), "sample 21 is bad");
    }
    loader.start_epoch(0, 6);  // behind the bad one
    EXPECT_EQ(loader.next().indices[0], 24);
  }
}

TEST(Loader, EndsAtAnyMoment) {
  CountingData data(1000);
  data.slow_us_ = 300;
  for (int taken = -1; taken < 12; ++taken) {
    Loader loader(data, {.global_batch = 8, .end = 8, .threads = 3});
    if (taken >= 0) loader.start_epoch(0);
    for (int i = 0; i < taken; ++i) loader.next();
  }
  EXPECT_LT(data.reads_, 2000);
}

TEST(Loader, ThreadsAreIdle) {
  const CountingData data(4);
  Loader loader(data, {.global_batch = 4, .end = 4});
  loader.start_epoch(0);
  loader.next();
  EXPECT_EQ(data.policy_, SCHED_IDLE);
}

TEST(Loader, CountsTheBatchesThatWereNotReady) {
  CountingData data(64);
  data.slow_us_ = 5000;  // 15 ms or more for each batch, which the caller takes at once
  Loader slow(data, {.global_batch = 4, .end = 4, .shuffle = false});
  slow.start_epoch(0);
  for (int step = 0; step < 16; ++step) slow.next();
  EXPECT_GE(slow.waits().batches, 8);  // of 16: the caller may be held up too
  EXPECT_LE(slow.waits().batches, 16);
  EXPECT_GT(slow.waits().seconds, 8 * 0.002);

  data.slow_us_ = 0;
  data.reads_ = 0;
  Loader fast(data, {.global_batch = 4, .end = 4, .shuffle = false, .prefetch = 2});
  fast.start_epoch(0);
  for (int step = 0; step < 14; ++step) {  // the batch is ready once a sample behind it has been read
    while (data.reads_ <= 4 * (step + 1)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    fast.next();
  }
  EXPECT_EQ(fast.waits().batches, 0);
  EXPECT_EQ(fast.waits().seconds, 0);
}

TEST(Loader, NothingToLoadIsAnError) {
  const CountingData empty(0), data(4);
  EXPECT_HOLDS(error_of([&] { Loader(empty, {}); }), "has no samples");
  EXPECT_HOLDS(error_of([&] { Loader(data, {.global_batch = 4, .begin = 3, .end = 5}); }),
               "slots 3 to 5 of a batch of 4");
  EXPECT_HOLDS(error_of([&] { Loader(data, {.threads = -1}); }), "-1 loader threads");
  Loader loader(data, {});
  EXPECT_HOLDS(error_of([&] { loader.next(); }), "none has begun");
}

TEST(Loader, AStepOfSeveralBatchesIsOneOfALargerBatch) {
  const CountingData data(43);
  for (const std::int64_t batches : {1, 2, 3}) {
    for (const bool lists : {false, true}) {
      LoaderOptions small, large;
      small.global_batch = 6;
      small.begin = 2;
      small.end = 5;
      small.seed = large.seed = 3;
      small.augment = large.augment = augment;
      large.global_batch = batches * small.global_batch;
      large.begin = batches * small.begin;
      large.end = batches * small.end;
      Loader parts(data, small), whole(data, large);
      for (const std::int64_t epoch : {1, 2}) {
        lists ? parts.start_listed(epoch, batches) : parts.start_epoch(epoch, 1, batches);
        whole.start_epoch(epoch, 1);
        ASSERT_EQ(parts.steps_per_epoch(), whole.steps_per_epoch());
        EXPECT_EQ(parts.batches_per_step(), batches);
        for (std::int64_t step = 1; step < whole.steps_per_epoch(); ++step) {
          if (lists) parts.list(step);
          Seen found, expected;
          const Batch& batch = whole.next();
          append(expected, batch);
          for (std::int64_t i = 0; i < batches; ++i) {
            const Batch& part = parts.next();
            EXPECT_EQ(part.step, step);
            EXPECT_EQ(part.valid_global, batch.valid_global);
            append(found, part);
          }
          EXPECT_EQ(found, expected) << "step " << step << " of " << batches << " batches";
          EXPECT_EQ(parts.samples_of(step), whole.samples_of(step));
        }
      }
    }
  }
}

}  // namespace
}  // namespace petaflow
