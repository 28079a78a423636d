// Twenty training steps of the HEP network from given weights and batches follow PyTorch's losses.
#include <cmath>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/element.hpp"
#include "io/checkpoint.hpp"
#include "io/hdf5.hpp"
#include "program.hpp"

namespace petaflow {
namespace {

// The formulas of tests/golden/make_training_golden.py.
constexpr std::int64_t kSamples = 40, kSize = 32, kFilters = 16;

std::vector<float> scattered(std::int64_t count, double factor, double amplitude, double offset = 0) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(i) * factor;
    values.push_back(static_cast<float>(offset + amplitude * (2 * (value - std::floor(value)) - 1)));
  }
  return values;
}

void write_images(const fs::path& path) {
  const std::int64_t pixels = 3 * kSize * kSize;
  std::vector<float> images = scattered(kSamples * pixels, 0.7548776662466927, 1, 1), labels;
  for (std::int64_t n = 0; n < kSamples; ++n) {
    labels.push_back(static_cast<float>(n % 2));
    for (std::int64_t i = 0; i < pixels; ++i) images[static_cast<std::size_t>(n * pixels + i)] *= 1 + labels.back();
  }
  auto file = Hdf5File::create(path);
  file.write<float>("data", {kSamples, 3, kSize, kSize}, images);
  file.write<float>("label", {kSamples}, labels, {Hdf5Type::kI32});
  file.write<float>("weight", {kSamples}, std::vector<float>(kSamples, 1.0F));
  file.write<float>("normweight", {kSamples}, std::vector<float>(kSamples, 1.0F));
  file.write<float>("psr", {kSamples}, std::vector<float>(kSamples, 0.0F), {Hdf5Type::kI32});
}

void write_weights(const fs::path& path) {
  Checkpoint checkpoint;
  int index = 0;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& dims) {
    std::int64_t count = 1;
    for (const std::int64_t dim : dims) count *= dim;
    const double amplitude = dims.size() > 1 ? std::sqrt(6.0 / static_cast<double>(count / dims[0])) : 0.05;
    checkpoint.weights.push_back({name, dims, scattered(count, 0.6180339887498949 + 0.01 * index++, amplitude)});
  };
  for (int layer = 1; layer <= 5; ++layer) {
    add(fmt::format("conv{}/weight", layer), {kFilters, layer == 1 ? 3 : kFilters, 3, 3});
    add(fmt::format("conv{}/bias", layer), {kFilters});
  }
  add("fc/weight", {2, kFilters});
  add("fc/bias", {2});
  save_checkpoint(path, checkpoint);
}

class Training : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    write_images(folder_ / "images.h5");
    write_weights(folder_ / "start.h5");
    std::ofstream(folder_ / "golden.toml")
        << "[data]\nformat = \"sc17\"\ntrain = [\"images.h5\"]\nheight = 32\nwidth = 32\nnormalise = \"none\"\n"
           "shuffle = false\n"
           "[model]\nfilters = [16, 16, 16, 16, 16]\ndropout = 0.0\n"
           "[train]\nsteps = 20\nbatch = 8\ninit = \"start.h5\"\n[log]\ninterval = 1\n";
    std::ifstream golden_file("tests/golden/training.json");
    golden = nlohmann::json::parse(golden_file);
  }

  /// Trains, and holds each step's loss to PyTorch's.
  /// @param tolerance  relative, of the first step and of those behind it, which amplify roundings
  void expect_losses(const std::string& name, const std::string& options, double first, double later) {
    const Outcome outcome = run(fmt::format("train golden.toml optimizer.name={} {} --overwrite", name, options));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    std::ifstream metrics(folder_ / "runs/golden/metrics.jsonl");
    std::string line;
    std::size_t step = 0;
    while (std::getline(metrics, line)) {
      const auto values = nlohmann::json::parse(line);
      if (!values.contains("loss")) continue;
      const double expected = golden[name][step++].get<double>(), tolerance = step == 1 ? first : later;
      EXPECT_NEAR(values["loss"].get<double>(), expected, tolerance * expected)
          << name << " " << options << " " << step;
    }
    EXPECT_EQ(step, 20U);
  }

  nlohmann::json golden;
};

TEST_F(Training, FollowsPyTorchForTwentySteps) {
  const std::pair<const char*, const char*> settings[] = {{"adam", "optimizer.lr=1e-3"},
                                                          {"sgd", "optimizer.lr=1e-2 optimizer.momentum=0.9"}};
  for (const auto& [name, keys] : settings) {
    for (const std::string conv : {"auto", "kokkos"}) {
      expect_losses(name, fmt::format("{} kernels.conv={}", keys, conv), 1e-4, 1e-4);
    }
  }
}

TEST_F(Training, FollowsPyTorchInFp16) {
  if (!kTakesFp16) GTEST_SKIP() << "SKIPPED: fp16 is for GPUs";
  expect_losses("adam", "optimizer.lr=1e-3 precision=fp16", 2e-4, 0.15);
  const auto performance = [&] {
    std::ifstream file(folder_ / "runs/golden/performance.json");
    return nlohmann::json::parse(file);
  };
  EXPECT_EQ(performance()["loss_scale"], 65536);
  EXPECT_EQ(performance()["skipped_steps"], 0);
  const Outcome outcome = run("train golden.toml precision=fp16 train.loss_scale=16777216 --overwrite");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(
      outcome.out.find("step 1: the gradient is not finite: no update; losses are multiplied by 8388608 from now"),
      std::string::npos)
      << outcome.out;
  EXPECT_GT(performance()["skipped_steps"], 0);
  EXPECT_LT(performance()["loss_scale"], 16777216);
}

}  // namespace
}  // namespace petaflow
