// How the gradients of the parts of a global batch come together on all ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/arrival.hpp"
#include "base/context.hpp"
#include "base/staged.hpp"
#include "comm/communicator.hpp"
#include "comm/device_sum.hpp"
#include "comm/gradient_sum.hpp"
#include "nn/network.hpp"
#include "servers/session.hpp"
#include "train/gradient_squares.hpp"
#include "train/options.hpp"
#include "update/optimizer_options.hpp"

namespace petaflow {

/// Who sums gradients on devices: by comm.reduction "auto" where that can be done, by "nccl" and, inside nodes, by
/// "nccl_mpi"; null: the host does.  Throws a user error on all ranks where these are asked for and cannot be had and
/// where ranks share a GPU, and as the other make_device_sum().  Collective.
std::unique_ptr<DeviceSum> make_device_sum(Communicator& comm, const Context& context, const TrainOptions& train,
                                           const CommOptions& options, const UpdateOptions& update,
                                           const OptimizerOptions& optimizer, const std::vector<Parameter>& parameters);

/// The gradient of one step, on a device and in the host's memory, where it is summed, or on devices alone:
/// begin_step(), then per micro-batch the network overwrites gradient() and end_micro_batch() follows, at last
/// finish().
class GradientExchange {
 public:
  /// @param context   must outlive the exchange
  /// @param cuts      with update.sharded: optimizer_cuts()
  /// @param gradient  where gradient() is to lie, which must outlive the exchange; null: in memory of its own
  /// @param devices   sums gradients on devices, this one in that place; must outlive it.  Null: they are summed in the
  ///                  host's memory
  GradientExchange(Communicator& comm, const Context& context, const TrainOptions& train, const CommOptions& options,
                   const UpdateOptions& update, const std::vector<Parameter>& parameters,
                   std::vector<std::int64_t> cuts, float* gradient = nullptr, DeviceSum* devices = nullptr,
                   std::int64_t place = 0);
  /// @param repeats  so many micro-batches of this step in the place of each of the plan (train.batch_epochs)
  void begin_step(std::int64_t repeats = 1);
  /// Flat, in MemorySpace: that of a micro-batch; from finish() on the sum.
  float* gradient() { return gradient_.device(); }
  /// In the running micro-batch the elements from `first` to the end are final.
  void ready_from(std::int64_t first);
  /// The micro-batch failed: what is not final yet becomes zeros, for sums to go on with.
  void give_up();
  /// Starts the sums of all buckets that were ready so far: sums of others on the same communicator follow in the same
  /// order on every rank only behind them.
  void start_ready();
  void end_micro_batch();
  /// Where sums are made on devices: what the context's space is given from now on finds them.
  void join();
  /// A Replay did what ready_from(0) and join() do.
  void replayed();
  /// Waits until the context's space has done what it was given; as DeviceSum::wait().
  void wait();
  /// From now on the squares of gradients are summed, too.
  void measure(const std::vector<Parameter>& parameters);
  /// Where they are, and there are several micro-batches: of the last one that ended; after finish() of the sum, where
  /// it divides of own() alone.
  double micro_batch_squares() const { return micro_batch_squares_; }
  double sum_squares() const { return sum_squares_; }
  std::string describe() const { return devices_ != nullptr ? devices_->describe() : sum_.describe(); }
  /// How the sums went: buckets, and for whom this rank waited.
  GradientSum& sum() { return sum_; }
  void reset_times() { sum_.reset_times(); }
  /// Lets sums that are under way move on.
  void progress();
  /// Makes gradient() the sum over all micro-batches of all ranks, the same bits on every rank.  summed(begin, end) is
  /// called as soon as its elements [begin, end), which end where parameters do, are final: at last for all, once. With
  /// update.sharded it is the sum for the slices of own() alone, for which summed() is called.
  /// @param weights  flat, in MemorySpace.  With update.sharded and where not null: those of own() go to the other
  ///                 ranks as soon as summed() has returned, and all are there in the end
  void finish(const std::function<void(std::int64_t, std::int64_t)>& summed, float* weights = nullptr);
  /// With update.servers: the sums of own() to their servers, which send weights that then go to all ranks of the
  /// group. Ends where all are there.
  /// @param weights  flat, in MemorySpace
  /// @param check    called when all sums of this rank are there, before any goes to a server: with where the first of
  ///                 own() begins whose sum is not finite, if there is one.  What it throws leaves all with their
  ///                 weights
  void finish(ServerSession& servers, std::int64_t ticket, float learning_rate, float* weights,
              const std::function<void(std::optional<std::int64_t> spoilt)>& check);
  /// Of this rank; everything without update.sharded and update.servers.
  const std::vector<Slice>& own() const { return devices_ != nullptr ? devices_->own() : sum_.own(); }
  /// Whether gradients are summed in the host's memory: of several micro-batches, by servers, or of ranks whose devices
  /// do not sum them.
  bool leaves_the_device() const { return leaves_the_device_; }
  /// Whether devices sum gradients.
  bool by_devices() const { return devices_ != nullptr; }
  /// Whether sums go to owners: update.sharded or update.servers.
  bool divides() const { return spreads_; }
  /// Where it divides: values of own(), flat, in MemorySpace, to all ranks.  Collective; by devices it may be recorded
  /// in a Replay.
  void spread(float* values);

 private:
  /// Elements from `first` on that leave the device.
  struct Leaving {
    std::int64_t first;
    Arrival arrival;
  };
  void sum_what_arrived();
  void to_host(const float* values, std::int64_t begin, std::int64_t end);
  void to_device(float* values, std::int64_t begin, std::int64_t end);

  const Context& context_;
  std::int64_t elements_;
  Staged<float> gradient_;  // sums come together in its twin on the host
  DeviceSum* devices_;
  std::int64_t place_;
  bool joined_ = false;
  std::vector<Leaving> leaving_;  // [arrived_, left_) are under way; kept for their events
  std::size_t left_ = 0, arrived_ = 0;
  GradientSum sum_;  // where devices sum it only counts waits
  bool leaves_the_device_, spreads_;
  std::unique_ptr<GradientSquares> squares_;
  double micro_batch_squares_ = 0, sum_squares_ = 0;
  std::int64_t ready_ = 0;
};

}  // namespace petaflow
