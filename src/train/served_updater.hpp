// Updates by parameter servers: gradients go there, weights come back.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "servers/session.hpp"
#include "train/updater.hpp"

namespace petaflow {

class ServedUpdater final : public Updater {
 public:
  ServedUpdater(Communicator& comm, const Context& context, Network& network, const GradientExchange& exchange,
                const OptimizerOptions& optimizer, const UpdateOptions& update);

  /// Who updates the weights from now on, instead of nobody.  The first group's weights and states, after `step` steps,
  /// go there.  On all workers.
  /// @param momentum  as in ServerSession::connect()
  void connect(ServerSession& servers, Communicator& workers, std::int64_t step, double momentum);

  /// Lets a server inside this worker go on.
  void serve(Server::Progress progress);

  /// Throws on all ranks of the group where a sum is not finite, naming layer and step; none of it goes to a server
  /// then.
  void update(GradientExchange& exchange, bool summed, std::int64_t step, float learning_rate,
              StepClock& clock) override;
  /// All ranks get the newest weights, too.
  void settle(GradientExchange& exchange) override;
  std::string describe() const override;

 private:
  void transfer(LayerHeader header, float* values);
  void transfer_tuner(LayerHeader::Kind kind);
  void agree_on(std::optional<std::int64_t> spoilt, std::int64_t step);
  std::vector<float> tuner() const override { return tuner_; }
  void set_tuner(std::span<const float> numbers) override { tuner_.assign(numbers.begin(), numbers.end()); }

  ServerSession* servers_ = nullptr;
  std::vector<Slice> layers_;
  std::unique_ptr<Reduction<double>> failures_;  // ranks of the group whose sums are not finite
  std::vector<float> tuner_;  // of each layer, one after the other; newest in the first group after settle()
};

}  // namespace petaflow
