// The network applied to a whole data set by all ranks together, batch by batch.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <Kokkos_Core.hpp>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "data/augment.hpp"
#include "data/loader.hpp"
#include "metrics/evaluator.hpp"
#include "nn/network.hpp"
#include "nn/objective.hpp"
#include "train/micro_batch_inputs.hpp"
#include "train/options.hpp"
#include "train/stop_request.hpp"

namespace petaflow {

/// Gives predictions in batches of N samples, as the network takes them, on every rank: batch b of rank r of R holds
/// the samples from (b R + r) N on, so that the batches b of all ranks, one after the other, are in the order of the
/// data set.
class Predictor {
 public:
  /// All references must outlive the object; the network is used as it is when next() is called.  Throws a user error
  /// where the data set has not what the objective reads.
  /// @param views  outputs, scores and loss are means over them; none: the image as it is
  Predictor(Communicator& comm, const Context& context, Network& network, const Objective& objective,
            const Dataset& data, const DataOptions& options, std::vector<ImageView> views = {});

  /// Goes to the first sample.
  void start();
  /// The next batch of this rank, which may be empty where other ranks have the last samples; null after the last one,
  /// on all ranks at the same call.  Does not communicate.  Valid until the next call.
  const PredictedBatch* next();
  /// Loss of this rank's batches since start(): sum of weight x loss, mean over views.
  double loss() const;

 private:
  void add_view(std::size_t view);
  void take_samples(const Batch& batch);

  Communicator& comm_;
  Context context_;
  Network& network_;
  const Dataset& data_;
  ObjectiveRun losses_;
  MicroBatchInputs inputs_;
  std::vector<Kokkos::View<float*, MemorySpace>> score_memory_;
  std::vector<Tensor> outputs_, scores_;  // of the network
  DataOptions options_;
  std::vector<ImageView> views_;
  std::vector<std::unique_ptr<Loader>> loaders_;  // one for each view
  std::vector<double> view_losses_;
  std::int64_t left_ = 0;  // batches
  PredictedBatch batch_;
};

/// Outcome of an evaluation, on all ranks.
struct EvaluationRun {
  double loss = 0;                           // mean of weight x loss
  StopRequest stopped = StopRequest::kNone;  // then nothing else is valid
};

/// On all ranks: gives all predictions to the evaluator, and merges it.  Gives up where any rank is requested to stop.
/// Throws on all ranks where one fails.
EvaluationRun evaluate(Communicator& comm, Predictor& predictor, std::int64_t samples, Evaluator& evaluator);

/// On all ranks: what any of them is requested.
StopRequest agreed_stop_request(Communicator& comm);

}  // namespace petaflow
