// Sums of flat gradients over ranks by NCCL, on a stream of its own, while kernels of the backward pass go on: between
// all ranks, to all of them or each slice to one that owns it, and then gradients never leave the memory of GPUs; or
// between those of a node, each of which brings its share of the sum to the other nodes by MPI.
// Sources: NVIDIA, "NCCL 2.28 User Guide", chapters "Creating a Communicator", "In-place Operations" and "Using NCCL
// with CUDA Graphs"; Rajbhandari et al., "ZeRO", SC20, section 5 (owners).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/slice.hpp"
#include "comm/communicator.hpp"

namespace petaflow {

struct Context;

struct DeviceSumOptions {
  std::int64_t bucket = 1 << 18;  // smallest size of a bucket but the last, elements
  bool overlap = true;            // as in GradientSumOptions
  std::int64_t steps = 1;         // whose sums may be under way at a time
  bool owners = false;            // the sum of a slice goes to its owner alone: of each bucket every rank has one
  bool nodes = false;             // by NCCL inside nodes alone; without owners
};

/// Of each step begin(), ready_from() as its gradient gets final, and join(); the same on all ranks.  ready_from(),
/// join() and spread() may be recorded in a CUDA graph, on all ranks or on none, unless asks_the_host(); begin() comes
/// before each recording.
class DeviceSum {
 public:
  DeviceSum() = default;
  virtual ~DeviceSum() = default;
  DeviceSum(const DeviceSum&) = delete;
  DeviceSum& operator=(const DeviceSum&) = delete;

  /// Begins a step.
  /// @param place   of DeviceSumOptions::steps; its last step has been joined
  /// @param buffer  flat, on the device
  virtual void begin(std::int64_t place, float* buffer) = 0;
  /// The elements from `first` to the end are final when the context's space has done what it was given: starts the
  /// sums of the buckets that lie there, behind that.
  virtual void ready_from(std::int64_t first) = 0;
  /// Whether the host takes part, which is in progress() and join() then.
  virtual bool asks_the_host() const { return false; }
  /// Lets what is under way move on.
  virtual void progress() {}
  /// What the context's space is given from now on finds the sums of that place.
  virtual void join(std::int64_t place) = 0;
  /// Slices whose sums this rank gets; everything without owners.
  virtual const std::vector<Slice>& own() const = 0;
  /// With owners: the elements of own() go to all ranks, behind what the context's space was given; what it is given
  /// from now on finds those of the others.
  /// @param values  flat, on the device
  virtual void spread(float* values) = 0;
  /// Waits until the context's space has done all that it was given.  A hang is noticed here; ends all ranks where NCCL
  /// or CUDA reports an error.
  virtual void wait() = 0;
  /// "7 buckets of 0.10 to 4.00 MiB by NCCL 2.28.9": for the log.
  virtual std::string describe() const = 0;
};

/// Empty where ranks that communicate like this can sum on devices, otherwise the reason in a few words.
/// @param nodes  as in DeviceSumOptions
std::string why_no_device_sum(const Transport& transport, bool nodes);

/// Where each has a GPU of its own.  Throws a CommError where NCCL does not start.  Collective.
/// @param ends     where arrays end in the flat buffer, rising; a bucket ends at one of them
std::unique_ptr<DeviceSum> make_device_sum(Communicator& comm, const Context& context,
                                           std::span<const std::int64_t> ends, const DeviceSumOptions& options);

}  // namespace petaflow
