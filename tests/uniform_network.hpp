// Times of messages for tests on virtual ranks: a latency and a bandwidth, the same between all of them.
#pragma once

#include <cstddef>

#include "simulate/virtual_world.hpp"

namespace petaflow::testing_support {

class UniformNetwork final : public FixedArrivals {
 public:
  explicit UniformNetwork(double latency_s = 1e-4, double byte_s = 1e-9) : latency_s_(latency_s), byte_s_(byte_s) {}
  double arrival_s(int /*from*/, int /*to*/, std::size_t bytes, double start_s) override {
    return start_s + latency_s_ + byte_s_ * static_cast<double>(bytes);
  }

 private:
  double latency_s_, byte_s_;
};

}  // namespace petaflow::testing_support
