// DeviceSum where NCCL connects the ranks of a node alone: it leaves each its share of the node's sum of every bucket,
// which goes to the host's memory; ranks with the same number in their nodes sum these by MPI, all shares at a time,
// and NCCL brings them to all ranks of the node.
// Sources: Kurth et al., "Exascale Deep Learning for Climate Analytics", SC18 (there four of a node's six ranks have a
// share, one for each device of the network); Horovod's hierarchical all-reduce, of September 2018.
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
