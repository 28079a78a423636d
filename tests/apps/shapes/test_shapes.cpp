// The shapes program as a user meets it: maps and kinds from generated images to predictions, a report, and a resumed
// run; its data and augmentation.
#include <algorithm>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "program.hpp"
#include "scratch_folder.hpp"
#include "shapes/task.hpp"

namespace petaflow {
namespace {

class ShapesProgram : public Program {
 protected:
  ShapesProgram() : Program("shapes"), input_(fs::absolute("tests/apps/shapes/shapes.toml")) {}

  void SetUp() override {
    Program::SetUp();
    if (HasFatalFailure()) return;
    const Outcome made = run("generate " + input_.string());
    ASSERT_EQ(made.code, 0) << made.err;
  }
  Outcome train(const std::string& name, const std::string& more = "", int ranks = 1) {
    return run("train " + input_.string() + " run.name=" + name + " train.deterministic=true " + more, ranks);
  }
  std::vector<std::vector<float>> weights(const std::string& name) const {
    std::vector<std::vector<float>> values;
    for (const auto& array : load_checkpoint((folder_ / "runs" / name / "checkpoint.h5").string()).weights) {
      values.push_back(array.values);
    }
    return values;
  }

  fs::path input_;
};

/// Mean over the classes that occur of intersection over union.
double mean_iou(const std::vector<std::int32_t>& known, const std::vector<std::int32_t>& predicted) {
  double sum = 0, classes = 0;
  for (std::int32_t c = 0; c < shapes::kMapClasses; ++c) {
    double either = 0, both = 0;
    for (std::size_t p = 0; p < known.size(); ++p) {
      either += known[p] == c || predicted[p] == c ? 1 : 0;
      both += known[p] == c && predicted[p] == c ? 1 : 0;
    }
    if (either > 0) sum += both / either, classes += 1;
  }
  return sum / classes;
}

TEST_F(ShapesProgram, LearnsMapAndKindFromImagesToPredictions) {
  const Outcome trained = train("a");
  ASSERT_EQ(trained.code, 0) << trained.err;
  for (const int ranks : {1, 2}) {
    const std::string file = "predictions" + std::to_string(ranks) + ".h5";
    const Outcome evaluated = run("evaluate runs/a data/shapes/test.h5 --json", ranks);
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    const nlohmann::json json = nlohmann::json::parse(evaluated.out);
    ASSERT_EQ(run("predict runs/a data/shapes/test.h5 -o " + file, ranks).code, 0);
    const Hdf5File known = Hdf5File::open((folder_ / "data/shapes/test.h5").string());
    const Hdf5File found = Hdf5File::open((folder_ / file).string());
    const double iou = mean_iou(known.read<std::int32_t>("map"), found.read<std::int32_t>("map"));
    EXPECT_GT(iou, 0.6);
    EXPECT_NEAR(iou, json["iou"], 1e-12);
    const auto kinds = known.read<std::int32_t>("kind"), found_kinds = found.read<std::int32_t>("kind");
    double right = 0;
    for (std::size_t i = 0; i < kinds.size(); ++i) right += kinds[i] == found_kinds[i] ? 1 : 0;
    EXPECT_GT(right, 0.75 * 128);
    EXPECT_NEAR(right / 128, json["accuracy"], 1e-12);
    EXPECT_EQ(found.dataset("map").info().dims, (std::vector<std::int64_t>{128, 24 * 24}));
  }
  const std::string report = text_of(folder_ / "runs/a/report.html");
  for (const char* words : {"128 images of the test set", "accuracy of the kind", "of cross"}) {
    EXPECT_NE(report.find(words), std::string::npos) << words;
  }
  EXPECT_EQ(run("report runs/a -o again.html").code, 0);
  EXPECT_EQ(run("summary " + input_.string()).code, 0);
}

TEST_F(ShapesProgram, AResumedRunEndsAlikeOnAnyNumberOfRanks) {
  const std::string short_run = "train.steps=40 stop.keep_best=true checkpoint.interval=5 ";
  ASSERT_EQ(train("whole", short_run).code, 0);
  ASSERT_EQ(train("part", short_run + "run.wall_time=0.001").code, 3);
  const Outcome rest = train("part", short_run + "--resume", 2);
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(weights("whole"), weights("part"));
}

TEST_F(ShapesProgram, RefusesWhatDoesNotFit) {
  const std::string input = "train " + input_.string();
  expect_refused(input + " data.edge=32", "data.edge = 32 asks for (samples, 32, 32)");
  expect_refused(input + " loss.map_weights=[1,2]", "2 class weights for an output of 4 classes");
}

/// Every pixel of the mirrored map lies where it does in the image: bright where there is a shape.
TEST(Shapes, FlipsMoveImageAndMapTogether) {
  const test::ScratchFolder folder;
  const std::string path = folder / "shapes.h5";
  shapes::write_shapes(path, 16, 1, 0, 8);
  const shapes::ShapesData data(shapes::read_shapes({path}, 16));
  const SampleStorage plain(data), changed(data);
  const Augmentation augment = shapes::ShapesTask().augmentation(data);
  std::set<std::vector<float>> seen;
  data.read(0, plain.bytes());
  const auto image = plain.input<float>();
  const auto map = plain.bytes().target<std::uint8_t>(1);
  for (std::uint64_t i = 0; i < 64; ++i) {
    data.read(0, changed.bytes());
    RandomSequence random(random_stream(5, RandomPurpose::kAugment), i);
    augment(changed.bytes(), random);
    const auto pixels = changed.input<float>();
    seen.insert({pixels.begin(), pixels.end()});
    for (std::size_t p = 0; p < pixels.size(); ++p) {
      const auto from = std::ranges::find(image, pixels[p]) - image.begin();
      ASSERT_EQ(changed.bytes().target<std::uint8_t>(1)[p], map[static_cast<std::size_t>(from)]);
    }
  }
  EXPECT_EQ(seen.size(), 4U);
}

}  // namespace
}  // namespace petaflow
