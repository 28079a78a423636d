// inputs/reference*.toml document every option of the code, and the other input files load.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "config/document.hpp"
#include "config/reference.hpp"
#include "cosmoflow/options.hpp"
#include "hep/options.hpp"
#include "kernels/conv.hpp"
#include "kernels/gemm.hpp"
#include "program/options.hpp"

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

TEST(Reference, NoticesAMissingKey) {
  Keys options;
  bool unknown = false;
  options.schema.add("train.unknown", unknown);
  EXPECT_EQ(compare_with_reference(options.schema, "inputs/reference.toml").size(), 1U);
}

// The reference gives examples of names; the names themselves follow from the lists of implementations.
TEST(Reference, NamesImplementationsThatThereAre) {
  const std::string text = read_text_file("inputs/reference.toml");
  const std::vector<std::string> elsewhere = {"onednn", "winograd"};  // not in every build
  const auto expect_known = [&](const std::string& option, std::vector<std::string> known) {
    known.insert(known.end(), elsewhere.begin(), elsewhere.end());
    const std::size_t begin = text.find("\n" + option + " = "), end = text.find('\n', begin + 1);
    const std::string line = text.substr(begin, end - begin);
    for (std::size_t at = line.find('"'); at != std::string::npos; at = line.find('"', at + 1)) {
      const std::size_t word = at + 1;
      at = line.find('"', word);
      ASSERT_NE(at, std::string::npos) << line;
      std::string name = line.substr(word, at - word);
      if (name.starts_with("prefer:")) name = name.substr(7);
      EXPECT_NE(std::ranges::find(known, name), known.end()) << option << " = " << name;
    }
  };
  std::vector<std::string> convs, gemms;
  for (const auto& [word, request] : conv_requests()) convs.push_back(word);
  for (const auto& [word, impl] : gemm_requests()) gemms.push_back(word);
  expect_known("conv", convs);
  expect_known("gemm", gemms);
}

TEST(Inputs, LoadAndAgreeWithTheirRanges) {
  for (const char* file : {"inputs/hep.toml", "inputs/hep_quick.toml", "inputs/hep_gfex.toml"}) {
    Keys options;
    EXPECT_NO_THROW(options.schema.load(file, {})) << file;
    EXPECT_NO_THROW(check(options.common)) << file;
  }
  for (const char* file : {"inputs/cosmoflow.toml", "inputs/cosmoflow_mlperf.toml", "inputs/cosmoflow_quick.toml"}) {
    CommonOptions common;
    cosmoflow::Options options;
    Schema schema;
    declare(schema, common);
    cosmoflow::declare(schema, options);
    EXPECT_NO_THROW(schema.load(file, {})) << file;
    EXPECT_NO_THROW(check(common)) << file;
  }
}

}  // namespace
}  // namespace petaflow
