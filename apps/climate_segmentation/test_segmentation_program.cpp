// The climate segmentation as a user meets it, on a few small frames: from generated ones to maps, a report and a
// resumed run; commands of its own; what it refuses.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <vector>

#include <nlohmann/json.hpp>

#include "climate/frame_file.hpp"
#include "climate/netcdf.hpp"
#include "climate/statistics.hpp"
#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "program.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

constexpr std::int64_t kHeight = 48, kWidth = 72, kPixels = kHeight * kWidth;

class SegmentationProgram : public Program {
 protected:
  SegmentationProgram() : Program("climate_segmentation"), input_(fs::absolute("inputs/climate_small.toml")) {}

  void SetUp() override {
    Program::SetUp();
    if (HasFatalFailure()) return;
    const Outcome made = run("generate " + small() + sets());
    ASSERT_EQ(made.code, 0) << made.err;
  }
  std::string small() const { return input_.string() + " data.height=48 data.width=72 "; }
  static std::string sets() { return "generate.train=6 generate.validation=2 generate.test=3 "; }
  Outcome train(const std::string& name, const std::string& more = "", int ranks = 1) {
    return run("train " + small() + "run.name=" + name +
                   " train.deterministic=true train.shards=2 train.epochs=1 evaluate.baseline_trials=6 "
                   "evaluate.baseline_frames=2 " +
                   more,
               ranks);
  }
  std::vector<std::vector<float>> weights(const std::string& name) const {
    std::vector<std::vector<float>> values;
    for (const auto& array : load_checkpoint((folder_ / "runs" / name / "checkpoint.h5").string()).weights) {
      values.push_back(array.values);
    }
    return values;
  }
  /// Files of a generated set, in their order.
  std::vector<std::string> frames(const std::string& set) const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(folder_ / "data/climate_small" / set)) {
      paths.push_back(entry.path().string());
    }
    std::ranges::sort(paths);
    return paths;
  }

  fs::path input_;
};

TEST_F(SegmentationProgram, GoesFromFramesToMapsAndAReport) {
  EXPECT_EQ(frames("train").size(), 6U);
  const Outcome trained = train("a");
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.out.find("evaluate.class_offsets=[0, "), std::string::npos) << trained.out;
  EXPECT_NE(trained.out.find("\nIoU % "), std::string::npos) << trained.out;
  expect_fits_screen(trained.out);
  const std::string kept = load_checkpoint((folder_ / "runs/a/checkpoint.h5").string()).config;
  EXPECT_NE(kept.find("class_offsets = [0"), std::string::npos);

  nlohmann::json results[2];
  for (const int ranks : {1, 2}) {
    const Outcome evaluated = run("evaluate runs/a 'data/climate_small/test/*' --json", ranks);
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    results[ranks - 1] = nlohmann::json::parse(evaluated.out);
  }
  const nlohmann::json& json = results[0];
  for (const char* key : {"iou_mean", "iou_background", "iou_tc", "iou_ar", "iou_mlperf", "accuracy"}) {
    EXPECT_TRUE(json.contains(key)) << key;
    EXPECT_EQ(json[key], results[1][key]) << key;
  }
  EXPECT_EQ(json["others"], results[1]["others"]);
  std::vector<std::string> methods;
  for (const auto& other : json["others"]) methods.push_back(other["method"]);
  EXPECT_TRUE(std::ranges::count(methods, "heuristics") == 1 && std::ranges::count(methods, "per pixel") == 1);

  ASSERT_EQ(run("predict runs/a 'data/climate_small/test/*' -o maps.nc").code, 0);
  const climate::NetcdfFile maps((folder_ / "maps.nc").string());
  const std::vector<double> tags = maps.read("tag");
  ASSERT_EQ(std::ssize(tags), 3 * kPixels);
  double right = 0;
  const std::vector<std::string> files = frames("test");
  for (std::size_t f = 0; f < files.size(); ++f) {
    const climate::Frame frame = climate::read_frame(*climate::open_frames(files[f]));
    for (std::size_t p = 0; p < static_cast<std::size_t>(kPixels); ++p) {
      right += tags[f * kPixels + p] == frame.labels[p] ? 1 : 0;
    }
  }
  EXPECT_NEAR(right / (3 * kPixels), json["accuracy"], 1e-12);
  const std::string report = text_of(folder_ / "runs/a/report.html");
  for (const char* words : {"3 frames of the test set", "Intersection over union", "heuristics", "predicted classes"}) {
    EXPECT_NE(report.find(words), std::string::npos) << words;
  }
  EXPECT_EQ(run("report runs/a -o again.html").code, 0);
  EXPECT_EQ(run("summary " + small()).code, 0);
  EXPECT_EQ(run("inspect 'data/climate_small/test/*'").code, 0);
  EXPECT_EQ(run("bench --steps 1 " + small()).code, 0);
}

