// The climate detection as a user meets it: cells to boxes to GeoJSON, and on a few small frames from generated ones to
// predictions, a report and a resumed run, by every scheme of updates; what it refuses.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include <nlohmann/json.hpp>

#include "climate/extreme_weather_file.hpp"
#include "climate_detection/box_file.hpp"
#include "climate_detection/reporter.hpp"
#include "comm/communicator.hpp"
#include "io/checkpoint.hpp"
#include "kernels/detection_loss.hpp"
#include "program.hpp"
#include "scratch_folder.hpp"

namespace petaflow::climate_detection {
namespace {

constexpr std::int64_t kHeight = 16, kWidth = 32, kCell = 8, kChannels = 10, kMost = 4;

/// Two frames with a cyclone, a river that goes on at column 0 and, in the second, a depression.
class Frames {
 public:
  Frames() {
    climate::Frame frame;
    frame.grid = climate::cam5_grid(kHeight, kWidth);
    for (std::int64_t i = 0; i < climate::kFieldCount * kHeight * kWidth; ++i) {
      frame.fields.push_back(static_cast<float>(i));
    }
    frame.boxes = {{2, 9, 6, 13, 1}, {8, 26, 14, 36, 3}};
    std::vector<climate::Frame> frames(2, frame);
    frames[1].boxes.push_back({1, 18, 4, 22, 0});
    climate::write_extreme_weather(folder_ / "frames.h5", frames);
    climate::ClimateDataOptions options;
    options.height = kHeight, options.width = kWidth;
    options.map = false, options.boxes = true;
    options.most_boxes = kMost;
    data_ = std::make_unique<climate::ClimateData>(options, climate::scan_climate(options, {folder_ / "frames.h5"}));
  }
  const climate::ClimateData& data() const { return *data_; }

  /// Cells that say what is known with a confidence, and that there is nothing elsewhere.
  PredictedBatch batch(float confidence) const {
    PredictedBatch batch;
    batch.indices = {0, 1};
    PredictedOutput& output = batch.outputs.emplace_back(Shape{1, kChannels, 1, kHeight / kCell, kWidth / kCell});
    KnownTarget& target = batch.targets.emplace_back(data_->targets().front());
    const SampleStorage sample(*data_);
    for (std::int64_t frame = 0; frame < 2; ++frame) {
      data_->read(frame, sample.bytes());
      const std::span<const std::byte> bytes = sample.bytes().targets[0];
      target.bytes.insert(target.bytes.end(), bytes.begin(), bytes.end());
      std::vector<float> cells(static_cast<std::size_t>(output.shape.sample_size()));
      BoxTarget boxes(sample.bytes().targets[0], kBoxFields);
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        const CellBox box(boxes[i].data(), kCell);
        const auto cell = static_cast<std::int64_t>(box.row) * (kWidth / kCell) + static_cast<std::int64_t>(box.column);
        float* const says = cells.data() + cell * kChannels;
        says[kCellX] = box.x, says[kCellY] = box.y;
        says[kCellWidth] = box.log_width, says[kCellHeight] = box.log_height;
        says[kCellBox] = confidence, says[kCellNone] = 1 - confidence;
        says[kCellKinds + static_cast<int>(boxes[i][4])] = 1;
      }
      output.values.insert(output.values.end(), cells.begin(), cells.end());
    }
    output.scores = output.values;
    return batch;
  }

