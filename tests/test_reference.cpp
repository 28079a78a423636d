// inputs/reference*.toml document every option of the code, and the other input files load.
#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "climate_detection/options.hpp"
#include "climate_segmentation/options.hpp"
#include "config/document.hpp"
#include "config/reference.hpp"
#include "cosmoflow/options.hpp"
#include "hep/options.hpp"
#include "kernels/conv.hpp"
#include "kernels/gemm.hpp"
#include "program/options.hpp"
#include "update/rule.hpp"

namespace petaflow {
namespace {

struct Keys {
  Keys() {
    declare(schema, common);
    hep::declare(schema, options);
  }
  CommonOptions common;
  hep::Options options;
  Schema schema;
};

TEST(Reference, HoldsEveryOptionWithItsDefault) {
  const Keys options;
  for (const std::string& sentence : compare_with_reference(options.schema, "inputs/reference.toml"))
    ADD_FAILURE() << sentence;
}

TEST(Reference, HoldsEveryOptionOfCosmoflow) {
  cosmoflow::Options options;
  Schema schema;
  cosmoflow::declare(schema, options);
  for (const std::string& sentence : compare_with_reference(schema, "inputs/reference_cosmoflow.toml"))
    ADD_FAILURE() << sentence;
}

TEST(Reference, HoldsEveryOptionOfTheClimateSegmentation) {
  climate_segmentation::Options options;
  Schema schema;
  climate_segmentation::declare(schema, options);
  for (const std::string& sentence : compare_with_reference(schema, "inputs/reference_climate_segmentation.toml"))
    ADD_FAILURE() << sentence;
}

TEST(Reference, HoldsEveryOptionOfTheClimateDetection) {
  climate_detection::Options options;
  Schema schema;
  climate_detection::declare(schema, options);
  for (const std::string& sentence : compare_with_reference(schema, "inputs/reference_climate_detection.toml"))
    ADD_FAILURE() << sentence;
}

TEST(Reference, NoticesAMissingKey) {
  Keys options;
  bool unknown = false;
  options.schema.add("train.unknown", unknown);
  EXPECT_EQ(compare_with_reference(options.schema, "inputs/reference.toml").size(), 1U);
}

/// What stands between quotes in a text.
std::set<std::string> words_in_quotes(const std::string& text) {
  std::set<std::string> words;
  for (std::size_t open = text.find('"'); open != text.npos; open = text.find('"', open + 1)) {
    const std::size_t word = open + 1;
    open = text.find('"', word);
    if (open == text.npos) break;
    words.insert(text.substr(word, open - word));
  }
  return words;
}

/// The words on the lines of each option that takes some words only, value and comment, and those that it takes.
struct Words {
  std::string option;
  std::set<std::string> said, taken;
};
std::vector<Words> words_of(const Schema& schema, const std::string& toml_file) {
  const std::string text = read_text_file(toml_file);
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  const std::vector<Entry> entries = parse_document(text, toml_file);
  std::vector<Words> result;
  for (const OptionInfo& option : schema.options()) {
    const auto entry = std::ranges::find(entries, option.name, &Entry::key);
    if (!option.constraint.starts_with("one of ") || entry == entries.end()) continue;
    std::string said;
    for (int line = entry->line; line <= entry->end_line; ++line) said += lines.at(static_cast<std::size_t>(line - 1));
    result.push_back({option.name, words_in_quotes(said), words_in_quotes(option.constraint)});
  }
  return result;
}

/// Options whose words are names of implementations, of which the reference gives examples.
bool takes_names(const std::string& option) { return option == "kernels.conv" || option == "kernels.gemm"; }

TEST(Reference, SaysTheWordsThatOptionsTake) {
  const Keys hep;
  cosmoflow::Options options;
  Schema cosmoflow;
  cosmoflow::declare(cosmoflow, options);
  std::vector<Words> all = words_of(hep.schema, "inputs/reference.toml");
  std::ranges::copy(words_of(cosmoflow, "inputs/reference_cosmoflow.toml"), std::back_inserter(all));
  climate_segmentation::Options climate_options;
  Schema climate;
  climate_segmentation::declare(climate, climate_options);
  std::ranges::copy(words_of(climate, "inputs/reference_climate_segmentation.toml"), std::back_inserter(all));
  climate_detection::Options detection_options;
  Schema detection;
  climate_detection::declare(detection, detection_options);
  std::ranges::copy(words_of(detection, "inputs/reference_climate_detection.toml"), std::back_inserter(all));
  EXPECT_GE(all.size(), 33U);
  for (const Words& words : all) {
    if (takes_names(words.option)) continue;
    EXPECT_EQ(words.said, words.taken) << words.option;
  }
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
  for (const Words& words : words_of(options.schema, "inputs/reference.toml")) {
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

TEST(Inputs, LoadAndAgreeWithTheirRanges) {
  for (const char* file : {"inputs/hep.toml", "inputs/hep_quick.toml", "inputs/hep_gfex.toml"}) {
    Keys options;
    EXPECT_NO_THROW(options.schema.load(file, {})) << file;
    EXPECT_NO_THROW(options.schema.drop_idle()) << file;
    EXPECT_NO_THROW(check(options.common)) << file;
  }
  for (const char* file : {"inputs/cosmoflow.toml", "inputs/cosmoflow_mlperf.toml", "inputs/cosmoflow_quick.toml"}) {
    CommonOptions common;
    cosmoflow::Options options;
    Schema schema;
    declare(schema, common);
    cosmoflow::declare(schema, options);
    EXPECT_NO_THROW(schema.load(file, {})) << file;
    EXPECT_NO_THROW(schema.drop_idle()) << file;
    EXPECT_NO_THROW(check(common)) << file;
  }
  for (const char* file : {"inputs/climate_detection.toml", "inputs/climate_detection_sc17.toml"}) {
    CommonOptions common;
    climate_detection::Options options;
    Schema schema;
    declare(schema, common);
    climate_detection::declare(schema, options);
    EXPECT_NO_THROW(schema.load(file, {})) << file;
    EXPECT_NO_THROW(schema.drop_idle()) << file;
    EXPECT_NO_THROW(check(common)) << file;
  }
  CommonOptions common;
  climate_segmentation::Options options;
  Schema schema;
  declare(schema, common);
  climate_segmentation::declare(schema, options);
  EXPECT_NO_THROW(schema.load("inputs/climate_small.toml", {}));
  EXPECT_NO_THROW(schema.drop_idle());
  EXPECT_NO_THROW(check(common));
}

}  // namespace
}  // namespace petaflow
