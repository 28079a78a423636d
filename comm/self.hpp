// One rank alone: every operation is a true identity, so that one rank is no special case anywhere.
#pragma once

#include "comm/communicator.hpp"

namespace petaflow {

class SelfCommunicator final : public Communicator {
 public:
  std::string name() const override { return "self"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  int node_size() const override { return 1; }
  void all_reduce_sum(std::span<float>) override {}
  void all_reduce_sum(std::span<double>) override {}
  void all_reduce_max(std::span<double>) override {}
  void start_all_reduce_sum(std::span<float>) override {}
  bool progress() override { return true; }
  void wait_all_reduce_sum(std::span<float>) override {}
  void send(std::span<const float> values, int to) override;
  void receive(std::span<float> values, int from) override;
  void broadcast(std::span<std::byte> bytes, int root) override;
  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> bytes) override;
  std::unique_ptr<Communicator> split(int) override { return std::make_unique<SelfCommunicator>(); }
  void barrier() override {}
  void watch_hangs(HangOptions) override {}
  [[noreturn]] void abort(int exit_code) override;
};

}  // namespace petaflow
