// Contents of a run folder, as a user finds it: manifest, events, trace, report, weights for PyTorch.
#include <cstring>
#include <limits>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "program.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

class RunFolder : public Program {
 protected:
  nlohmann::json json_of(const std::string& file) const { return nlohmann::json::parse(text_of(folder_ / file)); }
  int event_files(const std::string& run) const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / run)) {
      count += entry.path().filename().string().starts_with("events.out.tfevents.") ? 1 : 0;
    }
    return count;
  }
};

TEST_F(RunFolder, HoldsManifestTraceEventsAndReport) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  // No text of any encoding: what the manifest keeps of the environment need not be one.
  const Outcome train = run("train small.toml train.seed=7", 2, "env OMP_TEXT=\xff timeout 120");
  ASSERT_EQ(train.code, 0) << train.err;

  const nlohmann::json manifest = json_of("runs/small/manifest.json");
  for (const char* key : {"commit", "version", "compiler", "flags", "time", "processor", "working_folder"}) {
    EXPECT_FALSE(manifest[key].get<std::string>().empty()) << key;
  }
  EXPECT_EQ(manifest["ranks"], 2);
  EXPECT_EQ(manifest["seed"], 7);
  EXPECT_EQ(manifest["overrides"], nlohmann::json({"train.seed=7"}));
  EXPECT_EQ(manifest["command_line"].back(), "train.seed=7");
  EXPECT_EQ(manifest["environment"]["OMP_NUM_THREADS"], "1");
  EXPECT_EQ(manifest["environment"]["OMP_TEXT"], "\xEF\xBF\xBD");
  for (const char* library : {"Kokkos", "MPI", "HDF5"}) EXPECT_TRUE(manifest["libraries"].contains(library)) << library;
  ASSERT_EQ(manifest["binding"].size(), 2U);
  EXPECT_EQ(manifest["binding"][1]["rank"], 1);
  EXPECT_FALSE(manifest["binding"][1]["cores"].get<std::string>().empty());
  EXPECT_EQ(manifest["data"]["train"][0]["size_bytes"], fs::file_size(folder_ / "train.h5"));

#ifndef PETAFLOW_GUARDED  // the guard is a Kokkos tool, beside which no trace is recorded
  const nlohmann::json trace = json_of("runs/small/trace.json");
  std::set<std::string> steps, names;
  for (const nlohmann::json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    EXPECT_GE(event["dur"].get<double>(), 0);
    if (event["cat"] == "step") steps.insert(event["name"]);
    names.insert(event["cat"].get<std::string>() + " " + event["name"].get<std::string>().substr(0, 24));
  }
  EXPECT_EQ(steps, (std::set<std::string>{"step 2", "step 3", "step 4"}));
  EXPECT_TRUE(names.contains("region petaflow::conv1::forward"));
  EXPECT_TRUE(names.contains("kernel petaflow::conv1::forward"));
#endif

  EXPECT_EQ(event_files("runs/small"), 1);
  EXPECT_EQ(json_of("runs/small/performance.json")["last_step"], 12);
  EXPECT_EQ(json_of("runs/small/evaluation.json")["set"], "data.test");
  const std::string report = text_of(folder_ / "runs/small/report.html");
  for (const char* word : {"</html>", "area under ROC", "data:image/png", "the test set", "finished after 12 steps"}) {
    EXPECT_NE(report.find(word), std::string::npos) << word;
  }
  EXPECT_LT(report.size(), 3U << 20);

  fs::remove(folder_ / "runs/small/report.html");
  ASSERT_EQ(run("report runs/small").code, 0);
  EXPECT_EQ(text_of(folder_ / "runs/small/report.html"), report);

  // The same folder again: nothing of the old run stays.  Without a test set, without a trace.
  ASSERT_EQ(run("train small.toml --overwrite log.trace_steps=0 'data.test=[]'").code, 0);
  EXPECT_EQ(event_files("runs/small"), 1);
  EXPECT_FALSE(fs::exists(folder_ / "runs/small/trace.json"));
  EXPECT_EQ(json_of("runs/small/evaluation.json")["set"], "data.validation");
}

