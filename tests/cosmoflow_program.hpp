// The cosmoflow program with an input of a few small universes.
#pragma once

#include <fstream>
#include <string>

#include "io/checkpoint.hpp"
#include "program.hpp"

namespace petaflow {

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
  void expect_same_end(const std::string& a, const std::string& b) const {
    const Checkpoint first = checkpoint(a), second = checkpoint(b);
    ASSERT_EQ(first.weights.size(), second.weights.size());
    for (std::size_t i = 0; i < first.weights.size(); ++i) {
      EXPECT_EQ(first.weights[i].values, second.weights[i].values) << first.weights[i].name;
    }
    ASSERT_EQ(first.training_arrays.size(), second.training_arrays.size());
    for (std::size_t i = 0; i < first.training_arrays.size(); ++i) {
      EXPECT_EQ(first.training_arrays[i].values, second.training_arrays[i].values) << first.training_arrays[i].name;
    }
  }
};

}  // namespace petaflow
