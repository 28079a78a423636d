// The evaluator of predicted maps: metrics with and without class offsets, pictures, and the warning of a class that is
// never found.
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "climate_segmentation/reporter.hpp"
#include "climate_segmentation/task.hpp"
#include "comm/communicator.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate_segmentation {
namespace {

constexpr std::int64_t kHeight = 4, kWidth = 6, kPixels = kHeight * kWidth;

/// Two frames whose pixels 0 to 3 are a cyclone and 4 to 9 a river.
class Frames {
 public:
  Frames() {
    climate::Frame frame;
    frame.grid = climate::cam5_grid(kHeight, kWidth);
    for (int i = 0; i < climate::kFieldCount * kPixels; ++i) frame.fields.push_back(static_cast<float>(i));
    frame.labels.assign(kPixels, 0);
    std::fill_n(frame.labels.begin(), 4, std::uint8_t{1});
    std::fill_n(frame.labels.begin() + 4, 6, std::uint8_t{2});
    labels_ = frame.labels;
    climate::ClimateDataOptions options;
    options.height = kHeight, options.width = kWidth;
    std::vector<std::string> files;
    for (const char* name : {"data-1979-01-01-00-0.h5", "data-1979-01-01-01-0.h5"}) {
      files.push_back(folder_ / name);
      climate::write_frame(files.back(), frame);
    }
    data_ = std::make_unique<climate::ClimateData>(options, climate::scan_climate(options, files));
  }
  const climate::ClimateData& data() const { return *data_; }

  /// Both frames with logits that are right by 1, but for the cyclones', which are too low by `lack`.
  PredictedBatch batch(float lack) const {
    PredictedBatch batch;
    batch.indices = {0, 1};
    PredictedOutput& output = batch.outputs.emplace_back(Shape{1, 3, 1, kHeight, kWidth});
    KnownTarget& target = batch.targets.emplace_back(data_->targets().front());
    for (int f = 0; f < 2; ++f) {
      for (const std::uint8_t known : labels_) {
        target.bytes.push_back(static_cast<std::byte>(known));
        for (std::uint8_t c = 0; c < 3; ++c) {
          output.values.push_back((c == known ? 1.0F : 0.0F) - (c == 1 ? lack : 0.0F));
        }
      }
    }
    output.scores = output.values;
    return batch;
  }

 private:
  test::ScratchFolder folder_;
  std::vector<std::uint8_t> labels_;
  std::unique_ptr<climate::ClimateData> data_;
};

TEST(SegmentationEvaluator, AppliesOffsetsAndKeepsWhatTheyChange) {
  const Frames frames;
  SegmentationTask task;
  Options options;
  options.evaluate.class_offsets = {0, 3, 0};
  options.evaluate.pictures = 1;
  MissedClasses missed = {};
  SegmentationEvaluator evaluator(task, frames.data(), options, Depth::kFull, missed);
  evaluator.add(frames.batch(3));
  Communicator alone;
  evaluator.merge(alone);
  const Evaluation evaluation = evaluator.evaluate();
  EXPECT_EQ(evaluation.find("iou_mean")->value, 1);
  ASSERT_EQ(evaluator.methods().size(), 2U);
  EXPECT_EQ(evaluator.methods()[1].report.iou[1].value, 0);
  EXPECT_DOUBLE_EQ(*evaluator.methods()[1].report.iou[0].value, 14.0 / 18);
  ASSERT_EQ(evaluator.pictures().size(), 1U);
  EXPECT_EQ(evaluator.pictures()[0].known, evaluator.pictures()[0].predicted);

  const SegmentationReporter reporter;
  const nlohmann::json results = reporter.results(evaluator), curves = reporter.curves(evaluator);
  EXPECT_EQ(results["iou_tc"], 1);
  EXPECT_EQ(results["confusion"]["ar"]["ar"], 12);
  EXPECT_EQ(results["others"][0]["method"], "network, largest logit");
  EXPECT_EQ(results["others"][0]["iou_tc"], 0);
  EXPECT_EQ(curves["frames"].size(), 1U);
  EXPECT_NE(reporter.table(evaluator).find("class offsets tc 3, ar 0"), std::string::npos);
}

TEST(SegmentationEvaluator, ChoosesOffsetsThatFindTheClass) {
  const Frames frames;
  OffsetChooser chooser;
  chooser.add(frames.batch(3.05F));
  Communicator alone;
  chooser.merge(alone);
  chooser.evaluate();
  EXPECT_GT(chooser.offsets()[1], 2);
  EXPECT_LT(chooser.offsets()[1], 4);
}

TEST(SegmentationEvaluator, WarnsOnceOfAClassThatIsNeverFound) {
  const Frames frames;
  SegmentationTask task;
  MissedClasses missed = {};
  const auto validate = [&](float lack) {
    testing::internal::CaptureStderr();
    SegmentationEvaluator evaluator(task, frames.data(), {}, Depth::kQuick, missed);
    evaluator.add(frames.batch(lack));
    Communicator alone;
    evaluator.merge(alone);
    evaluator.evaluate();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(validate(3), "");
  const std::string warning = validate(3);
  EXPECT_NE(warning.find("no pixel of the class tc in 2 validations"), std::string::npos) << warning;
  EXPECT_EQ(validate(3), "");
  EXPECT_EQ(validate(0), "");  // found
  EXPECT_EQ(validate(3), "");
  EXPECT_NE(validate(3), "");
}

}  // namespace
}  // namespace petaflow::climate_segmentation
