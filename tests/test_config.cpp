// Keys, input files, overrides and the reference comparison.
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "config/reference.hpp"
#include "config/schema.hpp"
#include "config_fixture.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using config_test::Config, config_test::Options;

const std::string kEveryType = R"(precision = 'bf16'
[train]
batch = 8
deterministic = true
seed = 9_000_000_000
[optimizer]
lr = 2e-3
name = "sgd"
[run]
name = "a \"b\"\\\n\t\u0001é"
[data]
train = ['a.h5', "b*.h5"]
crop = [1,
        -2]
augment.scale = [0, 0.25, 1e-5]
)";

TEST_F(Config, ReadsEveryType) {
  schema_.load(write(kEveryType));
  EXPECT_EQ(options_.precision, "bf16");
  EXPECT_EQ(options_.batch, 8);
  EXPECT_TRUE(options_.deterministic);
  EXPECT_EQ(options_.seed, 9'000'000'000);
  EXPECT_EQ(options_.rate, 2e-3);
  EXPECT_EQ(options_.optimizer, "sgd");
  EXPECT_EQ(options_.name, "a \"b\"\\\n\t\x01é");
  EXPECT_EQ(options_.train, (std::vector<std::string>{"a.h5", "b*.h5"}));
  EXPECT_EQ(options_.crop, (std::vector<std::int64_t>{1, -2}));
  EXPECT_EQ(options_.scale, (std::vector<double>{0, 0.25, 1e-5}));
}

TEST_F(Config, DefaultsStayWhereNothingIsSaid) {
  schema_.load("");
  schema_.load(write("# nothing\n[train]\n[data.augment]\n"));
  EXPECT_EQ(options_.batch, 128);
  EXPECT_EQ(options_.scale, (std::vector<double>{1, 0.5}));
}

TEST_F(Config, AnIntegerIsAcceptedForANumber) {
  schema_.load(write("optimizer.lr = 2\n"));
  EXPECT_EQ(options_.rate, 2.0);
}

TEST_F(Config, ResolvedParsesBackIdentically) {
  schema_.load(write(kEveryType),
               std::vector<std::string>{"optimizer.lr=0.30000000000000004", "train.seed=-9223372036854775808"});
  const std::string text = schema_.resolved();
  Options options;
  Schema schema;
  options.declare(schema);
  schema.load(write(text));
  EXPECT_EQ(schema.resolved(), text);
  EXPECT_EQ(options.name, options_.name);
  EXPECT_EQ(options.rate, 0.1 + 0.2);
  EXPECT_EQ(options.seed, options_.seed);
  EXPECT_EQ(options.scale, options_.scale);
  EXPECT_EQ(options.train, options_.train);
}

TEST_F(Config, ResolvedIsGroupedByTable) {
  EXPECT_EQ(schema_.resolved(), R"(precision = "f32"

[train]
batch = 128
deterministic = false
seed = 1

[optimizer]
lr = 0.001
name = "adam"

[run]
name = "run"

[data]
train = []
crop = [-1]

[data.augment]
scale = [1.0, 0.5]
)");
}

TEST_F(Config, Overrides) {
  const std::vector<std::string> overrides = {"optimizer.lr=2e-3", "run.name=abc",   "data.train=[\"a.h5\",\"b*.h5\"]",
                                              "train.batch = 4",   "train.batch=16", "train.deterministic=true",
                                              "data.crop=[3]",     "precision=",     "optimizer.name=\"sgd\""};
  schema_.load(write("train.batch = 2\n"), overrides);
  EXPECT_EQ(options_.rate, 2e-3);
  EXPECT_EQ(options_.name, "abc");
  EXPECT_EQ(options_.train, (std::vector<std::string>{"a.h5", "b*.h5"}));
  EXPECT_EQ(options_.batch, 16);
  EXPECT_TRUE(options_.deterministic);
  EXPECT_EQ(options_.crop, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(options_.precision, "");
  EXPECT_EQ(options_.optimizer, "sgd");
}

TEST_F(Config, BareTextOfAnOverrideIsAString) {
  for (const std::string text : {"2024-05-01", "true", "12", "a b", "x=y", "/data/*.h5", "a\"b"}) {
    schema_.load("", std::vector<std::string>{"run.name=" + text, "data.train=" + text});
    EXPECT_EQ(options_.name, text);
    EXPECT_EQ(options_.train, std::vector<std::string>{text});
  }
  schema_.load("", std::vector<std::string>{"data.train=\"c.h5\""});
  EXPECT_EQ(options_.train, std::vector<std::string>{"c.h5"});
}

TEST_F(Config, OutOfRange) {
  EXPECT_EQ(error("\n[train]\nbatch = -3\n"), "hep.toml:3: train.batch must be at least 1, found -3");
  EXPECT_EQ(error("optimizer.lr = 0\n"), "hep.toml:1: optimizer.lr must be greater than 0, found 0.0");
  EXPECT_EQ(error("optimizer.lr = nan\n"), "hep.toml:1: optimizer.lr must be finite, found nan");
  EXPECT_EQ(error("optimizer.lr = inf\n"), "hep.toml:1: optimizer.lr must be finite, found inf");
  EXPECT_EQ(error("optimizer.name = 'adamw'"),
            "hep.toml:1: optimizer.name must be one of \"adam\", \"sgd\", found \"adamw\"");
  EXPECT_EQ(error("run.name = ''"), "hep.toml:1: run.name must be not empty, found \"\"");
  EXPECT_EQ(error("data.augment.scale = [\n0.5,\n1.5]"),
            "hep.toml:1: data.augment.scale[1] must be between 0 and 1, found 1.5");
  EXPECT_EQ(error("train.batch = 3_000_000_000"),
            "hep.toml:1: train.batch must be an integer of 32 bits, found the integer 3000000000");
  EXPECT_EQ(error("", {"train.batch=0"}), "command line: train.batch must be at least 1, found 0");
}

TEST_F(Config, WrongType) {
  EXPECT_EQ(error("train.batch = 8.0"), "hep.toml:1: train.batch must be an integer, found the number 8.0");
  EXPECT_EQ(error("train.batch = '8'"), "hep.toml:1: train.batch must be an integer, found the string \"8\"");
  EXPECT_EQ(error("train.batch = [8]"), "hep.toml:1: train.batch must be an integer, found a list of 1");
  EXPECT_EQ(error("train.batch = 2024-05-01"), "hep.toml:1: train.batch must be an integer, found a date or time");
  EXPECT_EQ(error("train.batch = {}"), "hep.toml:1: train.batch must be an integer, found a table");
  EXPECT_EQ(error("train.deterministic = 1"),
            "hep.toml:1: train.deterministic must be a boolean (true or false), found the integer 1");
  EXPECT_EQ(error("optimizer.lr = true"), "hep.toml:1: optimizer.lr must be a number, found the boolean true");
  EXPECT_EQ(error("data.train = 'a.h5'"),
            "hep.toml:1: data.train must be a list of strings, found the string \"a.h5\"");
  EXPECT_EQ(error("data.train = ['a.h5', 3]"), "hep.toml:1: data.train[1] must be a string, found the integer 3");
  EXPECT_EQ(error("data.crop = [[1]]"), "hep.toml:1: data.crop[0] must be an integer, found a list");
  EXPECT_EQ(error("train = 3"), "hep.toml:1: train must be a table of options, found the integer 3");
  EXPECT_EQ(error("", {"train.batch=abc"}), "command line: train.batch must be an integer, found the string \"abc\"");
  EXPECT_EQ(error("", {"train.batch="}), "command line: train.batch must be an integer, found the string \"\"");
  EXPECT_EQ(error("", {"train.batch=1\ntrain.seed=2"}),
            "command line: train.batch must be an integer, found the string \"1\\ntrain.seed=2\"");
  EXPECT_EQ(error("", {"run.name=[1]"}), "command line: run.name must be a string, found a list of 1");
}

TEST_F(Config, UnknownOptionNamesTheNearest) {
  const auto unknown = [](const std::string& option, const std::string& nearest) {
    return "hep.toml:1: unknown option " + option + "; the nearest is " + nearest;
  };
  EXPECT_EQ(error("train.bach = 3"), unknown("train.bach", "train.batch"));
  EXPECT_EQ(error("train.batch_size = 3"), unknown("train.batch_size", "train.batch"));
  EXPECT_EQ(error("train.lr = 3"), unknown("train.lr", "optimizer.lr"));
  EXPECT_EQ(error("trian.batch = 3"), unknown("trian.batch", "train.batch"));
  EXPECT_EQ(error("bacth = 3"), unknown("bacth", "train.batch"));
  EXPECT_EQ(error("optimizerlr = 3"), unknown("optimizerlr", "optimizer.lr"));
  EXPECT_EQ(error("data.name = 'x'"), unknown("data.name", "run.name"));
  EXPECT_EQ(error("train.batch.size = 3"), unknown("train.batch.size", "train.batch"));
  EXPECT_EQ(error("[trian]"), "hep.toml:1: unknown table trian; the nearest is train");
  EXPECT_EQ(error("", {"optimiser.lr=1"}), "command line: unknown option optimiser.lr; the nearest is optimizer.lr");
  EXPECT_EQ(error("", {"train=1"}), "command line: train must be a table of options");
  // The first line decides, not the alphabet.
  EXPECT_EQ(error("train.bach = 3\ndata.foo = 1"), unknown("train.bach", "train.batch") + "; 1 more option is unknown");
}

TEST_F(Config, SeveralUnknownOptionsMayBeThoseOfAnotherApplication) {
  std::string application = "hep";
  schema_.add("application", application, is_application("hep"));
  const std::string unknown = "unknown option train.bach; the nearest is train.batch; 1 more option is unknown",
                    other =
                        "; this may be an input of another application: it has no line application = \"...\" that "
                        "says for which";
  EXPECT_EQ(error("train.bach = 3\ndata.foo = 1"), "hep.toml:1: " + unknown + other);
  EXPECT_EQ(error("application = 'hep'\ntrain.bach = 3\ndata.foo = 1"), "hep.toml:2: " + unknown);
  EXPECT_EQ(error("train.bach = 3"), "hep.toml:1: unknown option train.bach; the nearest is train.batch");
}

TEST_F(Config, ATextIsNamedWhereItIsRefused) {
  schema_.load_text("[train]\nbatch = 3\n\n[run]\nname = \"a = [1]\"\n", "kept.h5");
  EXPECT_EQ(options_.batch, 3);
  EXPECT_EQ(options_.name, "a = [1]");
  const auto refused = [&](const std::string& text) {
    try {
      schema_.load_text(text, "kept.h5");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing thrown");
  };
  EXPECT_EQ(refused("train.batch = 0"), "kept.h5: train.batch must be at least 1, found 0");
  EXPECT_EQ(refused("train.omega_m = 0"),
            "kept.h5: unknown option train.omega_m; those of [train] are batch, deterministic, seed");
}

TEST_F(Config, UnknownOptionWithoutANearOneNamesThoseOfItsTable) {
  EXPECT_EQ(error("data.omega_m = 3"),
            "hep.toml:1: unknown option data.omega_m; those of [data] are train, augment.scale, crop");
  EXPECT_EQ(error("\n\n[[files]]\nx = 1"),
            "hep.toml:3: unknown option files; there are tables train, optimizer, run, data");
  EXPECT_EQ(error("[files]"), "hep.toml:1: unknown table files; there are tables train, optimizer, run, data");
}

TEST_F(Config, NumbersThatNoTypeHolds) {
  const std::string rate = "1e400 is too large: a number is at most 1.797e308 in size";
  EXPECT_EQ(error("", {"optimizer.lr=1e400"}), "command line: optimizer.lr: " + rate);
  EXPECT_EQ(error("", {"optimizer.lr=-1e400"}), "command line: optimizer.lr: " + rate);
  EXPECT_EQ(error("", {"data.augment.scale=[1e400]"}), "command line: data.augment.scale: " + rate);
  EXPECT_EQ(error("\noptimizer.lr = 1e400"), "hep.toml:2:21: " + rate);
  const std::string seed = "99999999999999999999 is too large: an integer has 64 bits";
  EXPECT_EQ(error("", {"train.seed=99999999999999999999"}), "command line: train.seed: " + seed);
  EXPECT_EQ(error("[train]\nbatch = 1\nseed = 99_999_999_999_999_999_999 # many"), "hep.toml:3:34: " + seed);
  EXPECT_EQ(error("", {"optimizer.lr=9007199254740993"}),
            "command line: optimizer.lr must be a number below 2^53 where it is an integer, found the integer "
            "9007199254740993");
}

TEST_F(Config, NotToml) {
  EXPECT_EQ(error("[train]\nbatch = \n").find("hep.toml:2:"), 0U);
  EXPECT_NE(error("[train]\nbatch = \n").find("not valid TOML: "), std::string::npos);
  EXPECT_EQ(error("a = 1\na = 2\n").find("hep.toml:2:5: not valid TOML: "), 0U);
  EXPECT_EQ(error("", {"data.train=[\"a"}), "command line: the value of data.train is not valid TOML: [\"a");
  EXPECT_EQ(error("", {"run.name=\xff"}), "command line: the value of run.name is not valid UTF-8");
  EXPECT_EQ(error("", {"run.name"}), "command line: 'run.name' must have the form option=value");
  EXPECT_EQ(error("", {"=3"}), "command line: '=3' must have the form option=value");
  EXPECT_EQ(error("", {""}), "command line: '' must have the form option=value");
}

TEST_F(Config, FileThatCannotBeRead) {
  EXPECT_EQ(error_of(folder_ + "/none.toml", {}), "cannot read none.toml: No such file or directory");
  std::filesystem::create_directory(folder_ + "/d");
  EXPECT_EQ(error_of(folder_ + "/d", {}), "cannot read d: Is a directory");
}

TEST_F(Config, FaultyDeclarationsAreProgramErrors) {
  const auto refused = [&](auto&&... arguments) {
    try {
      schema_.add(arguments...);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kFailure);
      return true;
    }
    return false;
  };
  int zero = 0;
  std::string text;
  std::vector<double> list;
  EXPECT_TRUE(refused("train.batch", zero));
  EXPECT_TRUE(refused("train", zero));
  EXPECT_TRUE(refused("train.batch.size", zero));
  EXPECT_TRUE(refused("a b", zero));
  EXPECT_TRUE(refused("", zero));
  EXPECT_TRUE(refused("new.zero", zero, positive()));
  EXPECT_TRUE(refused("new.text", text, positive()));
  EXPECT_TRUE(refused("new.list", list, one_of({"a"})));
  EXPECT_FALSE(refused("new.list", list, positive()));
  EXPECT_FALSE(refused("trai", zero));
}

TEST_F(Config, KeysDescribeThemselves) {
  const OptionInfo batch = schema_.options().at(0), list = schema_.options().at(7);
  EXPECT_EQ(batch.name, "train.batch");
  EXPECT_EQ(batch.type, "an integer");
  EXPECT_EQ(batch.default_value, "128");
  EXPECT_EQ(batch.constraint, "at least 1");
  EXPECT_EQ(list.type, "a list of numbers");
}

// The resolved text with a comment beside each option.
std::string with_comments(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '\n' ? "  # words\n" : std::string(1, c);
  return result;
}

TEST_F(Config, ReferenceOfTheDefaults) {
  const std::string good = with_comments(schema_.resolved());
  const auto sentences = [&](const std::string& text) { return compare_with_reference(schema_, write(text)); };
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), text.npos) << from;
    return sentences(text.replace(text.find(from), from.size(), to));
  };
  EXPECT_EQ(sentences(good), std::vector<std::string>{});
  EXPECT_EQ(replaced("batch = 128", "# above\nbatch = 128"), std::vector<std::string>{});
  EXPECT_EQ(replaced("lr = 0.001  # words", "  # above\nlr = 0.001"), std::vector<std::string>{});
  EXPECT_EQ(replaced("train = []  # words", "train = [\n  ]  # words"), std::vector<std::string>{});
  const auto one = [&](const std::vector<std::string>& found, const std::string& part) {
    ASSERT_EQ(found.size(), 1U) << part;
    EXPECT_NE(found[0].find(part), std::string::npos) << found[0];
  };
  one(replaced("batch = 128", "# batch = 128"), "train.batch is missing; its default is 128");
  one(replaced("batch = 128", "batch = 64"), ":4: train.batch must be 128, its default, found 64");
  one(replaced("[1.0, 0.5]", "[1, 0.5]"), "scale must be [1.0, 0.5], its default, found [1, 0.5]");
  one(replaced("\"f32\"", "\"f32#\""), "precision must be \"f32\"");
  one(replaced("seed = 1  # words", "seed = 1"), "train.seed must have a comment");
  one(replaced("crop = [-1]", "other = 3\ncrop = [-1]"), "data.other is not an option");
}

