// inputs/reference.toml names the rules and implementations that there are, and every other input file is for an
// application, whose own tests compare its reference and load its inputs (application_inputs.hpp).
#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "application_inputs.hpp"
#include "config/reference.hpp"
#include "kernels/conv.hpp"
#include "kernels/gemm.hpp"
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

TEST(Reference, NamesTheRulesOfOptimizers) {
  const Keys options;
  const std::vector<Words> all = words_of(options.schema, kReference);
  const auto rules = std::ranges::find(all, "optimizer.name", &Words::option);
  ASSERT_NE(rules, all.end());
  const std::vector<std::string> names = rule_names();
  EXPECT_EQ(rules->said, std::set<std::string>(names.begin(), names.end()));
}

// The names themselves follow from the lists of implementations.
TEST(Reference, NamesImplementationsThatThereAre) {
  const Keys options;
  std::set<std::string> requests;  // words that are no implementation's name
  for (const auto& [word, request] : conv_requests()) {
    if (request.impl == nullptr) requests.insert(word);
  }
  int compared = 0;
  for (const Words& words : words_of(options.schema, kReference)) {
    if (!takes_names(words.option)) continue;
    ++compared;
    std::set<std::string> known = words.taken;
    for (const char* elsewhere : {"onednn", "winograd", "prefer:winograd"})
      known.insert(elsewhere);  // not in all builds
    EXPECT_TRUE(std::ranges::includes(known, words.said)) << words.option;
    EXPECT_TRUE(
        std::ranges::includes(words.said, words.option == "kernels.conv" ? requests : std::set<std::string>{"auto"}))
        << words.option;
  }
  EXPECT_EQ(compared, 2);
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