 private:
  test::ScratchFolder folder_;
  std::unique_ptr<climate::ClimateData> data_;
};

TEST(DetectionEvaluator, WhatCellsSayIsWhatTheyWereTold) {
  const Frames frames;
  const PredictedBatch batch = frames.batch(0.75F);
  const CellMap map{kHeight, kWidth, 0.01, 0.5};
  const std::vector<FoundBox> found = boxes_of_cells(map, batch.outputs[0].shape, batch.outputs[0].score(1)),
                              known = boxes_of_target(batch.targets[0].of<std::byte>(1));
  ASSERT_EQ(found.size(), 3U);
  for (const FoundBox& box : known) {
    EXPECT_EQ(std::ranges::count_if(found,
                                    [&](const FoundBox& other) {
                                      return other.kind == box.kind && box_iou(box, other, kWidth) > 0.9999;
                                    }),
              1);
  }
  EXPECT_EQ(found[0].confidence, 0.75F);
  EXPECT_TRUE(boxes_of_cells({kHeight, kWidth, 0.8, 0.5}, batch.outputs[0].shape, batch.outputs[0].score(1)).empty());
}

TEST(DetectionEvaluator, RightBoxesHaveAPrecisionOfOneAndArePictured) {
  const Frames frames;
  Options options;
  options.evaluate.pictures = 1;
  DetectionEvaluator evaluator(frames.data(), options, Depth::kFull);
  evaluator.add(frames.batch(0.75F));
  Communicator alone;
  evaluator.merge(alone);
  const Evaluation evaluation = evaluator.evaluate();
  for (const char* name : {"ap_10", "ap_50", "ap_50_tropical_cyclone", "ap_10_atmospheric_river"}) {
    ASSERT_NE(evaluation.find(name), nullptr) << name;
    EXPECT_EQ(evaluation.find(name)->value, 1) << name;
  }
  EXPECT_EQ(evaluation.undefined.at("ap_50_extratropical_cyclone"), "no box of this kind is known");

  const DetectionReporter reporter;
  const nlohmann::json results = reporter.results(evaluator), curves = reporter.curves(evaluator);
  EXPECT_EQ(results["known"]["tropical_cyclone"], 2);
  EXPECT_EQ(results["found"]["tropical_depression"], 1);
  ASSERT_EQ(curves["frames"].size(), 1U);
  EXPECT_EQ(curves["frames"][0]["known"].size(), 3U);
  EXPECT_EQ(curves["frames"][0]["found"].size(), 3U);
  EXPECT_NE(reporter.table(evaluator).find("100.0"), std::string::npos);

  DetectionEvaluator blind(frames.data(), options, Depth::kQuick);
  blind.add(frames.batch(0.005F));
  blind.merge(alone);
  EXPECT_EQ(blind.evaluate().find("ap_10")->value, 0);
  EXPECT_EQ(blind.evaluate().find("ap_10_extratropical_cyclone")->value, 0) << "training may stop by it";
}

/// Pixels of 11.25 x 12 degrees; the first column lies around the prime meridian.
TEST(BoxGeometry, IsInDegreesAndCutAtTheDateLine) {
  const climate::Grid grid = climate::cam5_grid(kHeight, kWidth);
  const nlohmann::json whole = box_geometry({1, 2, 3, 4, 0}, grid);
  EXPECT_EQ(whole["type"], "Polygon");
  EXPECT_EQ(whole["coordinates"].dump(),
            "[[[16.875,-84.0],[39.375,-84.0],[39.375,-60.0],[16.875,-60.0],[16.875,-84.0]]]");
  const nlohmann::json around_zero = box_geometry({0, -1, 16, 1, 0}, grid);  // rows reach the poles
  EXPECT_EQ(around_zero["coordinates"].dump(),
            "[[[-16.875,-90.0],[5.625,-90.0],[5.625,90.0],[-16.875,90.0],[-16.875,-90.0]]]");
  EXPECT_EQ(box_geometry({1, 20, 2, 22, 0}, grid)["coordinates"][0][0].dump(), "[-140.625,-84.0]") << "in the west";
  const nlohmann::json cut = box_geometry({1, 14.5F, 2, 18.5F, 0}, grid);
  EXPECT_EQ(cut["type"], "MultiPolygon");
  ASSERT_EQ(cut["coordinates"].size(), 2U);
  EXPECT_EQ(cut["coordinates"][0][0][0][0], 157.5);
  EXPECT_EQ(cut["coordinates"][0][0][1][0], 180);
  EXPECT_EQ(cut["coordinates"][1][0][0][0], -180);
  EXPECT_EQ(cut["coordinates"][1][0][1][0], -157.5);
  EXPECT_EQ(box_geometry({1, 5, 2, 37, 0}, grid)["coordinates"][0][0][0], -180) << "all around";
}

/// Equal, but for numbers, which agree to 1e-4: ranks with fewer frames at a time may take other implementations of
/// convolutions.
void expect_alike(const nlohmann::json& a, const nlohmann::json& b) {
  const nlohmann::json values = a.flatten(), others = b.flatten();
  ASSERT_EQ(values.size(), others.size());
  for (const auto& [place, value] : values.items()) {
    ASSERT_TRUE(others.contains(place)) << place;
    if (value.is_number()) {
      const double expected = value.get<double>();
      EXPECT_NEAR(others[place].get<double>(), expected, 1e-4 * std::max(1.0, std::abs(expected))) << place;
    } else {
      EXPECT_EQ(others[place], value) << place;
    }
  }
}

class DetectionProgram : public Program {
 protected:
  DetectionProgram() : Program("climate_detection"), input_(fs::absolute("inputs/climate_detection.toml")) {}

