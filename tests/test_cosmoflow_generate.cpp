// Files of generated universes: what they hold, on any number of ranks, and what is refused before any is written.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "cosmoflow/generate.hpp"
#include "io/gzip.hpp"
#include "io/hdf5.hpp"
#include "io/tf_example.hpp"
#include "io/tfrecord.hpp"
#include "scratch_folder.hpp"

namespace petaflow::cosmoflow {
namespace {

namespace fs = std::filesystem;
using test::error_of;

GeneratorOptions small(const std::string& folder) {
  GeneratorOptions options;
  options.universe = {8, 16};
  options.train = 3, options.validation = 1, options.test = 0;
  options.seed = 42;
  options.folder = folder;
  return options;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) names.push_back(fs::relative(entry.path(), folder).string());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::int16_t> expected_cube(const GeneratorOptions& options, std::int64_t universe, std::int64_t part) {
  const auto seed = static_cast<std::uint64_t>(options.seed);
  UniverseMaker maker(options.universe);
  const auto counts = maker.make(draw_parameters(options.ranges, seed, universe), seed, universe);
  return sub_cube(counts, options.universe.particles, options.cuts, part);
}

std::vector<std::string> texts_of(const std::string& path, const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT),
              set = H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  const hid_t type = H5Dget_type(set), space = H5Dget_space(set);
  const std::size_t length = H5Tget_size(type);
  std::string bytes(length * static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)), '\0');
  EXPECT_GE(H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()), 0);
  H5Sclose(space), H5Tclose(type), H5Dclose(set), H5Fclose(file);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < bytes.size(); at += length) texts.emplace_back(bytes.substr(at, length).c_str());
  return texts;
}

TEST(CosmoflowGenerate, SplitHdf5) {
  const test::ScratchFolder scratch;
  const GeneratorOptions options = small(scratch / "set");
  prepare_folders(options, false);
  EXPECT_EQ(write_universes(options, 0, 1), 4 * 8);
  const auto names = files_in(options.folder);
  ASSERT_EQ(names.size(), 4U * 8U);
  EXPECT_EQ(names[0], "train/42_univ_ics_2lpt_a00000000_000.hdf5");
  EXPECT_EQ(names[31], "validation/42_univ_ics_2lpt_a00000003_007.hdf5");
  EXPECT_FALSE(fs::exists(options.folder + "/test"));

  const std::string path = options.folder + "/train/" + sample_name(options, 2, 5);
  const Hdf5File file = Hdf5File::open(path);
  const Hdf5Info info = file.dataset("x").info();
  EXPECT_EQ(info.text(), "integer16 (4, 4, 4, 4)");
  EXPECT_EQ(info.chunk, info.dims);
  EXPECT_EQ(file.read<std::int16_t>("x"), expected_cube(options, 2, 5));
  const Parameters physical = draw_parameters({}, 42, 2), labels = to_labels({}, physical);
  const auto y = file.read<float>("y"), unit = file.read<float>("unitPar"), phys = file.read<float>("physPar");
  EXPECT_EQ(file.dataset("y").info().text(), "float32 (4)");
  EXPECT_EQ(y, unit);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], static_cast<float>(labels[i]));
    EXPECT_EQ(phys[i], static_cast<float>(physical[i]));
  }
  EXPECT_EQ(file.read<float>("rangePar"), (std::vector<float>{0.27F, 0.33F, 0.72F, 0.88F, 0.864F, 1.056F, 63, 77}));
  EXPECT_EQ(texts_of(path, "namePar"), (std::vector<std::string>{"Omega_m", "sigma_8", "n_s", "H_0"}));
  EXPECT_EQ(file.read<double>("redshifts"), (std::vector<double>{0, 0.5, 1.5, 3}));
  EXPECT_EQ(file.read<double>("boxSize"), std::vector<double>{16});
  EXPECT_EQ(file.integer_attribute("/", "seed"), 42);
  EXPECT_EQ(file.integer_attribute("/", "universe"), 2);
  EXPECT_EQ(file.integer_attribute("/", "part"), 5);
  EXPECT_HOLDS(file.text_attribute("/", "source").value_or(""), "petaflow ");
}

