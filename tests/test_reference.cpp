// inputs/reference.toml documents every key of the code, and the other input files load.
#include <gtest/gtest.h>

#include "config/reference.hpp"
#include "hep/options.hpp"
#include "train/options.hpp"

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
}

}  // namespace
}  // namespace petaflow
