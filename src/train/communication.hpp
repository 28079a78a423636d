// What ranks sent and for whom they waited, of a run: for the log, the report and performance.json.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/gradient_sum.hpp"
#include "servers/session.hpp"
#include "train/train_step.hpp"

namespace petaflow {

/// Seconds in which a rank did nothing but wait for messages of another one.
struct Wait {
  std::string whom;  // "rank 3", "server 0"; "all": the medium does not say
  double seconds = 0;
};

struct CommunicationTimes {
  std::vector<BucketTimes> buckets;      // of rank 0, in the order in which they are sent; none where nothing is
  std::vector<std::vector<Wait>> waits;  // of each rank that trains: the longest first, a few of them
};

/// On rank 0; empty elsewhere.  Collective.
/// @param workers  all ranks that train, of whom the step's are a part
/// @param servers  may be null
CommunicationTimes communication_times(Communicator& workers, const TrainStep& step, const ServerSession* servers);

}  // namespace petaflow
