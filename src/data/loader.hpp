// Batches in the order of an epoch, read and augmented ahead by threads of idle priority.
//
// The content of a batch depends on seed, epoch and step alone: not on threads, and a rank's slots are a window of the
// global batch. One busy thread of normal priority beside an OpenMP team halves the training rate; an idle one costs
// 3-4 %.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "base/random.hpp"
#include "data/augment.hpp"
#include "data/dataset.hpp"
#include "data/permutation.hpp"

namespace petaflow {

/// Steps in which every sample is taken once; the last one may have fewer samples than the others.
inline std::int64_t steps_per_epoch(std::int64_t samples, std::int64_t samples_per_step) {
  return (samples + samples_per_step - 1) / samples_per_step;
}

struct LoaderOptions {
  std::int64_t global_batch = 1;
  std::int64_t begin = 0, end = 1;  // this rank's slots [begin, end) of the global batch
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// Applied to each sample, with random numbers keyed by (seed, epoch, sample index).  Called by several threads.
  Augmentation augment = {};
  int threads = 1;   // 0: next() makes the batches, for ranks that take turns in one thread
  int prefetch = 2;  // batches made ahead of the one in use
};

/// One target of all samples of a batch.
struct BatchTarget {
  TargetSpec spec;
  std::byte* data = nullptr;  // (slots) as spec says, 64-byte aligned
};

/// The slots of one rank: a step's, or where it takes several batches those of one.  Slots behind the end of the data
/// set are zeros of weight 0 and index -1.
struct Batch {
  std::int64_t epoch = 0, step = 0;
  std::byte* samples = nullptr;  // (slots, D, H, W, C) in the type of the data set, 64-byte aligned, in StagingSpace
  std::vector<BatchTarget> targets;  // in the order of Dataset::targets()
  std::vector<float> weights;
  std::vector<std::int64_t> indices;  // of the samples in the data set
  std::int64_t valid_global = 0;      // samples of the step over all ranks and all its batches
  std::int64_t serial = 0;            // no other batch has it
};

/// Batches that were not ready when they were asked for, and the time until they were.
struct LoaderWaits {
  std::int64_t batches = 0;
  double seconds = 0;
};

class Loader {
 public:
  /// `data` must outlive the loader.  Throws Error(kUser) for an empty data set.
  Loader(const Dataset& data, LoaderOptions options);
  /// Ends the threads after the samples that they are reading, whatever has been taken.
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Of the epoch that was begun last.
  std::int64_t steps_per_epoch() const { return steps_; }
  /// Batches that next() gives for a step of that epoch.
  std::int64_t batches_per_step() const { return batches_; }
  /// Real samples of a step over all ranks.
  std::int64_t samples_of(std::int64_t step) const;
  /// Begins an epoch at step `skip`, dropping what was made ahead of another one.
  /// @param batches  of a step, whose slots over all ranks are [0, batches x global batch) then, this rank's
  ///                 [batches x begin, batches x end), one batch after the other
  void start_epoch(std::int64_t epoch, std::int64_t skip = 0, std::int64_t batches = 1);
  /// Begins an epoch of which this rank takes the steps that list() names, in that order.
  void start_listed(std::int64_t epoch, std::int64_t batches = 1);
  void list(std::int64_t step);
  /// The next batch of a step of the epoch, valid until the next call.  Rethrows what a thread threw while it made this
  /// batch.
  const Batch& next();
  /// The batch that next() will give, where all of it is there; null: not yet, or there is none.  It stays until the
  /// call behind that next(), or until an epoch begins.
  const Batch* peek();

  /// Waits for all batches so far, the first one of each epoch among them.  For the thread that calls next().
  const LoaderWaits& waits() const { return waits_; }
  /// Bytes that the loader's threads have read from files so far, as they are stored (compressed, with what describes
  /// them), whether from a disk or from the kernel's memory.  Throws a failure where the kernel does not count them.
  std::int64_t bytes_read() const;

 private:
  struct Buffer {
    Batch batch;
    Kokkos::View<std::byte*, StagingSpace> storage;  // the samples, then target by target
    std::int64_t done = 0;                           // slots

    void empty() { done = 0, batch.serial = 0; }
  };

  void work();
  void end_threads();
  Batch& name(Buffer& buffer);
  void fill(Buffer& buffer, std::int64_t first, std::int64_t slot, const Permutation& order, std::int64_t epoch) const;
  void start(std::int64_t epoch, std::int64_t skip, std::int64_t batches, bool lists);
  /// Batches of the epoch stand in places, from 0 on: step by step, or as these are listed.
  std::int64_t step_at(std::int64_t place) const {
    return lists_ ? listed_[static_cast<std::size_t>(place / batches_)] : place / batches_;
  }
  /// Place in the order of the epoch of a batch's first sample.
  std::int64_t first_at(std::int64_t place) const {
    return batches_ * (step_at(place) * options_.global_batch + options_.begin) + place % batches_ * slots_;
  }
  std::int64_t places() const { return batches_ * (lists_ ? std::ssize(listed_) : steps_); }
  Buffer& buffer_at(std::int64_t place) { return buffers_[static_cast<std::size_t>(place) % buffers_.size()]; }
  bool has_slot() const;

  const Dataset& data_;
  const LoaderOptions options_;
  const std::int64_t slots_;
  const std::size_t sample_bytes_;
  std::vector<Buffer> buffers_;
  LoaderWaits waits_;

  mutable std::mutex mutex_;  // guards everything below
  std::condition_variable work_, ready_;
  std::optional<Permutation> order_;
  std::int64_t epoch_ = -1;
  std::int64_t batches_ = 1, steps_ = 0;  // of a step, of the epoch; changed by the thread that calls next() alone
  bool lists_ = false;
  std::vector<std::int64_t> listed_;
  std::int64_t next_slot_ = 0;     // to fill: place * slots + slot
  std::int64_t released_ = 0;      // places before it have been given back
  std::int64_t taken_ = 0;         // place of what next() gives next
  std::int64_t failed_place_ = 0;  // of error_
  std::exception_ptr error_;
  int busy_ = 0;  // threads that fill a slot
  bool stop_ = false;
  std::vector<int> thread_ids_;  // the kernel's
  std::vector<std::jthread> threads_;
};

}  // namespace petaflow
