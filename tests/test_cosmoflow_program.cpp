// The cosmoflow program as a user meets it: from generated universes to predictions, the same on one rank and on two.
#include <algorithm>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "program.hpp"

namespace petaflow {
namespace {

class CosmoflowProgram : public Program {
 protected:
  CosmoflowProgram() : Program("cosmoflow") {}

  void SetUp() override {
    Program::SetUp();
    std::ofstream(folder_ / "tiny.toml")
        << "[run]\nname = \"tiny\"\n[data]\ntrain = [\"data/train/*\"]\nvalidation = [\"data/validation/*\"]\n"
           "test = [\"data/test/*\"]\nedge = 16\nparameters = [\"Omega_m\", \"sigma_8\"]\n"
           "[generate]\nfolder = \"data\"\ntrain = 3\nvalidation = 1\ntest = 2\nparticles = 32\nbox = 64.0\n"
           "[model]\nkind = \"quick\"\nfilters = [8, 8]\nloss = \"mse\"\n[augment]\nsymmetries = true\n"
           "[train]\nepochs = 2\nbatch = 8\ndeterministic = true\nshards = 4\n[evaluate]\nreplicas = 10\n";
  }

  Checkpoint checkpoint(const std::string& name) const {
    return load_checkpoint((folder_ / "runs" / name / "checkpoint.h5").string());
  }
  void expect_same_weights(const std::string& a, const std::string& b) const {
    const Checkpoint first = checkpoint(a), second = checkpoint(b);
    ASSERT_EQ(first.weights.size(), second.weights.size());
    for (std::size_t i = 0; i < first.weights.size(); ++i) {
      EXPECT_EQ(first.weights[i].values, second.weights[i].values) << first.weights[i].name;
    }
  }
};

TEST_F(CosmoflowProgram, GoesFromUniversesToPredictions) {
  const Outcome made = run("generate tiny.toml");
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(run("generate tiny.toml").code, 1);  // the files exist
  EXPECT_EQ(run("train tiny.toml --check").code, 0);
  const Outcome train = run("train tiny.toml");
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_NE(train.out.find("error_Omega_m"), std::string::npos) << train.out;

  const Outcome judged = run("evaluate runs/tiny 'data/test/*' --json");
  ASSERT_EQ(judged.code, 0) << judged.err;
  const nlohmann::json json = nlohmann::json::parse(judged.out);
  EXPECT_EQ(json["samples"], 16);
  EXPECT_EQ(json["groups"], 2);
  std::vector<std::string> methods;
  for (const auto& method : json["single"]) methods.push_back(method["method"]);
  EXPECT_EQ(methods, (std::vector<std::string>{"network", "ridge on spectrum", "ridge, and histogram", "prior mean"}));

  const std::string report = text_of(folder_ / "runs/tiny/report.html");
  for (const char* words : {"16 cubes of the test set", "cut from 2 universes", "ridge on spectrum",
                            "estimate of sigma_8", "redshift 0.5", "particles per voxel", "data:image/png"}) {
    EXPECT_NE(report.find(words), std::string::npos) << words;
  }

  // The network can be judged where the training set is not: without what would be fitted to it.
  fs::rename(folder_ / "data/train", folder_ / "away");
  const Outcome alone = run("evaluate runs/tiny 'data/test/*' --json", 2);
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_NE(alone.err.find("the classical estimates are left out: data.train: no file matches"), std::string::npos)
      << alone.err;
  EXPECT_EQ(nlohmann::json::parse(alone.out)["single"].size(), 1U);
  fs::rename(folder_ / "away", folder_ / "data/train");

  ASSERT_EQ(run("predict runs/tiny 'data/test/*' -o out.h5").code, 0);
  const Hdf5File out = Hdf5File::open((folder_ / "out.h5").string());
  EXPECT_EQ(out.dataset("estimate").info().dims, (std::vector<std::int64_t>{16, 2}));
  EXPECT_EQ(out.text_attribute("/", "parameters"), "Omega_m\nsigma_8");
  EXPECT_EQ(out.text_attribute("/", "units"), "\n");
  const std::string files = out.text_attribute("/", "files").value();
  EXPECT_EQ(std::ranges::count(files, '\n'), 15);
  EXPECT_EQ(files.substr(0, files.find('\n')), "data/test/1_univ_ics_2lpt_a00000004_000.hdf5");
  EXPECT_EQ(out.read<std::int32_t>("file").back(), 15);
  EXPECT_EQ(out.read<std::int64_t>("index").back(), 0);
  EXPECT_EQ(out.text_attribute("/", "run"), "runs/tiny");
  EXPECT_EQ(out.text_attribute("/", "checkpoint"), fs::canonical(folder_ / "runs/tiny/checkpoint.h5"));
  for (const char* who : {"trained_by", "provenance"}) {
    const nlohmann::json by = nlohmann::json::parse(out.text_attribute("/", who).value());
    EXPECT_EQ(by["application"], "cosmoflow");
    EXPECT_TRUE(by["commit"].is_string());
  }
  const auto truth = out.read<float>("true"), estimate = out.read<float>("estimate");
  const auto normalised = out.read<float>("estimate_normalised");
  double mae = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    EXPECT_NEAR(estimate[i], i % 2 == 0 ? 0.3 + 0.03 * normalised[i] : 0.8 + 0.08 * normalised[i], 1e-5);
    mae += std::abs(estimate[i] - truth[i]) / (i % 2 == 0 ? 0.03 : 0.08) / static_cast<double>(truth.size());
  }
  EXPECT_NEAR(mae, json["single"][0]["mae"], 1e-4);
}

TEST_F(CosmoflowProgram, KeepsALogForMlperf) {
  ASSERT_EQ(run("generate tiny.toml").code, 0);
  ASSERT_EQ(run("train tiny.toml mllog=true stop.target=100 optimizer.name=sgd", 2).code, 0);
  std::ifstream file(folder_ / "runs/tiny/mllog.txt");
  std::vector<std::string> events;
  std::map<std::string, nlohmann::json> values;
  for (std::string line; std::getline(file, line);) {
    ASSERT_EQ(line.substr(0, 10), ":::MLLOG {") << line;
    const nlohmann::json event = nlohmann::json::parse(line.substr(9));
    events.push_back(event["key"]);
    values[event["key"]] = event;
  }
  EXPECT_EQ(values["run_stop"]["metadata"]["status"], "success");
  EXPECT_EQ(values["eval_error"]["metadata"]["epoch_num"], 1);
  EXPECT_EQ(values["eval_samples"]["value"], 8);
  const std::vector<std::string> run_events(std::ranges::find(events, "init_stop"), events.end());
  EXPECT_EQ(run_events, (std::vector<std::string>{"init_stop", "run_start", "epoch_start", "eval_start", "eval_error",
                                                  "eval_stop", "epoch_stop", "run_stop"}));
  EXPECT_NE(run("train tiny.toml mllog=true --resume").err.find("without --resume"), std::string::npos);
}

TEST_F(CosmoflowProgram, RanksMakeNoDifference) {
  ASSERT_EQ(run("generate tiny.toml").code, 0);
  ASSERT_EQ(run("generate tiny.toml generate.folder=two", 2).code, 0);
  std::size_t files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "data")) {
    if (!entry.is_regular_file()) continue;
    const fs::path twin = folder_ / "two" / fs::relative(entry.path(), folder_ / "data");
    const Hdf5File one = Hdf5File::open(entry.path().string()), two = Hdf5File::open(twin.string());
    EXPECT_TRUE(one.read<std::int32_t>("x") == two.read<std::int32_t>("x")) << twin;
    EXPECT_EQ(one.read<float>("y"), two.read<float>("y")) << twin;
    ++files;
  }
  EXPECT_EQ(files, 48U);

  ASSERT_EQ(run("train tiny.toml run.name=one").code, 0);
  ASSERT_EQ(run("train tiny.toml run.name=two", 2).code, 0);
  expect_same_weights("one", "two");
  ASSERT_EQ(run("train tiny.toml run.name=part run.wall_time=0.001", 2).code, 3);
  ASSERT_EQ(run("train tiny.toml run.name=part --resume").code, 0);
  expect_same_weights("one", "part");

  // Records hold the same cubes.
  ASSERT_EQ(run("generate tiny.toml generate.folder=records generate.format=tfrecord").code, 0);
  const std::string records =
      "'data.train=[\"records/train/*\"]' 'data.validation=[\"records/validation/*\"]' "
      "'data.test=[\"records/test/*\"]'";
  ASSERT_EQ(run("train tiny.toml run.name=records " + records).code, 0);
  expect_same_weights("one", "records");
}