TEST_F(RunFolder, OneClassAloneHasNoCurves) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string only = " 'data.test=[\"signal.h5\"]'";
  ASSERT_EQ(run("generate small.toml generate.train=0 generate.validation=0 generate.signal_fraction=1.0" + only).code,
            0);
  const Outcome train = run("train small.toml" + only);
  EXPECT_EQ(train.code, 0) << train.err;
  const std::string report = text_of(folder_ / "runs/small/report.html");
  EXPECT_NE(report.find("typical signal"), std::string::npos);
  EXPECT_EQ(report.find("typical background"), std::string::npos);
  EXPECT_EQ(report.find("background rejection"), std::string::npos);
}

TEST_F(RunFolder, OneClassToValidateOnHasNoAreaUnderTheCurve) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  const std::string only = " 'data.validation=[\"signal.h5\"]'";
  ASSERT_EQ(run("generate small.toml generate.train=0 generate.test=0 generate.signal_fraction=1.0" + only).code, 0);
  for (const std::string stop : {" stop.patience=2", " stop.target=0.9 stop.metric=auc"}) {
    const Outcome refused = run("train small.toml" + only + stop, 2);
    EXPECT_EQ(refused.code, 1) << stop;
    EXPECT_NE(refused.err.find("auc, which has no value on data.validation: no background events"), std::string::npos)
        << refused.err;
    EXPECT_FALSE(fs::exists(folder_ / "runs")) << stop;
  }
  const Outcome train = run("train small.toml" + only, 2);
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_NE(train.out.find("; no auc: no background events"), std::string::npos) << train.out;
  EXPECT_EQ(run("train small.toml --overwrite stop.metric=accuracy stop.patience=9" + only).code, 0);
}

TEST_F(RunFolder, SaysThatPatienceEndedIt) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  ASSERT_EQ(run("train small.toml train.epochs=9 optimizer.lr=0 stop.metric=loss stop.patience=1").code, 0);
  const std::string report = text_of(folder_ / "runs/small/report.html");
  EXPECT_NE(report.find("stopped improving and ended after 12 steps"), std::string::npos);
}

TEST_F(RunFolder, ATestSetThatDoesNotFitIsRefusedBeforeTheTraining) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  ASSERT_EQ(run("generate small.toml generate.train=0 generate.validation=0 data.height=8 data.width=8 "
                "'data.test=[\"tiny.h5\"]'")
                .code,
            0);
  expect_refused("train small.toml data.test=tiny.h5",
                 "the samples of data.test (tiny.h5) are 3x8x8, but the input file describes a network for 3x16x16");
}

TEST_F(RunFolder, CheckSaysWhatTheTrainingWillMeet) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  ASSERT_EQ(run("train small.toml train.steps=1").code, 0);
  const Outcome exists = run("train small.toml --check train.epochs=1 schedule.warmup_epochs=1.0");
  EXPECT_EQ(exists.code, 0);
  EXPECT_HOLDS(exists.out, "everything is in order; nothing was written");
  EXPECT_HOLDS(exists.out, " for weights and a micro-batch of 16 samples with its gradient, ");
  EXPECT_HOLDS(exists.out, " for the optimizer, ");
  const std::string lagged = run("train small.toml --check run.name=lagged update.lag=1").out;
  EXPECT_HOLDS(lagged, " for weights and a micro-batch of 16 samples, ");
  EXPECT_HOLDS(lagged, " for gradients and optimizer, ");
  EXPECT_HOLDS(exists.err, "warning: runs/small exists: the training will want another run.name, --resume");
  EXPECT_HOLDS(exists.err, "warning: the learning rate rises for 6 steps, but the run has 6: it does not reach");
  EXPECT_HOLDS(run("train small.toml --check run.name=still optimizer.lr=0").err, "the weights stay as they are");
  // What costs nothing to see is said before files are read.
  expect_refused("train small.toml --check model.filters=[] data.train=none.h5", "model.filters is empty", {1});
  expect_refused("train small.toml --check train.batch=9000 data.test=none.h5", "train.batch is 9000, but", {1});
  expect_refused("train small.toml --check run.folder=" + std::string(300, 'n'), "cannot make the run folder nnn");
}

