#include "data/loader.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "data/idle_thread.hpp"

namespace petaflow {

namespace {

/// Bytes that a thread of this process has read.  Source: proc(5), /proc/pid/io.
std::int64_t bytes_read_by(int thread) {
  const std::string path = fmt::format("/proc/self/task/{}/io", thread);
  std::ifstream file(path);
  std::string key;
  std::int64_t bytes = 0;
  if (!(file >> key >> bytes) || key != "rchar:") {
    failure("{}: no count of what was read: this kernel keeps none (CONFIG_TASK_IO_ACCOUNTING)", path);
  }
  return bytes;
}

}  // namespace

Loader::Loader(const Dataset& data, LoaderOptions options)
    : data_(data),
      options_(std::move(options)),
      slots_(options_.end - options_.begin),
      sample_bytes_(data.sample_bytes()) {
  PETAFLOW_REQUIRE(0 <= options_.begin && options_.begin < options_.end && options_.end <= options_.global_batch,
                   "slots {} to {} of a batch of {}", options_.begin, options_.end, options_.global_batch);
  PETAFLOW_REQUIRE(options_.threads >= 0 && options_.prefetch >= 1, "{} loader threads, {} batches ahead",
                   options_.threads, options_.prefetch);
  if (data.size() == 0) user_error("the data set has no samples");
  steps_ = petaflow::steps_per_epoch(data.size(), options_.global_batch);
  buffers_.resize(static_cast<std::size_t>(options_.prefetch) + 1);
  const std::vector<TargetSpec> targets = data.targets();
  PETAFLOW_REQUIRE(targets.size() <= kMaxTargets, "{} targets; at most {} are possible", targets.size(), kMaxTargets);
  const auto slots = static_cast<std::size_t>(slots_);
  std::size_t bytes = padded(slots * sample_bytes_);
  for (const TargetSpec& target : targets) bytes += padded(slots * target.bytes());
  for (Buffer& buffer : buffers_) {
    buffer.storage = decltype(buffer.storage)("petaflow::loader::batch", bytes);
    std::byte* next = buffer.storage.data();
    buffer.batch.samples = std::exchange(next, next + padded(slots * sample_bytes_));
    for (const TargetSpec& target : targets) {
      buffer.batch.targets.push_back({target, std::exchange(next, next + padded(slots * target.bytes()))});
    }
    buffer.batch.weights.resize(slots);
    buffer.batch.indices.resize(slots);
  }
  next_slot_ = steps_ * slots_;  // nothing to do before the first epoch
  taken_ = released_ = steps_;
  thread_ids_.reserve(static_cast<std::size_t>(options_.threads));
  try {
    for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    end_threads();
    failure("cannot start {} loader threads: {}", options_.threads, error.what());
  }
}

Loader::~Loader() { end_threads(); }

void Loader::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  threads_.clear();  // joins
}

bool Loader::has_slot() const {
  const std::int64_t place = next_slot_ / slots_;
  return error_ == nullptr && place < places() && place < released_ + std::ssize(buffers_);
}

void Loader::start_epoch(std::int64_t epoch, std::int64_t skip, std::int64_t batches) {
  start(epoch, skip, batches, false);
}

void Loader::start_listed(std::int64_t epoch, std::int64_t batches) { start(epoch, 0, batches, true); }

void Loader::list(std::int64_t step) {
  PETAFLOW_REQUIRE(0 <= step && step < steps_, "step {} of {}", step, steps_);
  const std::lock_guard lock(mutex_);
  listed_.push_back(step);
  work_.notify_all();
}

void Loader::start(std::int64_t epoch, std::int64_t skip, std::int64_t batches, bool lists) {
  const std::int64_t steps = petaflow::steps_per_epoch(data_.size(), batches * options_.global_batch);
  PETAFLOW_REQUIRE(0 <= skip && skip <= steps, "step {} of {}", skip, steps);
  std::unique_lock lock(mutex_);
  next_slot_ = places() * slots_;  // no more work from the old epoch
  ready_.wait(lock, [this] { return busy_ == 0; });
  lists_ = lists;
  listed_.clear();
  batches_ = batches;
  steps_ = steps;
  epoch_ = epoch;
  order_.emplace(data_.size(),
                 random_stream(options_.seed, RandomPurpose::kShuffle, static_cast<std::uint64_t>(epoch)));
  error_ = nullptr;
  for (Buffer& buffer : buffers_) buffer.empty();
  taken_ = released_ = skip * batches;
  next_slot_ = taken_ * slots_;
  work_.notify_all();
}