  void SetUp() override {
    Program::SetUp();
    if (HasFatalFailure()) return;
    const Outcome made = run("generate " + small() + sets());
    ASSERT_EQ(made.code, 0) << made.err;
  }
  std::string small() const { return input_.string() + " data.height=48 data.width=72 model.filters=[8,8,16] "; }
  static std::string sets() { return "generate.train=8 generate.validation=2 generate.test=3 "; }
  Outcome train(const std::string& name, const std::string& more = "", int ranks = 1) {
    return run("train " + small() + "run.name=" + name + " train.epochs=1 data.labelled_fraction=0.5 " + more, ranks);
  }
  std::vector<std::vector<float>> weights(const std::string& name) const {
    std::vector<std::vector<float>> values;
    for (const auto& array : load_checkpoint((folder_ / "runs" / name / "checkpoint.h5").string()).weights) {
      values.push_back(array.values);
    }
    return values;
  }
  std::string first_frame() const {
    return fs::directory_iterator(folder_ / "data/climate_detection/train")->path().string();
  }

  fs::path input_;
};

TEST_F(DetectionProgram, GoesFromFramesToBoxesAndAReport) {
  const std::string shown = "evaluate.shown_confidence=0.05 evaluate.most_overlap=1 ";
  const Outcome trained = train("a", "train.epochs=2 " + shown);
  ASSERT_EQ(trained.code, 0) << trained.err;
  expect_fits_screen(trained.out);
  nlohmann::json results[2], boxes[2];
  for (const int ranks : {1, 2}) {
    const Outcome evaluated = run("evaluate runs/a 'data/climate_detection/test/*' --json", ranks);
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    results[ranks - 1] = nlohmann::json::parse(evaluated.out);
    const std::string file = fmt::format("boxes{}.json", ranks);
    const Outcome predicted = run("predict runs/a 'data/climate_detection/test/*' -o " + file, ranks);
    ASSERT_EQ(predicted.code, 0) << predicted.err;
    boxes[ranks - 1] = nlohmann::json::parse(text_of(folder_ / file));
  }
  for (const std::string& name : metric_names()) {
    ASSERT_TRUE(results[0].contains(name)) << name;
    EXPECT_EQ(results[0][name], results[1][name]) << name;
  }
  EXPECT_EQ(boxes[0]["type"], "FeatureCollection");
  expect_alike(boxes[0]["features"], boxes[1]["features"]);
  for (const nlohmann::json& feature : boxes[0]["features"]) {
    EXPECT_GE(feature["properties"]["confidence"], 0.05);
    EXPECT_TRUE(feature["properties"]["time"].get<std::string>().starts_with("19"));
  }
  const std::string report = text_of(folder_ / "runs/a/report.html");
  for (const char* words : {"3 frames of the test set", "Average precision", "marked boxes over"}) {
    EXPECT_NE(report.find(words), std::string::npos) << words;
  }
  EXPECT_EQ(run("report runs/a -o again.html").code, 0);
  EXPECT_EQ(run("inspect 'data/climate_detection/test/*' data.most_boxes=40").code, 0);
  EXPECT_EQ(run("bench --steps 1 " + small()).code, 0);
  EXPECT_EQ(run("stats 'data/climate_detection/train/*' -o stats.h5").code, 0);
  const Outcome summary = run("summary " + input_.string() + " data.height=768 data.width=768 model.kind=sc17");
  EXPECT_NE(summary.out.find("79194138 parameters, 302.102 MiB; forward 421.409 GFLOP"), std::string::npos)
      << summary.out;
}

TEST_F(DetectionProgram, AResumedRunEndsAlikeOnAnyNumberOfRanks) {
  const std::string short_run = "train.deterministic=true train.shards=2 checkpoint.interval=1 ";
  const Outcome whole = train("whole", short_run);
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(train("part", short_run + "run.wall_time=0.001").code, 3);
  const Outcome rest = train("part", short_run + "--resume", 2);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(weights("whole"), weights("part"));
  const auto of_four = train("four", "train.deterministic=true train.shards=4 ", 4),
             of_one = train("one", "train.deterministic=true train.shards=4 ");
  ASSERT_EQ(of_four.code, 0) << of_four.err;
  ASSERT_EQ(of_one.code, 0) << of_one.err;
  EXPECT_EQ(weights("four"), weights("one"));
}

TEST_F(DetectionProgram, EverySchemeTrainsIt) {
  const std::vector<std::pair<std::string, int>> schemes = {
      {"update.lag=1", 2},
      {"update.sharded=true", 2},
      {"model.batch_norm=none update.groups=2 update.servers=1", 3},
      {"model.batch_norm=none update.groups=2 update.average_every=2", 2}};
  for (std::size_t i = 0; i < schemes.size(); ++i) {
    const auto& [options, ranks] = schemes[i];
    const Outcome trained = train(fmt::format("scheme{}", i), options, ranks);
    EXPECT_EQ(trained.code, 0) << options << "\n" << trained.err;
  }
}

TEST_F(DetectionProgram, WithoutReconstructionThereIsNoDecoder) {
  const Outcome trained = train("supervised", "loss.reconstruction=0");
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const auto& array : load_checkpoint((folder_ / "runs/supervised/checkpoint.h5").string()).weights) {
    EXPECT_EQ(array.name.find("decoder"), std::string::npos) << array.name;
  }
}

