// Messages that are made slower: they arrive whole, in their order and not too early, and training has the same bits.
#include <algorithm>

#include <gtest/gtest.h>

#include "comm/delayed.hpp"
#include "comm/mpi.hpp"
#include "tiny_training.hpp"

namespace petaflow {
namespace {

std::unique_ptr<Communicator> delayed(Communicator& all, const DelayOptions& options) {
  return std::make_unique<Communicator>(make_delayed_transport(all.transport().split(0), options));
}

TEST(Delayed, MessagesArriveBehindEachOther) {
  const auto all = make_mpi_communicator();
  if (all->size() == 1) GTEST_SKIP() << "NOT TESTED: needs two ranks";
  DelayOptions options;
  options.latency_ms = 5;
  options.bandwidth_mb_s = 50;
  const auto comm = delayed(*all, options);
  Transport& transport = comm->transport();
  constexpr std::size_t kFloats = 125000;  // 0.5 MB: 10 ms
  std::vector<std::vector<float>> messages(3, std::vector<float>(kFloats));
  const double start_s = transport.now_s();  // before rank 0 sends anything
  all->barrier();
  if (comm->rank() == 0) {
    std::vector<Transport::Message> sent;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      std::ranges::fill(messages[m], static_cast<float>(m + 1));
      sent.push_back(transport.send(std::as_bytes(std::span(messages[m])), 1, Tag(7)));
    }
    for (Transport::Message& message : sent) transport.wait([&] { return transport.done(message); }, "sending");
  } else if (comm->rank() == 1) {
    std::vector<Transport::Message> coming;
    for (std::vector<float>& message : messages) {
      coming.push_back(transport.receive(std::as_writable_bytes(std::span(message)), 0, Tag(7)));
    }
    for (std::size_t m = 0; m < messages.size(); ++m) {
      transport.wait([&] { return transport.done(coming[m]); }, "receiving");
      EXPECT_EQ(messages[m], std::vector<float>(kFloats, static_cast<float>(m + 1)));
      // The latency is not counted.
      EXPECT_GE(transport.now_s() - start_s, 0.01 * static_cast<double>(m + 1));
    }
  }
  all->barrier();
}

TEST(Delayed, ASlowRankTakesLonger) {
  const auto all = make_mpi_communicator();
  DelayOptions options;
  options.slow_rank = all->size() - 1;
  options.slow_factor = 5;
  const auto comm = delayed(*all, options);
  const double start_s = comm->transport().now_s();
  comm->transport().work(0.01);
  const double took_s = comm->transport().now_s() - start_s;
  if (comm->rank() == options.slow_rank) {
    EXPECT_GE(took_s, 0.04);
  }
  all->barrier();
}

TEST(Delayed, TrainingHasTheSameBits) {
  const auto all = make_mpi_communicator();
  DelayOptions delays;
  delays.latency_ms = 0.3;
  delays.jitter = 1;
  delays.bandwidth_mb_s = 20;
  delays.straggle = 0.5;
  const auto comm = delayed(*all, delays);
  const auto halves = comm->split(comm->rank() % 2);
  Communicator alone;
  CommonOptions options;
  options.train.batch = 16;
  options.train.shards = 4;
  options.train.deterministic = true;
  options.comm.bucket_mb = 1e-4;
  for (const std::int64_t lag : {0, 1}) {
    options.update.lag = lag;
    tiny::Training single(alone, options, 43, 0.5F, true);
    const std::vector<double> expected = single.run(6);
    for (Communicator* ranks : {comm.get(), halves.get()}) {
      tiny::Training together(*ranks, options, 43, 0.5F, true);
      EXPECT_EQ(together.run(6), expected);
      EXPECT_EQ(together.weights(), single.weights());
      together.step.settle();
    }
    single.step.settle();
  }
}

}  // namespace
}  // namespace petaflow