std::int64_t Loader::samples_of(std::int64_t step) const {
  const std::int64_t most = batches_ * options_.global_batch;
  return std::min(most, data_.size() - step * most);
}

const Batch& Loader::next() {
  std::unique_lock lock(mutex_);
  PETAFLOW_REQUIRE(taken_ < places(), "the epoch of {} steps has ended, or none has begun", places());
  if (taken_ > released_) {
    buffer_at(released_).empty();
    ++released_;
    work_.notify_all();
  }
  Buffer& buffer = buffer_at(taken_);
  if (options_.threads == 0) {
    for (; buffer.done < slots_; ++buffer.done) fill(buffer, first_at(taken_), buffer.done, *order_, epoch_);
  }
  const auto ready = [&] { return buffer.done == slots_; };
  const auto failed = [&] { return error_ != nullptr && failed_place_ <= taken_; };
  if (!ready()) {
    const auto start = std::chrono::steady_clock::now();
    ready_.wait(lock, [&] { return ready() || (failed() && busy_ == 0); });
    waits_.batches += 1;
    waits_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  if (!ready()) std::rethrow_exception(error_);
  Batch& batch = name(buffer);
  ++taken_;
  return batch;
}

const Batch* Loader::peek() {
  const std::lock_guard lock(mutex_);
  if (taken_ >= places()) return nullptr;
  Buffer& buffer = buffer_at(taken_);
  return buffer.done == slots_ ? &name(buffer) : nullptr;
}

// Which batch it is, at the place of what next() gives next.
Batch& Loader::name(Buffer& buffer) {
  Batch& batch = buffer.batch;
  batch.epoch = epoch_;
  batch.step = step_at(taken_);
  batch.valid_global = samples_of(batch.step);
  static std::atomic<std::int64_t> serials = 0;
  if (batch.serial == 0) batch.serial = ++serials;
  return batch;
}

std::int64_t Loader::bytes_read() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const int thread : thread_ids_) bytes += bytes_read_by(thread);
  return bytes;
}

void Loader::fill(Buffer& buffer, std::int64_t first, std::int64_t slot, const Permutation& order,
                  std::int64_t epoch) const {
  Batch& batch = buffer.batch;
  const auto s = static_cast<std::size_t>(slot);
  SampleBytes sample{{batch.samples + s * sample_bytes_, sample_bytes_}};
  for (std::size_t t = 0; t < batch.targets.size(); ++t) {
    const std::size_t size = batch.targets[t].spec.bytes();
    sample.targets[t] = {batch.targets[t].data + s * size, size};
  }
  const std::int64_t place = first + slot;
  if (place >= data_.size()) {
    std::ranges::fill(sample.input, std::byte{0});
    for (const auto& target : sample.targets) std::ranges::fill(target, std::byte{0});
    batch.weights[s] = 0;
    batch.indices[s] = -1;
    return;
  }
  const std::int64_t index = options_.shuffle ? order(place) : place;
  batch.weights[s] = data_.read(index, sample);
  batch.indices[s] = index;
  if (options_.augment) {
    RandomSequence random(random_stream(options_.seed, RandomPurpose::kAugment, static_cast<std::uint64_t>(epoch)),
                          static_cast<std::uint64_t>(index));
    options_.augment(sample, random);
  }
}

void Loader::work() {
  make_thread_idle();
  std::unique_lock lock(mutex_);
  thread_ids_.push_back(static_cast<int>(syscall(SYS_gettid)));
  while (true) {
    work_.wait(lock, [this] { return stop_ || has_slot(); });
    if (stop_) return;
    const std::int64_t place = next_slot_ / slots_, slot = next_slot_ % slots_, first = first_at(place);
    ++next_slot_;
    ++busy_;
    Buffer& buffer = buffer_at(place);
    const Permutation order = *order_;
    const std::int64_t epoch = epoch_;
    lock.unlock();
    std::exception_ptr error;
    try {
      fill(buffer, first, slot, order, epoch);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --busy_;
    if (error != nullptr && (error_ == nullptr || place < failed_place_)) {
      error_ = error;
      failed_place_ = place;
    }
    if (error == nullptr) ++buffer.done;
    if (buffer.done == slots_ || error_ != nullptr || busy_ == 0) ready_.notify_all();
  }
}

}  // namespace petaflow