TEST_F(DetectionProgram, RefusesWhatDoesNotFit) {
  const std::string input = "train " + small();
  expect_refused("inspect 'data/climate_detection/train/*' data.height=48 data.width=72 data.most_boxes=2",
                 "data.most_boxes = 2: set it to", {1});
  expect_refused(input + "data.box_columns=[xmin,xmax,ymin,ymax,class]", "data.box_columns", {1});
  expect_refused(input + "data.labelled_fraction=0", "data.labelled_fraction", {1});
  expect_refused(input + "model.filters=[4,4,4,4,4]", "cells of 32 x 32 pixels, which do not divide 48 x 72", {1});
  expect_refused(input + "data.channels=TMQQ", "TMQ", {1});
  expect_refused(input + "model.kind=sc17 model.filters=[4,4] model.batch_norm=global", "model.batch_norm", {1});

  climate::Frame frame = climate::read_frame(*climate::open_frames(first_frame()));
  const auto write = [&](const std::vector<float>& row) {
    Hdf5File file = Hdf5File::create((folder_ / "odd.h5").string());
    file.write<float>("images", {1, climate::kFieldCount, 48, 72}, frame.fields);
    if (!row.empty()) file.write<float>("boxes", {1, 1, 5}, row);
  };
  write({40, 10, 50, 20, 1});
  expect_refused(input + "data.train=odd.h5", "odd.h5: box 0 of frame 0 has rows 40 to 50");
  write({40, 10, 45, 20, 4});
  expect_refused(input + "data.train=odd.h5", "and class 4", {1});
  write({-1, -1, -1, -1, -1});
  expect_refused(input + "data.train=odd.h5", "data.train: none of the 1 of 1 frames");
  write({});
  expect_refused(input + "data.train=odd.h5", "data.train: none of the 1 of 1 frames", {1});
  expect_refused(input + "data.validation=odd.h5", "odd.h5 (extreme_weather) has no boxes");
  climate::write_frame((folder_ / "deepcam.h5").string(), frame);
  expect_refused(input + "data.validation=deepcam.h5", "deepcam.h5 (deepcam) has no boxes", {1});
}

}  // namespace
}  // namespace petaflow::climate_detection