TEST_F(RunFolder, ReportsAreWrittenWhereNothingElseIs) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  ASSERT_EQ(run("train small.toml train.steps=1").code, 0);
  expect_refused("report runs/small -o train.h5", "name a file that ends in .html instead of train.h5");
  EXPECT_EQ(run("report runs/small -o new/page.html").code, 0);
  expect_refused("report runs/small -o new/page.html", "new/page.html exists; choose another name, or --overwrite");
  EXPECT_EQ(run("report runs/small -o new/page.html --overwrite").code, 0);
  EXPECT_EQ(run("report runs/small").code, 0);
  nlohmann::json manifest = nlohmann::json::parse(text_of(folder_ / "runs/small/manifest.json"));
  manifest["application"] = "cosmoflow";
  std::ofstream(folder_ / "runs/small/manifest.json") << manifest;
  expect_refused("report runs/small", "runs/small is a run of cosmoflow, whose own report shows its results");
  EXPECT_EQ(run("report runs/small runs/small").code, 0);  // a table names metrics of any application
}

TEST_F(RunFolder, AnEvaluationThatFailsIsNoSuccess) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  {
    Hdf5File file = Hdf5File::create((folder_ / "nan.h5").string());
    std::vector<float> images(4 * 16 * 16, 1.0F);
    for (const char* name : {"histtrack", "histEM", "hist"}) {
      if (std::string(name) == "hist") images[600] = std::numeric_limits<float>::quiet_NaN();
      file.write<float>(std::string("all_events/") + name, {4, 16, 16}, images);
    }
    file.write<float>("all_events/y", {4}, std::vector<float>{0, 1, 0, 1});
    file.close();
  }
  expect_refused("train small.toml --check data.test=nan.h5", "nan.h5: event 2 has the value nan");
  expect_refused("train small.toml --check data.validation=nan.h5", "nan.h5: event 2 has the value nan");
  const Outcome train = run("train small.toml data.test=nan.h5", 2);
  EXPECT_EQ(train.code, 1) << train.err;
  EXPECT_EQ(count(train.err, "the network is trained, but its evaluation failed: "), 1U) << train.err;
  EXPECT_FALSE(fs::exists(folder_ / "runs/small/evaluation.json"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/small/report.html"));
  const Outcome again = run("train small.toml data.test=nan.h5 --resume");
  EXPECT_EQ(again.code, 1);
  EXPECT_HOLDS(again.err, "the network is trained, but its evaluation failed: ");
  const Outcome mended = run("train small.toml --resume resume.accept_changes=true");
  EXPECT_EQ(mended.code, 0) << mended.err;
  EXPECT_HOLDS(mended.out, "nothing is left to train after ");
  EXPECT_TRUE(fs::exists(folder_ / "runs/small/evaluation.json"));
}

TEST_F(RunFolder, BelongsToOneRun) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  std::system(("cd " + folder_.string() + " && OMP_NUM_THREADS=1 " + program_.string() +
               " train small.toml train.steps=100000000 >first.txt 2>&1 & echo $! >" + (folder_ / "pid").string())
                  .c_str());
  for (int i = 0; i < 600 && !fs::exists(folder_ / "runs/small/metrics.jsonl"); ++i) usleep(100'000);
  const std::string pid = std::to_string(std::stol(text_of(folder_ / "pid")));
  const std::set<fs::path> before = files();
  for (const char* how : {"--overwrite", "--resume"}) {
    const Outcome second = run(std::string("train small.toml ") + how);
    EXPECT_EQ(second.code, 1) << how;
    EXPECT_NE(second.err.find("runs/small is being written by process " + pid + " on "), std::string::npos)
        << second.err;
  }
  EXPECT_EQ(run("train small.toml --check --overwrite").code, 0);  // writes nothing
  std::system(("kill -9 " + pid + "; while kill -0 " + pid + " 2>/dev/null; do sleep 0.1; done").c_str());
  EXPECT_EQ(run("train small.toml --overwrite train.steps=1").code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "runs/small/lock"));
}

