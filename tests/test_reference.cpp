// inputs/reference*.toml document every key of the code, and the other input files load.
#include <gtest/gtest.h>

#include "config/reference.hpp"
#include "cosmoflow/options.hpp"
#include "hep/options.hpp"
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

TEST(Reference, HoldsEveryKeyWithItsDefault) {
  const Keys keys;
  for (const std::string& sentence : compare_with_reference(keys.schema, "inputs/reference.toml"))
    ADD_FAILURE() << sentence;
}

TEST(Reference, HoldsEveryKeyOfCosmoflow) {
  cosmoflow::Options options;
  Schema schema;
  cosmoflow::declare(schema, options);
  for (const std::string& sentence : compare_with_reference(schema, "inputs/reference_cosmoflow.toml"))
    ADD_FAILURE() << sentence;
}

TEST(Reference, NoticesAMissingKey) {
  Keys keys;
  bool unknown = false;
  keys.schema.add("train.unknown", unknown);
  EXPECT_EQ(compare_with_reference(keys.schema, "inputs/reference.toml").size(), 1U);
}

TEST(Inputs, LoadAndAgreeWithTheirRanges) {
  for (const char* file : {"inputs/hep.toml", "inputs/hep_quick.toml", "inputs/hep_gfex.toml"}) {
    Keys keys;
    EXPECT_NO_THROW(keys.schema.load(file, {})) << file;
    EXPECT_NO_THROW(check(keys.common, 1)) << file;
  }
  for (const char* file : {"inputs/cosmoflow.toml", "inputs/cosmoflow_mlperf.toml", "inputs/cosmoflow_quick.toml"}) {
    CommonOptions common;
    cosmoflow::Options options;
    Schema schema;
    declare(schema, common);
    cosmoflow::declare(schema, options);
    EXPECT_NO_THROW(schema.load(file, {})) << file;
    EXPECT_NO_THROW(check(common, 1)) << file;
  }
}

}  // namespace
}  // namespace petaflow
