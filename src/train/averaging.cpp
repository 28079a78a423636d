#include "train/averaging.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.hpp"
#include "comm/reduction_plan.hpp"
#include "kernels/launch.hpp"

namespace petaflow {
namespace {

ReductionPlan plan_of(const Communicator& comm, std::int64_t count) {
  return halving_plan(comm.rank(), comm.size(), count);
}

}  // namespace

void average(Communicator& comm, float* values, std::int64_t count, const CountWait& waits) {
  if (count == 0) return;
  const Kokkos::View<float*, MemorySpace, Kokkos::MemoryUnmanaged> device(values, static_cast<std::size_t>(count));
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
  Transport& transport = comm.transport();
  Reduction<float> sum(transport, plan_of(comm, count), Communicator::kWaitingTag);
  transport.begin_collective();
  sum.start(std::array{host.data()});
  counted_wait(transport, [&] { return sum.advance(); }, [&] { return sum.waits_for(); }, waits, "averaging");
  const float share = 1.0F / static_cast<float>(comm.size());
  for (std::int64_t i = 0; i < count; ++i) host.data()[i] *= share;
  Kokkos::deep_copy(device, host);
}

LateAverage::LateAverage(Communicator& comm, std::int64_t count, std::int64_t flags)
    : comm_(comm),
      sum_("petaflow::late_average", static_cast<std::size_t>(count)),
      host_(Kokkos::create_mirror_view(sum_)),
      flags_(static_cast<std::size_t>(flags)),
      reduction_(comm.transport(), plan_of(comm, count), comm.new_tag()),
      flag_sum_(comm.make_sum(flags)) {}

void LateAverage::start(const float* values, std::span<const double> flags) {
  PETAFLOW_REQUIRE(!under_way_ && flags.size() == flags_.size(), "a sum of {} numbers after one of {}", flags.size(),
                   flags_.size());
  using Values = Kokkos::View<const float*, MemorySpace, Kokkos::MemoryUnmanaged>;
  Kokkos::deep_copy(sum_, Values(values, sum_.extent(0)));
  Kokkos::deep_copy(host_, sum_);
  std::ranges::copy(flags, flags_.begin());
  under_way_ = true;
  reduction_.start(std::array{host_.data()});
  flag_sum_->start(std::array{flags_.data()});
}

void LateAverage::progress() {
  if (!under_way_) return;
  reduction_.advance();
  flag_sum_->advance();
}

std::span<const double> LateAverage::finish(const Context& context, float* values, std::int64_t steps,
                                            const CountWait& waits) {
  Transport& transport = comm_.transport();
  transport.begin_collective();
  counted_wait(
      transport,
      [this] {
        const bool all_flags = flag_sum_->advance();
        return reduction_.advance() && all_flags;
      },
      [this] { return reduction_.waits_for(); }, waits, "averaging");
  under_way_ = false;
  Kokkos::deep_copy(sum_, host_);
  const float weight = 2 * static_cast<float>(steps), share = 1 / (weight + static_cast<float>(comm_.size()));
  const float* const sum = sum_.data();
  launch(
      context, "petaflow::late_average[kokkos]"_label, static_cast<std::int64_t>(sum_.extent(0)),
      KOKKOS_LAMBDA(std::int64_t i) { values[i] = std::fma(weight, values[i], sum[i]) * share; });
  context.space.fence();  // the next sum may begin
  return flags_;
}

}  // namespace petaflow
