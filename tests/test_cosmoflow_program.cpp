// The cosmoflow program as a user meets it: from generated universes to predictions, the same on one rank and on two.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cosmoflow_program.hpp"
#include "io/checkpoint.hpp"
#include "io/gzip.hpp"
#include "io/hdf5.hpp"
#include "io/tf_example.hpp"
#include "io/tfrecord.hpp"
#include "io/write_lock.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

TEST_F(CosmoflowProgram, GoesFromUniversesToPredictions) {
  const Outcome made = run("generate tiny.toml", 2);
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("generate (rank 0 of 2)  universe 3/3"), std::string::npos) << made.out;
  EXPECT_EQ(run("generate tiny.toml").code, 1);  // the files exist
  const Outcome inspected = run("inspect 'data/train/*'", 2);
  ASSERT_EQ(inspected.code, 0) << inspected.err;
  for (const char* words :
       {", 24 samples in ", "4x16x16x16 of 16-bit integers\n", "are for 4x128x128x128\n", "\nparameters ", " smallest ",
        "\nOmega_m ", "\nH_0 ", "Omega_m in [", "\nchannel  smallest  largest"}) {
    EXPECT_NE(inspected.out.find(words), std::string::npos) << words << "\n" << inspected.out;
  }
  EXPECT_EQ(inspected.out.find("class "), std::string::npos) << inspected.out;
  const Outcome check = run("train tiny.toml --check");
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_NE(check.out.find("data.train: 24 samples are in order\n"), std::string::npos) << check.out;
  EXPECT_EQ(check.out.find("cache_gb"), std::string::npos) << check.out;  // a key of another application
  const Outcome train = run("train tiny.toml");
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_HOLDS(train.out, " error_Omega_m ");
  EXPECT_HOLDS(train.out, "\nmean error ");
  EXPECT_HOLDS(train.out, "\nsigma_8 ");
  EXPECT_EQ(count(train.out, "times this"), 0U) << train.out;  // the whole table is evaluate's
  expect_fits_screen(train.out);

  const Outcome evaluated = run("evaluate runs/tiny 'data/test/*' --json");
  ASSERT_EQ(evaluated.code, 0) << evaluated.err;
  const nlohmann::json json = nlohmann::json::parse(evaluated.out);
  EXPECT_EQ(json["samples"], 16);
  EXPECT_EQ(json["groups"], 2);
  EXPECT_EQ(count(run("evaluate runs/tiny 'data/test/*'").out, " times this"), 12U);
  std::vector<std::string> methods;
  for (const auto& method : json["single"]) methods.push_back(method["method"]);
  EXPECT_EQ(methods, (std::vector<std::string>{"network", "ridge on spectrum", "ridge on spectrum and histogram",
                                               "mean of the training set"}));

  const std::string report = text_of(folder_ / "runs/tiny/report.html");
  for (const char* words : {"16 cubes of the test set", "cut from 2 universes", "ridge on spectrum",
                            "estimate of sigma_8", "redshift 0.5", "particles per voxel", "data:image/png"}) {
    EXPECT_NE(report.find(words), std::string::npos) << words;
  }

  // Ranks share the cubes that the classical estimates are fitted to and asked about.
  const Outcome shared = run("evaluate runs/tiny 'data/test/*' --json", 2);
  ASSERT_EQ(shared.code, 0) << shared.err;
  for (std::size_t m = 1; m < methods.size(); ++m) {
    EXPECT_EQ(nlohmann::json::parse(shared.out)["single"][m]["mae"], json["single"][m]["mae"]) << methods[m];
  }
  const fs::path last = folder_ / "data/train/1_univ_ics_2lpt_a00000002_007.hdf5";
  const std::string whole = text_of(last);
  test::write_bytes(last.string(), whole.substr(0, whole.size() / 2));
  const Outcome damaged = run("evaluate runs/tiny 'data/test/*'", 2);
  EXPECT_EQ(damaged.code, 0) << damaged.err;
  EXPECT_NE(damaged.err.find("the classical estimates are left out: rank 1: data/train/"), std::string::npos)
      << damaged.err;
  test::write_bytes(last.string(), whole);

  // The network can be evaluated where the training set is not: without what would be fitted to it.
  fs::rename(folder_ / "data/train", folder_ / "away");
  const Outcome alone = run("evaluate runs/tiny 'data/test/*' --json", 2);
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_NE(alone.err.find("the classical estimates are left out: rank 0: data.train: no file matches"),
            std::string::npos)
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

  expect_refused("train tiny.toml", "--overwrite", {2});
  expect_refused("predict runs/tiny 'data/test/*' -o out.h5", "out.h5", {2});
  const std::string weights = "train.init=runs/tiny/checkpoint.h5";
  expect_refused("train tiny.toml run.name=other model.filters=[8,4] " + weights, "conv2/weight", {2});
  const std::vector<float> values = checkpoint("tiny").weights.back().values;
  std::string bytes = text_of(folder_ / "runs/tiny/checkpoint.h5");
  const std::size_t at = bytes.find(std::string_view(reinterpret_cast<const char*>(values.data()), 4 * values.size()));
  ASSERT_NE(at, std::string::npos);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  test::write_bytes((folder_ / "runs/tiny/checkpoint.h5").string(), bytes);
  expect_refused("train tiny.toml run.name=other " + weights, "checksum", {2});
  expect_refused("evaluate runs/tiny 'data/test/*'", "checksum", {2});
}