TEST(CosmoflowGenerate, TfRecordsHoldTheSame) {
  const test::ScratchFolder scratch;
  for (const int gzip : {0, 1}) {
    GeneratorOptions options = small(scratch / ("set" + std::to_string(gzip)));
    options.format = "tfrecord";
    options.gzip = gzip;
    prepare_folders(options, false);
    write_universes(options, 0, 1);
    const std::string path = options.folder + "/validation/" + sample_name(options, 3, 7);
    EXPECT_EQ(test::read_bytes(path).starts_with("\x1f\x8b"), gzip == 1);
    const std::string bytes = read_inflated(path, path);
    const auto records = tfrecords_in(bytes, path);
    ASSERT_EQ(records.size(), 1U);
    const auto features = parse_tf_example(records[0], path);
    ASSERT_EQ(features.size(), 2U);
    const auto cube = expected_cube(options, 3, 7);
    const std::string_view x = features.at("x").bytes.at(0);
    ASSERT_EQ(x.size(), 2 * cube.size());
    EXPECT_EQ(std::memcmp(x.data(), cube.data(), x.size()), 0);
    const Parameters labels = to_labels({}, draw_parameters({}, 42, 3));
    EXPECT_EQ(features.at("y").floats, std::vector<float>(labels.begin(), labels.end()));
  }
}

TEST(CosmoflowGenerate, RanksShareTheUniverses) {
  const test::ScratchFolder scratch;
  const GeneratorOptions one = small(scratch / "one"), three = small(scratch / "three");
  prepare_folders(one, false), prepare_folders(three, false);
  write_universes(one, 0, 1);
  std::int64_t files = 0;
  for (int rank = 0; rank < 3; ++rank) files += write_universes(three, rank, 3);
  EXPECT_EQ(files, 32);
  EXPECT_EQ(write_universes(three, 5, 7), 0);  // more ranks than universes
  const auto names = files_in(one.folder);
  ASSERT_EQ(files_in(three.folder), names);
  for (const std::string& name : names) {
    EXPECT_EQ(Hdf5File::open(one.folder + "/" + name).read<std::int16_t>("x"),
              Hdf5File::open(three.folder + "/" + name).read<std::int16_t>("x"));
  }
}

TEST(CosmoflowGenerate, RefusesBeforeAnythingIsWritten) {
  const test::ScratchFolder scratch;
  const auto error = [&](auto change) {
    GeneratorOptions options = small(scratch / "set");
    change(options);
    return error_of([&] { prepare_folders(options, false); });
  };
  EXPECT_HOLDS(error([](auto& o) { o.cuts = 3; }), "generate.cuts is 3; it must divide generate.particles, 8");
  EXPECT_HOLDS(error([](auto& o) { o.universe.particles = 7; }), "generate.particles is 7");
  EXPECT_HOLDS(error([](auto& o) { o.ranges.h_0 = {70}; }), "data.h_0 must be two numbers");
  EXPECT_HOLDS(error([](auto& o) { o.train = o.validation = 0; }), "nothing is to be generated");
  EXPECT_HOLDS(error([](auto& o) { o.folder = ""; }), "generate.folder is empty");
  test::write_bytes(scratch / "file", "");
  EXPECT_HOLDS(error([&](auto& o) { o.folder = scratch / "file"; }), "file is not a folder");
  EXPECT_FALSE(fs::exists(scratch / "set"));

  const GeneratorOptions options = small(scratch / "set");
  prepare_folders(options, false);
  write_universes(options, 0, 1);
  EXPECT_HOLDS(error([](auto&) {}), ".hdf5 exists; name another generate.folder, or --overwrite");
  prepare_folders(options, true);
  GeneratorOptions fewer = options;
  fewer.train = 2, fewer.validation = 2;  // universe 2 would be in two sets
  EXPECT_HOLDS(error_of([&] { prepare_folders(fewer, true); }), "train/42_univ_ics_2lpt_a00000002_00");
  EXPECT_EQ(files_in(options.folder).size(), 32U);

  // A set made alone: universes are numbered from 0 again, and would be those of the training set.
  GeneratorOptions test_alone = options;
  test_alone.train = test_alone.validation = 0, test_alone.test = 2;
  EXPECT_HOLDS(error_of([&] { prepare_folders(test_alone, true); }), "may be of one of the universes to be written");
  test_alone.seed = 43;
  prepare_folders(test_alone, false);
  write_universes(test_alone, 0, 1);
  EXPECT_EQ(files_in(options.folder).size(), 48U);
}

TEST(CosmoflowGenerate, FilesThatCannotBeWrittenAreNamed) {
  const test::ScratchFolder scratch;
  GeneratorOptions options = small(scratch / "set");
  prepare_folders(options, false);
  fs::remove(options.folder + "/train");
  EXPECT_HOLDS(error_of([&] { write_universes(options, 0, 1); }), "/train/42_univ_ics_2lpt_a00000000_00");
  EXPECT_TRUE(files_in(options.folder).empty());
}

}  // namespace
}  // namespace petaflow::cosmoflow