TEST_F(SegmentationProgram, AResumedRunEndsAlikeOnAnyNumberOfRanks) {
  const std::string short_run =
      "model.filters=[4,8] evaluate.baseline_trials=0 evaluate.baseline_frames=60 checkpoint.interval=1 ";
  const Outcome whole = train("whole", short_run);
  ASSERT_EQ(whole.code, 0) << whole.err;
  ASSERT_EQ(train("part", short_run + "run.wall_time=0.001").code, 3);
  const Outcome rest = train("part", short_run + "--resume", 2);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(weights("whole"), weights("part"));
}

TEST_F(SegmentationProgram, TwoRanksWithStatisticsOfTheWholeBatchEqualOne) {
  const std::string options =
      "model.filters=[4,8] model.batch_norm=global train.deterministic=false train.shards=1 "
      "evaluate.baseline_trials=0 evaluate.baseline_frames=60 ";
  const Outcome alone = train("one", options);
  ASSERT_EQ(alone.code, 0) << alone.err;
  ASSERT_EQ(train("two", options, 2).code, 0);
  const auto one = weights("one"), two = weights("two");
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t w = 0; w < one.size(); ++w) {
    for (std::size_t i = 0; i < one[w].size(); ++i) ASSERT_NEAR(one[w][i], two[w][i], 2e-3) << w;
  }
}

/// All lines that the compliance checker of MLPerf HPC 3.0 wants of DeepCAM with LAMB, and its own rules of their
/// values but for those of the whole data set (hpc_3.0.0/common.yaml, closed_common.yaml, closed_deepcam*.yaml).
TEST_F(SegmentationProgram, KeepsALogForMlperf) {
  const Outcome outcome =
      run("train " + fs::absolute("inputs/climate_deepcam.toml").string() +
              " mllog=true run.name=mlperf data.height=48 data.width=72 'data.train=data/climate_small/train/*' "
              "'data.validation=data/climate_small/validation/*' model.kind=unet model.filters=[4,8] "
              "model.batch_norm=global train.recompute=1 train.epochs=2 schedule.warmup_steps=2 schedule.name=step "
              "'schedule.step_epochs=[1]' stop.target=0.01 evaluate.baseline_trials=0",
          2);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<std::string, std::vector<nlohmann::json>> events;
  std::ifstream file(folder_ / "runs/mlperf/mllog.txt");
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json event = nlohmann::json::parse(line.substr(9));
    events[event["key"]].push_back(event);
  }
  for (const char* key :
       {"cache_clear", "init_start", "init_stop", "run_start", "run_stop", "epoch_start", "epoch_stop", "eval_start",
        "eval_stop", "eval_accuracy", "submission_org", "submission_platform", "submission_division",
        "submission_status", "number_of_nodes", "accelerators_per_node"}) {
    EXPECT_EQ(events[key].size(), 1U) << key;
  }
  const std::map<std::string, nlohmann::json> expected = {{"submission_benchmark", "deepcam"},
                                                          {"seed", 1},
                                                          {"global_batch_size", 2},
                                                          {"gradient_accumulation_frequency", 1},
                                                          {"batchnorm_group_size", 2},
                                                          {"train_samples", 6},
                                                          {"eval_samples", 2},
                                                          {"opt_name", "LAMB"},
                                                          {"opt_lr", 5.5e-3},
                                                          {"opt_betas", {0.9, 0.999}},
                                                          {"opt_eps", 1e-6},
                                                          {"opt_bias_correction", true},
                                                          {"opt_grad_averaging", true},
                                                          {"opt_max_grad_norm", 1.0},
                                                          {"scheduler_type", "multistep"},
                                                          {"scheduler_milestones", {3}},
                                                          {"scheduler_decay_rate", 0.1},
                                                          {"scheduler_lr_warmup_steps", 2},
                                                          {"scheduler_lr_warmup_factor", 1}};
  for (const auto& [key, value] : expected) {
    ASSERT_EQ(events[key].size(), 1U) << key;
    EXPECT_EQ(events[key].front()["value"], value) << key;
  }
  EXPECT_EQ(events["run_stop"].front()["metadata"]["status"], "success");
  EXPECT_EQ(events["eval_accuracy"].front()["metadata"]["epoch_num"], 1);
}