TEST_F(CosmoflowProgram, SaysWhatItMakesOfTheFiles) {
  ASSERT_EQ(run("generate tiny.toml generate.train=1 generate.test=1").code, 0);
  const std::string cut = "the cubes of edge 16 in the files are cut into 8 of edge 8 each (data.edge)\n",
                    ranges = "labels from -1 to 1 stand for Omega_m in [0.27, 0.33] (data.omega_m), sigma_8 in ";
  const Outcome train = run("train tiny.toml data.edge=8 train.epochs=1 evaluate.baseline_samples=0");
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_HOLDS(train.out, "data.train: " + cut);
  EXPECT_HOLDS(train.out, "data.train: " + ranges);
  const Outcome evaluated = run("evaluate runs/tiny 'data/test/*'"),
                predicted = run("predict runs/tiny 'data/test/*' -o out.h5");
  for (const Outcome& outcome : {evaluated, predicted}) {
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(count(outcome.out, cut), 1U) << outcome.out;
    EXPECT_EQ(count(outcome.out, ranges), 1U) << outcome.out;
  }
}

TEST_F(CosmoflowProgram, OneOfTwoGeneratorsIsRefused) {
  expect_one_is_refused("generate tiny.toml");
  EXPECT_FALSE(fs::exists(folder_ / "data/lock"));

  const WriteLock lock((folder_ / "data").string());
  expect_refused("generate tiny.toml --overwrite", "data is being written by process ");
}

TEST_F(CosmoflowProgram, RegressionsThatCannotBeFittedAreLeftOut) {
  ASSERT_EQ(run("generate tiny.toml").code, 0);
  const Outcome train = run("train tiny.toml train.steps=1 'data.train=[\"data/train/*_a00000000_*\"]'");
  ASSERT_EQ(train.code, 0) << train.err;
  for (const char* method : {"ridge on spectrum", "ridge on spectrum and histogram"}) {
    const std::string warning = std::string(method) + " is left out: ridge regression needs samples of at least two";
    EXPECT_NE(train.err.find(warning), std::string::npos) << train.err;
    EXPECT_EQ(train.out.find(method), std::string::npos) << train.out;
  }
  EXPECT_NE(train.out.find("mean of the training set"), std::string::npos) << train.out;
}

