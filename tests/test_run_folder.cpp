// What a run leaves behind, as a user finds it: manifest, events, trace, report, weights for PyTorch.
#include <cstring>
#include <set>

#include <nlohmann/json.hpp>

#include "program.hpp"

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

TEST_F(RunFolder, ATestSetThatDoesNotFitIsAWarning) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  ASSERT_EQ(run("generate small.toml generate.train=0 generate.validation=0 data.height=8 data.width=8 "
                "'data.test=[\"tiny.h5\"]'")
                .code,
            0);
  const Outcome train = run("train small.toml 'data.test=[\"tiny.h5\"]'", 2);
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_NE(train.err.find("warning: the report has no evaluation"), std::string::npos) << train.err;
  EXPECT_FALSE(fs::exists(folder_ / "runs/small/evaluation.json"));
  EXPECT_TRUE(fs::exists(folder_ / "runs/small/report.html"));
}

TEST_F(RunFolder, ReportsSeveralRunsAndRefusesWhatIsNone) {
  ASSERT_EQ(run("generate small.toml").code, 0);
  ASSERT_EQ(run("train small.toml").code, 0);
  ASSERT_EQ(run("train small.toml run.name=linear model.kind=linear").code, 0);
  const Outcome unnamed = run("report runs/small runs/linear");
  EXPECT_EQ(unnamed.code, 1);
  EXPECT_NE(unnamed.err.find("-o"), std::string::npos) << unnamed.err;
  ASSERT_EQ(run("report runs/small runs/linear -o both.html").code, 0);
  const std::string both = text_of(folder_ / "both.html");
  for (const char* word : {"2 runs of hep", "linear", "model.kind", "cut selection"}) {
    EXPECT_NE(both.find(word), std::string::npos) << word;
  }
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
  EXPECT_EQ(run("export runs/small -o w.safetensors --overwrite").code, 0);
  EXPECT_EQ(run("export runs/small -o w.onnx").code, 1);
  EXPECT_EQ(run("export runs/none -o n.safetensors").code, 1);
  EXPECT_EQ(run("export runs/small -o missing/w.safetensors").code, 1);
}

}  // namespace
}  // namespace petaflow
