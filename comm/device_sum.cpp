#include "comm/device_sum.hpp"

#include "base/error.hpp"

namespace petaflow {

#ifndef PETAFLOW_HAVE_NCCL

std::string why_no_device_sum(const Transport& /*transport*/, bool /*nodes*/) { return "this build has no NCCL"; }

std::unique_ptr<DeviceSum> make_device_sum(Communicator& comm, const Context& /*context*/,
                                           std::span<const std::int64_t> /*ends*/,
                                           const DeviceSumOptions& /*options*/) {
  failure("sums on devices: {}", why_no_device_sum(comm.transport(), false));
}

#endif

}  // namespace petaflow