TEST_F(CosmoflowProgram, SummariesNeedNoData) {
  const std::pair<const char*, std::pair<int, double>> published[] = {
      {"inputs/cosmoflow.toml", {7'041'443, 21.30e9}}, {"inputs/cosmoflow_mlperf.toml", {8'907'556, 68.9e9}}};
  for (const auto& [input, size] : published) {
    const Outcome summary = run("summary " + fs::absolute(input).string() + " train.batch=1 --json");
    ASSERT_EQ(summary.code, 0) << summary.err;
    const nlohmann::json json = nlohmann::json::parse(summary.out);
    EXPECT_EQ(json["parameters"], size.first);
    EXPECT_NEAR(json["forward_flop"], size.second, 0.05e9);
  }
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
  expect_same_end("one", "two");
  ASSERT_EQ(run("train tiny.toml run.name=part run.wall_time=0.001", 2).code, 3);
  ASSERT_EQ(run("train tiny.toml run.name=part --resume").code, 0);
  expect_same_end("one", "part");

  // Records hold the same cubes.
  ASSERT_EQ(run("generate tiny.toml generate.folder=records generate.format=tfrecord").code, 0);
  const std::string records =
      "'data.train=[\"records/train/*\"]' 'data.validation=[\"records/validation/*\"]' "
      "'data.test=[\"records/test/*\"]'";
  ASSERT_EQ(run("train tiny.toml run.name=records " + records).code, 0);
  expect_same_end("one", "records");
}

TEST_F(CosmoflowProgram, BenchReadsTheTrainingDataOnce) {
  const Outcome nothing = run("bench tiny.toml --io");
  EXPECT_EQ(nothing.code, 1);
  EXPECT_NE(nothing.err.find("data.train: no file matches data/train/*"), std::string::npos) << nothing.err;

  ASSERT_EQ(run("generate tiny.toml generate.format=tfrecord").code, 0);
  std::int64_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder_ / "data/train")) {
    bytes += static_cast<std::int64_t>(entry.file_size());
  }
  for (const int ranks : {1, 2}) {  // 24 cubes, 8 in each step
    const Outcome bench = run("bench tiny.toml --io --steps 100 --json data.threads=2", ranks);
    ASSERT_EQ(bench.code, 0) << bench.err;
    const nlohmann::json json = nlohmann::json::parse(bench.out), io = json["io"];
    EXPECT_EQ(json["steps"], 3);
    EXPECT_EQ(io["bytes_read"], bytes);
    EXPECT_EQ(io["held_bytes"], 0);
    const double seconds = 24 / io["samples_per_s"].get<double>();
    EXPECT_NEAR(io["mb_per_s"].get<double>(), 1e-6 * static_cast<double>(bytes) / seconds, 1e-6);
    EXPECT_NEAR(io["waited_share"].get<double>(), io["waited_steps"].get<double>() / 3, 1e-6);
    EXPECT_LE(io["waited_s"].get<double>(), seconds);
    EXPECT_LE(io["first_batch_s"], io["waited_s"]);
  }
  const Outcome text = run("bench tiny.toml --io --steps 2");
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("steps that waited for data: "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(" of 2 ("), std::string::npos) << text.out;
}