TEST_F(RunFolder, ReportsSeveralRunsAndRefusesWhatIsNone) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  ASSERT_EQ(run("train small.toml").code, 0);
  ASSERT_EQ(run("train small.toml run.name=linear model.kind=linear").code, 0);
  const Outcome unnamed = run("report runs/small runs/linear");
  EXPECT_EQ(unnamed.code, 0);
  for (const char* word : {"run ", "auc", "accuracy", "samples/s", "small ", "linear ", "-o FILE.html"}) {
    EXPECT_NE(unnamed.out.find(word), std::string::npos) << word << "\n" << unnamed.out;
  }
  ASSERT_EQ(run("report runs/small runs/linear -o both.html").code, 0);
  const std::string both = text_of(folder_ / "both.html");
  for (const char* word : {"2 runs of hep", "linear", "model.kind", "cut selection"}) {
    EXPECT_NE(both.find(word), std::string::npos) << word;
  }
  // What runs/* names beside runs is passed over.
  std::ofstream(folder_ / "runs/page.html") << "a page";
  const Outcome all = run("report runs/*");
  EXPECT_EQ(all.code, 0) << all.err;
  EXPECT_EQ(count(all.out, "runs/page.html is not the folder of a run: left out"), 1U) << all.out;
  EXPECT_NE(all.out.find("linear "), std::string::npos) << all.out;
  expect_refused("report runs/page.html", "runs/page.html is not the folder of a run", {1});
  expect_refused("report runs/page.html runs", "none of runs/page.html and 1 more is the folder of a run", {1});
  EXPECT_EQ(run("report runs/none").code, 1);
  EXPECT_EQ(run("report runs").code, 1);
}

TEST_F(RunFolder, ExportsWeightsAndRefusesWhatItCannot) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  ASSERT_EQ(run("train small.toml train.epochs=1").code, 0);
  ASSERT_EQ(run("export runs/small -o w.safetensors").code, 0);
  const std::string bytes = text_of(folder_ / "w.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
  EXPECT_EQ(header["conv1.weight"]["shape"], nlohmann::json({4, 3, 3, 3}));
  EXPECT_EQ(header["fc.bias"]["shape"], nlohmann::json({2}));
  EXPECT_EQ(header["__metadata__"]["application"], "hep");
  EXPECT_EQ(run("export runs/small -o w.safetensors").code, 1);  // exists
  ASSERT_EQ(run("train small.toml run.name=again train.init=w.safetensors train.epochs=0", 2).code, 0);
  EXPECT_EQ(load_checkpoint((folder_ / "runs/again/checkpoint.h5").string()).weights.at(0).values,
            load_checkpoint((folder_ / "runs/small/checkpoint.h5").string()).weights.at(0).values);
  EXPECT_EQ(run("export runs/small -o w.safetensors --overwrite").code, 0);
  EXPECT_FALSE(fs::exists(folder_ / "w.py"));
  const Outcome twin = run("export runs/small -o twin.safetensors --pytorch");
  ASSERT_EQ(twin.code, 0) << twin.err;
  EXPECT_NE(twin.out.find("wrote the network for PyTorch to twin.py"), std::string::npos) << twin.out;
  const std::string network = text_of(folder_ / "twin.py");
  for (const char* words : {"The network of runs/small, a run of petaflow's hep.", "self.fc = nn.Linear(4, 2)",
                            "Takes (N, 3, 16, 16), gives (N, 2).", "with_name(\"twin.safetensors\")"}) {
    EXPECT_EQ(count(network, words), 1U) << words << "\n" << network;
  }
  fs::remove(folder_ / "twin.safetensors");
  expect_refused("export runs/small -o twin.safetensors --pytorch", "twin.py exists");
  EXPECT_FALSE(fs::exists(folder_ / "twin.safetensors"));
  EXPECT_EQ(run("export runs/small -o w.onnx").code, 1);
  EXPECT_EQ(run("export runs/none -o n.safetensors").code, 1);
  EXPECT_EQ(run("export runs/small -o made/w.safetensors").code, 0);
  expect_refused("export runs/small -o my-net.safetensors --pytorch", "my-net.py, which Python cannot import");
  expect_refused("export runs/small -o torch.safetensors --pytorch", "would hide Python's own torch");
}

}  // namespace
}  // namespace petaflow