TEST_F(SegmentationProgram, LabelsFramesAndMakesStatistics) {
  for (const int ranks : {1, 2}) {
    const std::string to = "labels" + std::to_string(ranks);
    const Outcome labelled = run("label 'data/climate_small/test/*' label.threshold=20 -o " + to, ranks);
    ASSERT_EQ(labelled.code, 0) << labelled.err;
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / to), fs::directory_iterator()), 3);
  }
  const std::string name = fs::path(frames("test").front()).stem().string() + "-labels.nc";
  const climate::NetcdfFile one((folder_ / "labels1" / name).string()), two((folder_ / "labels2" / name).string());
  EXPECT_EQ(one.read("tag"), two.read("tag"));
  // A training that finds labels nowhere but there.
  fs::create_directories(folder_ / "bare");
  for (const fs::path frame : frames("test")) {
    const climate::Frame labelled = climate::read_frame(*climate::open_frames(frame));
    climate::Frame bare = labelled;
    bare.labels.clear();
    climate::write_frame((folder_ / "bare" / frame.filename()).string(), bare);
    const climate::NetcdfFile tags((folder_ / "labels1" / (frame.stem().string() + "-labels.nc")).string());
    const std::vector<double> expected = tags.read("tag");
    const auto found =
        climate::open_frames((folder_ / "bare" / frame.filename()).string(), {.labels = (folder_ / "labels1").string()})
            ->read_labels(0);
    EXPECT_TRUE(std::ranges::equal(found, expected));
  }
  const std::string bare = "train " + small() + "'data.train=bare/*' loss.weights=none --check ",
                    others = "'data.validation=bare/*' 'data.test=bare/*' ";
  const Outcome checked = run(bare + others + "data.labels=labels1");
  EXPECT_EQ(checked.code, 0) << checked.err;
  const Outcome own = run(bare + "data.labels=labels1");  // the other sets have labels of their own
  EXPECT_EQ(own.code, 0) << own.err;
  EXPECT_HOLDS(own.out, " are those in the files: labels1 (data.labels) has none for them");
  expect_refused(bare + others, "(deepcam) has no labels; `label` makes them");
  expect_refused(bare + others + "data.labels=lables", " is not in lables (data.labels)");
  ASSERT_EQ(run("stats 'data/climate_small/train/*' -o stats.h5").code, 0);
  EXPECT_EQ(climate::read_statistics((folder_ / "stats.h5").string()).frames, 6);
  expect_refused("stats 'data/climate_small/train/*' -o stats.h5", "stats.h5 exists");
  const Outcome larger =
      run("generate " + small() + "generate.train=1 generate.validation=1 generate.test=1 data.height=96 " +
          "generate.folder=larger");
  ASSERT_EQ(larger.code, 0) << larger.err;
  expect_refused("stats 'data/climate_small/train/*' 'larger/train/*' -o mixed.h5", "statistics are of one grid");
  expect_refused("label nowhere.h5 -o labels", "nowhere.h5");
  expect_refused("label 'data/climate_small/test/*' label.treshold=20 -o labels", "label.threshold");
}

TEST_F(SegmentationProgram, RefusesWhatDoesNotFit) {
  const std::string input = "train " + small();
  expect_refused(input + "data.height=64", "data.height = 64");
  expect_refused(input + "data.channels=TMQQ", "TMQ");
  expect_refused(input + "loss.frequencies=[0.5,0.5]", "loss.frequencies must have a number for each");
  expect_refused(input + "model.filters=[4,4,4,4,4,4]", "halves its maps 5 times");
  expect_refused("generate " + small() + sets(), "--overwrite");

  const climate::Frame good = climate::read_frame(*climate::open_frames(frames("train").front()));
  const auto write = [&](const std::string& name, const std::vector<float>& fields, const std::vector<float>& labels,
                         const std::vector<float>& channels) {
    Hdf5File file = Hdf5File::create((folder_ / name).string());
    file.write<float>("climate/data", {std::ssize(channels), kHeight, kWidth}, fields);
    file.write<float>("climate/labels", {kHeight, kWidth}, labels);
    if (channels.size() < 16) file.write<float>("climate/channels", {std::ssize(channels)}, channels);
  };
  std::vector<float> all, labels(good.labels.begin(), good.labels.end());
  for (int c = 0; c < 16; ++c) all.push_back(static_cast<float>(c));
  write("four.h5", {good.fields.begin(), good.fields.begin() + 4 * kPixels}, labels, {0, 1, 2, 3});
  expect_refused(input + "data.train=four.h5", "TMQ, U850, V850, UBOT");
  std::vector<float> fields = good.fields;
  fields[5] = std::numeric_limits<float>::quiet_NaN();
  write("nan.h5", fields, labels, all);
  expect_refused(input + "data.train=nan.h5",
                 "nan.h5: 1 of 3456 numbers of TMQ are no values (NaN, infinite or a fill value): the first is nan at "
                 "row 0, column 5; fill the gaps");
  labels[7] = 3;
  write("label.h5", good.fields, labels, all);
  expect_refused(input + "data.train=label.h5", "label.h5: climate/labels is 3 at row 0, column 7; a label is 0");

  labels[7] = 0;
  write("sc18.h5", good.fields, labels, all);
  expect_refused(input + "'data.train=[\"data/climate_small/train/*\", \"sc18.h5\"]'",
                 "sc18.h5 has the layout sc18, but", {1});
  expect_refused(input + "data.train=frames/*.h5", "data.train: no file matches frames/*.h5: there is no folder frames",
                 {1});
  expect_refused(input + "data.from=1850-01-01 data.to=1850-12-31",
                 "none of 6 files is from 1850-01-01 to 1850-12-31 (data.from, data.to); they are from", {1});
}

}  // namespace
}  // namespace petaflow