TEST_F(CosmoflowProgram, BadInputIsOneSentence) {
  ASSERT_EQ(run("generate tiny.toml").code, 0);
  const auto refused = [&](const std::string& arguments, const std::string& words, int ranks = 2) {
    expect_refused(arguments, words, {ranks});
  };
  refused("train tiny.toml model.kind=sc18", "the sc18 network needs cubes with edges of at least 108, found 16x16x16");
  refused("train tiny.toml data.egde=16", "data.edge");
  refused("train tiny.toml data.edge=12", "cubes of edge 16 cannot be cut into cubes of edge 12 (data.edge)");
  refused("train tiny.toml data.channels=5", "data.channels is 5");
  refused("train tiny.toml data.omega_m=[0.3]", "data.omega_m must be two numbers");
  refused("train tiny.toml data.parameters=[]", "data.parameters is empty");
  refused("train tiny.toml 'data.parameters=[\"n_s\", \"H_0\", \"n_s\"]'", "data.parameters names n_s twice");
  refused("train tiny.toml 'data.train=[\"none/*\"]'", "data.train: no file matches none/*");
  refused("train tiny.toml 'data.test=[\"none/*\"]'", "data.test: no file matches none/*");
  refused("train tiny.toml data.train=none.tfrecord", "data.train: none.tfrecord does not exist");
  refused("train tiny.toml data.train=data/train",
          "data/train is a folder; name the files in it, such as data/train/*");
  refused("train tiny.toml data.format=tfrecord",
          ".hdf5 is an HDF5 file, to be read with data.format = \"hdf5\"; data");
  refused(
      "train tiny.toml data.train=none.h5 train.deterministic=false model.batch_norm=global update.groups=2 "
      "update.servers=1",
      "the model has batch norm over all ranks, but update.groups = 2 groups of 1 rank work at steps of their own; "
      "set comm.norm_ranks to 1, or update.groups to 1",
      3);
  refused("train tiny.toml data.edge=0", "data.edge must be between 1 and 4096, found 0");
  refused("train tiny.toml data.edge=4096", "edge 4096 (data.edge); data.edge = 16 takes them whole");
  refused("train tiny.toml data.omega_m=[]", "data.omega_m must be two numbers");
  refused("train tiny.toml model.dropout=1", "model.dropout");
  refused("generate tiny.toml generate.cuts=11", "generate.cuts must be between 1 and 10, found 11");
  refused("generate tiny.toml --overwrite data.channels=5", "4 channels (redshifts), data.channels is 5; set it to 4");
  refused("generate tiny.toml --overwrite data.edge=12", "which data.edge = 12 does not divide; set that to 16");
  refused("train tiny.toml train.shards=2", "train.shards", 3);
  refused("train tiny.toml run.folder=tiny.toml", "tiny.toml");

  const std::string last = "data/train/1_univ_ics_2lpt_a00000002_007.hdf5";
  const std::string whole = text_of(folder_ / last);
  test::write_bytes(folder_ / last, whole.substr(0, whole.size() / 2));
  refused("train tiny.toml --check", last + " is truncated");
  Hdf5File::create((folder_ / last).string()).write<float>("cube", {1}, std::vector<float>(1));
  refused("train tiny.toml --check", last + " has no data set x; it holds /cube");
}

// Records do not say which parameters their labels stand for, HDF5 files do.
TEST_F(CosmoflowProgram, RangesMustBeThoseOfTheLabels) {
  ASSERT_EQ(run("generate tiny.toml").code, 0);
  ASSERT_EQ(run("generate tiny.toml generate.folder=records generate.format=tfrecord").code, 0);
  const std::string other = " 'data.omega_m=[0.25, 0.35]'";
  const std::string sentence =
      ".hdf5: its labels of Omega_m are scaled with [0.27, 0.33] (rangePar), but data.omega_m is [0.25, 0.35]; set "
      "data.omega_m = [0.27, 0.33]; evaluate and predict use the ranges of the run";
  expect_refused("train tiny.toml" + other, sentence);
  expect_refused("train tiny.toml data.omega_m=[0.3,0.3]",
                 "data.omega_m is [0.3, 0.3], a single value, so Omega_m cannot");
  EXPECT_EQ(run("train tiny.toml --check data.sigma_8=[0.72,0.88] data.h_0=[50,90]").code, 0);  // not to be predicted

  ASSERT_EQ(run("train tiny.toml run.name=wrong train.epochs=1 'data.train=[\"records/train/*\"]' "
                "'data.validation=[\"records/validation/*\"]' 'data.test=[\"records/test/*\"]'" +
                other)
                .code,
            0);
  expect_refused("evaluate runs/wrong 'data/test/*'", sentence);
  expect_refused("predict runs/wrong 'data/test/*' -o out.h5", sentence, {2});
  ASSERT_EQ(run("train tiny.toml run.name=right train.init=runs/wrong/checkpoint.h5 train.epochs=0").code, 0);
  EXPECT_EQ(run("evaluate runs/right 'data/test/*'").code, 0);
  EXPECT_EQ(checkpoint("right").weights[0].values, checkpoint("wrong").weights[0].values);
}

