// Runs cuDNN's plans on the device of this process.
#pragma once

#include <memory>
#include <string>

#include "kernels/plan_cudnn.hpp"

namespace petaflow::cudnn {

/// Properties of the current device, as make_plan() takes them; empty where cuDNN finds none, and `why` says why.
std::string device_properties(std::string& why);

/// A plan on the current device.
class Execution {
 public:
  /// Throws a failure where the device does not take the plan.
  explicit Execution(const Plan& plan);
  ~Execution();
  Execution(Execution&&) noexcept;
  Execution& operator=(Execution&&) noexcept;

  /// Bytes that run() takes: on a device more than Plan::workspace says (H200, cuDNN 9.19: 7.7 MB where 1.2 were said).
  std::int64_t workspace() const;

  /// Puts the call onto a stream (cudaStream_t).
  /// @param workspace  workspace() bytes, 256-byte aligned
  void run(void* stream, void* x, void* w, void* y, void* workspace) const;

 private:
  struct Loaded;
  std::unique_ptr<Loaded> loaded_;
};

}  // namespace petaflow::cudnn