TEST_F(CosmoflowProgram, BadInputIsOneSentence) {
  ASSERT_EQ(run("generate tiny.toml generate.format=tfrecord").code, 0);
  const auto expect = [&](const std::string& arguments, const std::string& sentence) {
    for (const int ranks : {1, 2}) {
      const Outcome outcome = run(arguments, ranks);
      EXPECT_EQ(outcome.code, 1) << outcome.err;
      EXPECT_NE(outcome.err.find(sentence), std::string::npos) << outcome.err;
      EXPECT_EQ(outcome.err.find("error:"), outcome.err.rfind("error:")) << outcome.err;
    }
  };
  expect("train tiny.toml model.kind=sc18", "the sc18 network needs cubes with edges of at least 108, found 16x16x16");
  expect("train tiny.toml data.edge=12", "cubes of edge 16 cannot be cut into cubes of edge 12 (data.edge)");
  expect("train tiny.toml data.channels=5", "data.channels is 5");
  expect("train tiny.toml data.omega_m=[0.3]", "data.omega_m must be two numbers");
  expect("train tiny.toml data.parameters=[]", "data.parameters is empty");
  expect("train tiny.toml 'data.train=[\"none/*\"]'", "data.train: no file matches none/*");
  const std::string last = "data/train/1_univ_ics_2lpt_a00000002_007.tfrecord";
  std::string bytes = text_of(folder_ / last);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 16);
  std::ofstream(folder_ / last, std::ios::binary) << bytes;
  expect("train tiny.toml --check", last + ": record 0: " + last + " is a gzip file, but");
}

}  // namespace
}  // namespace petaflow
