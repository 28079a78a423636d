// inputs/reference.toml names implementations and rules that there are, and every other input file is for an
// application, whose own tests compare its reference and load its inputs (application_inputs.hpp).
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "application_inputs.hpp"
#include "config/reference.hpp"
#include "program/options.hpp"
#include "update/rule.hpp"

namespace petaflow {
namespace {

constexpr const char* kReference = "inputs/reference.toml";

struct Keys {
  Keys() { declare(schema, common); }
  CommonOptions common;
  Schema schema;
};

TEST(Reference, NoticesAMissingKey) {
  Keys options;
  const std::size_t of_an_application = compare_with_reference(options.schema, kReference).size();
  bool unknown = false;
  options.schema.add("train.unknown", unknown);
  EXPECT_EQ(compare_with_reference(options.schema, kReference).size(), of_an_application + 1);
}

// A new implementation or rule needs no edit of the reference.
TEST(Reference, NamesImplementationsThatThereAre) {
  const Keys options;
  const auto named = options_of_names();
  std::size_t compared = 0;
  for (const Words& words : words_of(options.schema, kReference)) {
    if (!named.contains(words.option)) continue;
    ++compared;
    std::set<std::string> known = words.taken;
    for (const char* elsewhere : {"onednn", "winograd", "prefer:winograd"})
      known.insert(elsewhere);  // not in all builds
    EXPECT_TRUE(std::ranges::includes(known, words.said)) << words.option;
    EXPECT_TRUE(std::ranges::includes(words.said, named.at(words.option))) << words.option;
  }
  EXPECT_EQ(compared, named.size());
}

TEST(Inputs, MaySetOptionsOfTheirOptimizerAlone) {
  const std::map<std::string, std::string> values = {
      {"momentum", "0.5"}, {"nesterov", "true"}, {"beta1", "0.5"}, {"beta2", "0.5"}, {"epsilon", "1e-3"}};
  for (const std::string& name : rule_names()) {
    const std::vector<const char*> used = make_rule({.name = name})->options();
    for (const auto& [option, value] : values) {
      Keys keys;
      keys.schema.load("", std::vector{"optimizer.name=" + name, "optimizer." + option + "=" + value});
      const std::string message = "optimizer." + option + " of " + name;
      if (std::ranges::find(used, option) != used.end()) {
        EXPECT_NO_THROW(keys.schema.drop_idle()) << message;
      } else {
        EXPECT_THROW(keys.schema.drop_idle(), Error) << message;
      }
    }
  }
}

TEST(Inputs, AreForApplicationsThatThereAre) {
  for (const std::string& file : input_files()) {
    const std::string application = application_of(file);
    EXPECT_FALSE(application.empty()) << file;
    EXPECT_TRUE(std::filesystem::exists("apps/" + application + "/main.cpp")) << file << ": " << application;
  }
}

}  // namespace
}  // namespace petaflow
