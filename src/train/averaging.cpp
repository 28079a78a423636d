#include "train/averaging.hpp"

#include <array>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "comm/reduction.hpp"
#include "comm/reduction_plan.hpp"

namespace petaflow {

void average(Communicator& comm, float* values, std::int64_t count) {
  if (count == 0) return;
  std::vector<ShardRange> shards;
  for (int rank = 0; rank < comm.size(); ++rank) shards.push_back({rank, rank + 1});
  const Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged> device(values, static_cast<std::size_t>(count));
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
  Transport& transport = comm.transport();
  Reduction<float> sum(transport, tree_plan(comm.rank(), shards, count), Communicator::kWaitingTag);
  transport.begin_collective();
  sum.start(std::array{host.data()});
  transport.wait([&] { return sum.advance(); }, "averaging");
  const float share = 1.0F / static_cast<float>(comm.size());
  for (std::int64_t i = 0; i < count; ++i) host.data()[i] *= share;
  Kokkos::deep_copy(device, host);
}

}  // namespace petaflow
