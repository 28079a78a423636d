// Options for tests of input files, and how a fixture loads them.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "config/schema.hpp"

namespace petaflow::config_test {

struct Options {
  bool deterministic = false;
  int batch = 128;
  std::int64_t seed = 1;
  double rate = 1e-3;
  std::string optimizer = "adam", name = "run", precision = "f32";
  std::vector<std::string> train;
  std::vector<double> scale = {1, 0.5};
  std::vector<std::int64_t> crop = {-1};

  void declare(Schema& schema) {
    schema.add("train.batch", batch, at_least(1));
    schema.add("train.deterministic", deterministic);
    schema.add("train.seed", seed);
    schema.add("optimizer.lr", rate, positive());
    schema.add("optimizer.name", optimizer, one_of({"adam", "sgd"}));
    schema.add("run.name", name, not_empty());
    schema.add("data.train", train, not_empty());
    schema.add("data.augment.scale", scale, in_range(0, 1));
    schema.add("data.crop", crop);
    schema.add("precision", precision);
  }
};

class Config : public ::testing::Test {
 protected:
  Config() {
    char name[] = "/tmp/petaflow_config_XXXXXX";
    folder_ = mkdtemp(name);
    file_ = folder_ + "/hep.toml";
    options_.declare(schema_);
  }
  ~Config() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text) {
    std::ofstream(file_) << text;
    return file_;
  }
  // The message of the error, without the folder; "" where there is none.
  std::string error(const std::string& text, const std::vector<std::string>& overrides = {}) {
    return error_of(write(text), overrides);
  }
  std::string error_of(const std::string& file, const std::vector<std::string>& overrides) {
    try {
      schema_.load(file, overrides);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kUser);
      std::string message = e.what();
      for (auto at = message.find(folder_); at != message.npos; at = message.find(folder_)) {
        message.erase(at, folder_.size() + 1);
      }
      return message;
    }
    return "";
  }

  std::string folder_, file_;
  Options options_;
  Schema schema_;
};

}  // namespace petaflow::config_test