enum class Colour { kRed, kGreen };

TEST_F(Config, WordsStandForValues) {
  Colour colour = Colour::kGreen;
  schema_.add("run.colour", colour, {{"red", Colour::kRed}, {"green", Colour::kGreen}});
  EXPECT_NE(schema_.resolved().find("colour = \"green\""), std::string::npos);
  EXPECT_EQ(error("[run]\ncolour = \"red\""), "");
  EXPECT_EQ(colour, Colour::kRed);
  EXPECT_NE(schema_.resolved().find("colour = \"red\""), std::string::npos);
  EXPECT_EQ(error("", {"run.colour=green"}), "");
  EXPECT_EQ(colour, Colour::kGreen);
  EXPECT_NE(error("", {"run.colour=blue"}).find("run.colour must be one of \"red\", \"green\", found \"blue\""),
            std::string::npos);
  EXPECT_EQ(colour, Colour::kGreen);
}

TEST_F(Config, FormerNamesAreRead) {
  schema_.add_former_name("train.batch_size", "train.batch");
  EXPECT_EQ(error("[train]\nbatch_size = 3"), "");
  EXPECT_EQ(options_.batch, 3);
  EXPECT_EQ(error("", {"train.batch_size=4"}), "");
  EXPECT_EQ(options_.batch, 4);
  EXPECT_EQ(schema_.resolved().find("batch_size"), std::string::npos);
}

TEST_F(Config, ASharpInAStringIsNoComment) {
  std::string value = "a#b";
  Schema schema;
  schema.add("x", value);
  EXPECT_EQ(compare_with_reference(schema, write("x = \"a#b\"\n")).size(), 1U);
  EXPECT_EQ(compare_with_reference(schema, write("x = \"a#b\" # words\n")).size(), 0U);
}

}  // namespace
}  // namespace petaflow
