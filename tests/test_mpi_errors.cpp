// Errors of one rank of several: all throw the same, and no weight changes.
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "comm/agree.hpp"
#include "comm/communicator.hpp"
#include "comm/mpi.hpp"
#include "kernels/launch.hpp"
#include "tiny_training.hpp"

namespace petaflow {
namespace {

using tiny::options;

TEST(Trainer, AnErrorOfOneRankIsThrownByAll) {
  const auto all = make_mpi_communicator();
  for (const auto& [deterministic, norm] : {std::pair(false, tiny::Norm()), std::pair(true, tiny::Norm()),
                                            std::pair(false, tiny::Norm(BatchNormScope::kRanks))}) {
    CommonOptions common = options();
    common.train.deterministic = deterministic;
    common.data.shuffle = false;
    tiny::Training training(*all, common, 48, 0, false, norm);
    const tiny::BadData bad(48);
    Loader loader(bad, training.loader_options(common, false));
    loader.start_epoch(0);
    EXPECT_NO_THROW(training.step.run(loader, 0.01F));
    const std::vector<float> before = training.weights();
    try {
      training.step.run(loader, 0.01F);  // samples 12 to 23
      FAIL();
    } catch (const AgreedError& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_NE(std::string(error.what()).find("sample 17 is broken"), std::string::npos) << error.what();
    }
    EXPECT_EQ(training.weights(), before);
  }
}

TEST(Trainer, ALaggedErrorIsThrownBeforeItsGradientIsUsed) {
  const auto all = make_mpi_communicator();
  CommonOptions common = options();
  common.data.shuffle = false;
  common.update.lag = 2;
  tiny::Training training(*all, common, 48, 0, false);
  const tiny::BadData bad(48);
  Loader loader(bad, training.loader_options(common, false));
  loader.start_epoch(0);
  std::vector<float> before;
  for (int step = 0; step < 3; ++step) training.step.run(loader, 0.01F);  // the second one fails
  before = training.weights();
  EXPECT_THROW(training.step.run(loader, 0.01F), AgreedError);
  EXPECT_EQ(training.weights(), before);
}

/// A layer whose backward fails in the second step on the last rank.
class Fragile final : public Layer {
 public:
  explicit Fragile(bool fails) : fails_(fails) {}
  Shape output(const Shape& x) const override { return x; }
  void lower(Lowering& ops) const override { ops.append(StageOp{std::make_unique<FragileStage>(fails_)}); }

  class FragileStage final : public Stage {
   public:
    explicit FragileStage(bool fails) : fails_(fails) {}
    void forward(const Context& context) override { copy_elements(context, buffers.x[0], buffers.y[0]); }
    void backward(const Context& context, float*) override {
      if (++calls_ == 2 && fails_) failure("the layer broke");
      copy_elements(context, buffers.dy[0], buffers.dx[0]);
    }

   private:
    static void copy_elements(const Context& context, const Tensor& from, const Tensor& to) {
      copy<float>(context, from.as<float>(), to.as<float>(), from.shape.elements());
    }
    bool fails_;
    int calls_ = 0;
  };

 private:
  bool fails_;
};

TEST(Trainer, AnErrorBetweenSumsOfBatchNormIsThrownByAll) {
  const auto all = make_mpi_communicator();
  CommonOptions common = options();
  common.comm.bucket_mb = 1e-5;  // a bucket for each array: others start sums of gradients between those of norms
  Graph graph(tiny::kSample);
  graph.add<Conv>("conv1", ConvOptions::same_2d(6, 3))
      .add<BatchNorm>("norm1", BatchNormOptions{BatchNormScope::kRanks});
  graph.add<Conv>("conv2", ConvOptions::same_2d(5, 3))
      .add<BatchNorm>("norm2", BatchNormOptions{BatchNormScope::kRanks});
  graph.add<Fragile>("fragile", all->rank() == all->size() - 1);
  graph.add<Conv>("conv3", ConvOptions::same_2d(5, 3))
      .add<BatchNorm>("norm3", BatchNormOptions{BatchNormScope::kRanks});
  graph.add<GlobalPool>("pool", PoolKind::kAverage).add<Dense>("fc", 2);
  const Objective loss("class", std::make_shared<SoftmaxLoss>());
  const tiny::Data data(48);
  TrainStep step(*all, Context(), step_options(common), graph, loss);
  LoaderOptions loader_options;
  loader_options.global_batch = common.train.batch;
  loader_options.begin = step.share().begin;
  loader_options.end = step.share().end;
  Loader loader(data, loader_options);
  loader.start_epoch(0);
  EXPECT_NO_THROW(step.run(loader, 0.01F));
  try {
    step.run(loader, 0.01F);
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_NE(std::string(error.what()).find("the layer broke"), std::string::npos) << error.what();
  }
}

TEST(Trainer, ALossThatIsNotFiniteNamesStepAndRankAndChangesNoWeight) {
  const auto all = make_mpi_communicator();
  CommonOptions many = options();
  many.comm.bucket_mb = 1e-4;  // a bucket for each array
  tiny::Training training(*all, many, 48, 0, false);
  training.loader.start_epoch(0);
  training.step.run(training.loader, 0.01F);
  std::vector<float> before = training.weights();
  const int last = all->size() - 1;
  if (all->rank() == last) before.back() = std::nanf("");
  training.set_weights(before);
  try {
    training.step.run(training.loader, 0.01F);
    FAIL();
  } catch (const AgreedError& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kFailure);
    EXPECT_NE(std::string(error.what()).find(fmt::format("step 1: the loss is nan on rank {}", last)),
              std::string::npos)
        << error.what();
  }
  EXPECT_EQ(std::memcmp(before.data(), training.weights().data(), before.size() * sizeof(float)), 0);
}

TEST(Agree, SpeaksOnceForAllRanks) {
  const auto all = make_mpi_communicator();
  EXPECT_NO_THROW(agree(*all, [] {}));
  const auto message = [&](const std::function<void()>& work) {
    try {
      agree(*all, work);
    } catch (const AgreedError& error) {
      return std::string(error.kind() == ErrorKind::kUser ? "user: " : "failure: ") + error.what();
    }
    return std::string("none");
  };
  EXPECT_EQ(message([] { user_error("the same"); }), "user: the same");
  const int last = all->size() - 1;
  EXPECT_EQ(message([&] {
              if (all->rank() == last) failure("only here");
            }),
            last == 0 ? "failure: only here" : "failure: rank " + std::to_string(last) + ": only here");
}

}  // namespace
}  // namespace petaflow
