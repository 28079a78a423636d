// DeviceSum where NCCL connects the ranks of a node alone: it leaves each its share of the node's sum of every bucket,
// which goes to the host's memory; ranks with the same number in their nodes sum these by MPI, all shares at a time,
// and NCCL brings them to all ranks of the node.  As Kurth et al. on Summit (SC18, section V-A.3), whose shares were
// those of four ranks that drove a network adapter each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/device_sum.hpp"
#include "comm/nodes.hpp"

namespace petaflow {

/// Empty where there are several nodes with as many ranks each, otherwise the reason in a few words.
std::string why_no_node_sum(const Nodes& nodes);

/// As make_device_sum().
std::unique_ptr<DeviceSum> make_node_sum(Communicator& comm, const Context& context, std::vector<Slice> buckets,
                                         const DeviceSumOptions& options);

}  // namespace petaflow