// The last file is not of the rank that looks into the first one.
TEST_F(CosmoflowProgram, DamagedRecordsAreNamed) {
  ASSERT_EQ(run("generate tiny.toml generate.format=tfrecord").code, 0);
  const std::string last = "data/train/1_univ_ics_2lpt_a00000002_007.tfrecord";
  const std::string path = (folder_ / last).string(), packed = text_of(path);
  const std::string where = last + ": record 0: ";
  const auto flipped = [](std::string bytes, std::size_t at) {
    bytes[at] = static_cast<char>(bytes[at] ^ 16);
    return bytes;
  };
  const std::string x(std::size_t{2} * 4 * 16 * 16 * 16, '\1');
  const auto record = [](const std::string& name, std::string_view cube, const std::vector<float>& labels) {
    return tfrecord(tf_example({{name, {{cube}, {}, {}}}, {"y", {{}, labels, {}}}}));
  };
  const std::vector<std::pair<std::string, std::string>> damages = {
      {record("3Dmap", x, {0, 0, 0, 0}), last + ": record 0 has no feature x; it holds 3Dmap, y"},
      {record("x", x.substr(2), {0, 0, 0, 0}), last + ": record 0: feature x has 32766 bytes, which is no cube"},
      {record("x", x.substr(0, 64), {0, 0, 0, 0}),
       last + ": the counts are (2, 2, 2, 4); they are (16, 16, 16, 4) in "},
      {record("x", x, {NAN, 0, 0, 0}), last + ": the label of Omega_m is nan"},
      {packed.substr(0, packed.size() / 2), last + ": record 0 is packed by gzip, but the file ends in the middle"},
      {flipped(read_inflated(path, path), 2), where + "the masked CRC-32C of its length is"},
      {flipped(packed, packed.size() / 2), last + ": record 0 is packed by gzip, but"}};
  for (const auto& [bytes, sentence] : damages) {
    test::write_bytes(path, bytes);
    expect_refused("train tiny.toml --check", sentence, {2});
  }
  // The last damage met in a training, by the loader of any rank.
  for (const int ranks : {1, 2}) {
    const Outcome outcome = run("train tiny.toml --overwrite", ranks);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_EQ(count(outcome.err, "cosmoflow: "), 1U) << outcome.err;
    EXPECT_NE(outcome.err.find(damages.back().second), std::string::npos) << outcome.err;
  }
}

// The four labels of the two published records, whole, by a narrow SC18 network.
TEST_F(CosmoflowProgram, LearnsPublishedRecordsByHeart) {
  const fs::path samples = fs::absolute(test::samples_folder() / "cosmoflow");
  if (!fs::exists(samples)) GTEST_SKIP() << "SKIPPED: no samples in " << samples;
  const std::string records = "[\"" + (samples / "*.tfrecord").string() + "\"]";
  std::ofstream(folder_ / "real.toml")
      << "[run]\nname = \"real\"\n[data]\ntrain = " << records << "\nvalidation = " << records
      << "\nchannels = 1\nscale = \"mean\"\n"
         "[model]\nkind = \"sc18\"\nfilters = [4, 8, 16, 16, 32, 32, 32]\nhidden = [64, 32]\ndropout = 0.0\n"
         "loss = \"mse\"\n[train]\nepochs = 30\nbatch = 2\nvalidate_epochs = 3\n"
         "[optimizer]\nname = \"adam\"\nlr = 2e-3\n[schedule]\nname = \"cosine\"\n"
         "[stop]\ntarget = 0.01\n[evaluate]\nbaseline_samples = 0\n";
  const Outcome train = run("train real.toml", 1, "timeout 300");  // 40 s on an idle machine
  ASSERT_EQ(train.code, 0) << train.err;
  EXPECT_NE(train.out.find("target 0.01 reached"), std::string::npos) << train.out;
  for (const char* files : {"*.tfrecord", "*.hdf5"}) {
    const Outcome evaluated = run("evaluate runs/real '" + (samples / files).string() + "' --json");
    ASSERT_EQ(evaluated.code, 0) << evaluated.err;
    EXPECT_LT(nlohmann::json::parse(evaluated.out)["single"][0]["mae"], 0.01) << files;
  }
}

}  // namespace
}  // namespace petaflow
