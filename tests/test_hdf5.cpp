// HDF5 wrapper: types, chunks, attributes, and every kind of file that is not what it should be.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <hdf5.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <numeric>
#include <thread>

#include "io/hdf5.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using test::error_of;
using test::ScratchFolder;

std::vector<float> ramp(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), -3.0F);
  return values;
}

struct StorageCase {
  const char* name;
  Hdf5Storage storage;
};

class Hdf5Types : public testing::TestWithParam<StorageCase> {};

TEST(Hdf5, LockedFilesAreRefusedUnlessLockingIsOff) {
  if (std::getenv("HDF5_USE_FILE_LOCKING") != nullptr) GTEST_SKIP() << "NOT TESTED: HDF5_USE_FILE_LOCKING is set";
  const ScratchFolder folder;
  {
    auto file = Hdf5File::create(folder / "a.h5");
    file.write<float>("x", {1000}, ramp(1000));
    file.close();
  }
  const int writer = open((folder / "a.h5").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(flock(writer, LOCK_EX), 0);  // another descriptor is another owner
  const hid_t opened = H5Fopen((folder / "a.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (opened >= 0) {
    H5Fclose(opened);
    close(writer);
    GTEST_SKIP() << "NOT TESTED: this HDF5 library was built without file locking";
  }
  EXPECT_HOLDS(error_of([&] { Hdf5File::open(folder / "a.h5"); }), "a.h5 cannot be locked");
  EXPECT_HOLDS(error_of([&] { Hdf5File::open(folder / "a.h5"); }), "data.hdf5_locking = false");
  set_hdf5_locking(false);
  EXPECT_EQ(Hdf5File::open(folder / "a.h5").read<float>("x"), ramp(1000));
  set_hdf5_locking(true);
  EXPECT_HOLDS(error_of([&] { Hdf5File::create(folder / "a.h5"); }), "data.hdf5_locking = false");  // cut to nothing
  set_hdf5_locking(false);
  Hdf5File::create(folder / "a.h5").write<float>("x", {10}, ramp(10));
  EXPECT_EQ(Hdf5File::open(folder / "a.h5").read<float>("x"), ramp(10));
  set_hdf5_locking(true);
  EXPECT_HOLDS(error_of([&] { Hdf5File::open(folder / "a.h5"); }), "cannot be locked");
  close(writer);
  EXPECT_EQ(Hdf5File::open(folder / "a.h5").read<float>("x"), ramp(10));
}

/// Contiguous f32 data are read around HDF5: not from the file that only links to them.
TEST(Hdf5, LinksIntoOtherFilesAreFollowed) {
  const ScratchFolder folder;
  {
    auto data = Hdf5File::create(folder / "data.h5");
    data.write<float>("x", {1000}, ramp(1000));
    data.close();
    auto links = Hdf5File::create(folder / "links.h5");
    links.write<float>("other", {5000}, std::vector<float>(5000, 7));
    links.close();
    const hid_t file = H5Fopen((folder / "links.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(H5Lcreate_external("data.h5", "/x", file, "x", H5P_DEFAULT, H5P_DEFAULT), 0);
    H5Fclose(file);
  }
  EXPECT_EQ(Hdf5File::open(folder / "links.h5").read<float>("x"), ramp(1000));
}

/// As h5py stores NumPy's booleans.
TEST(Hdf5, BooleansAreIntegers) {
  const ScratchFolder folder;
  {
    const hid_t file = H5Fcreate((folder / "b.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t type = H5Tenum_create(H5T_STD_I8LE);
    const std::int8_t no = 0, yes = 1, values[3] = {1, 0, 1};
    H5Tenum_insert(type, "FALSE", &no);
    H5Tenum_insert(type, "TRUE", &yes);
    const hsize_t count = 3;
    const hid_t space = H5Screate_simple(1, &count, nullptr);
    const hid_t set = H5Dcreate2(file, "flags", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(set);
    H5Sclose(space);
    H5Tclose(type);
    H5Fclose(file);
  }
  EXPECT_EQ(Hdf5File::open(folder / "b.h5").read<std::int32_t>("flags"), (std::vector<std::int32_t>{1, 0, 1}));
  EXPECT_EQ(Hdf5File::open(folder / "b.h5").read<float>("flags"), (std::vector<float>{1, 0, 1}));
}

TEST_P(Hdf5Types, WhatIsWrittenIsRead) {
  const ScratchFolder folder;
  const auto values = ramp(7 * 6);
  {
    auto file = Hdf5File::create(folder / "a.h5");
    Hdf5Storage storage = GetParam().storage;
    file.write<float>("group/x", {7, 2, 3}, values, storage);
    file.close();
  }
  const auto file = Hdf5File::open(folder / "a.h5");
  const Hdf5Dataset set = file.dataset("group/x");
  EXPECT_EQ(set.info().dims, (std::vector<std::int64_t>{7, 2, 3}));
  EXPECT_EQ(set.info().chunk, GetParam().storage.chunk);
  EXPECT_EQ(file.read<float>("group/x"), values);
  EXPECT_EQ(file.read<double>("group/x"), std::vector<double>(values.begin(), values.end()));
  EXPECT_EQ(file.read<std::int32_t>("group/x"), std::vector<std::int32_t>(values.begin(), values.end()));
  EXPECT_EQ(file.read<std::int64_t>("group/x"), std::vector<std::int64_t>(values.begin(), values.end()));
  std::vector<float> rows(2 * 6);
  set.read<float>(4, 2, rows);
  EXPECT_EQ(rows, std::vector<float>(values.begin() + 24, values.begin() + 36));
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5Types,
                         testing::Values(StorageCase{"f32", {Hdf5Type::kF32}}, StorageCase{"f16", {Hdf5Type::kF16}},
                                         StorageCase{"f64", {Hdf5Type::kF64}}, StorageCase{"i16", {Hdf5Type::kI16}},
                                         StorageCase{"i32", {Hdf5Type::kI32}}, StorageCase{"i64", {Hdf5Type::kI64}},
                                         StorageCase{"chunked", {Hdf5Type::kF32, {2, 1, 2}}},
                                         StorageCase{"packed", {Hdf5Type::kF32, {2, 2, 2}, 4}},
                                         StorageCase{"shuffled", {Hdf5Type::kF32, {1, 1, 3}, 1, true}},
                                         StorageCase{"gzip", {Hdf5Type::kF64, {3, 2, 3}, 4}}),
                         [](const auto& test) { return test.param.name; });

/// Chunks that were never written hold zeros; those behind a block of the user's own lie where HDF5 does not say.
TEST(Hdf5, ChunksAreReadWhereTheyLie) {
  const ScratchFolder folder;
  const std::string path = folder / "a.h5";
  {
    const hid_t made = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_userblock(made, 1024);
    const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, made, H5P_DEFAULT);
    const hsize_t size[2] = {6, 5}, chunk[2] = {2, 5}, first[2] = {2, 0}, rows[2] = {2, 5};
    const hid_t space = H5Screate_simple(2, size, nullptr), memory = H5Screate_simple(2, rows, nullptr);
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(list, 2, chunk);
    const hid_t set = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, first, nullptr, rows, nullptr);
    H5Dwrite(set, H5T_NATIVE_FLOAT, memory, space, H5P_DEFAULT, ramp(10).data());
    for (const hid_t list_of : {made, list}) H5Pclose(list_of);
    for (const hid_t space_of : {space, memory}) H5Sclose(space_of);
    H5Dclose(set);
    H5Fclose(file);
  }
  std::vector<float> expected(30, 0);
  std::ranges::copy(ramp(10), expected.begin() + 10);
  EXPECT_EQ(Hdf5File::open(path).read<float>("x"), expected);
}

TEST(Hdf5, HalfPrecisionRoundsAsIeee) {
  const ScratchFolder folder;
  auto file = Hdf5File::create(folder / "a.h5");
  file.write<float>("x", {3}, std::vector<float>{1.0F / 3, 65504.0F, 1e6F}, {Hdf5Type::kF16});
  const auto back = file.read<float>("x");
  EXPECT_EQ(back[0], 0.333251953125F);
  EXPECT_EQ(back[1], 65504.0F);
  EXPECT_EQ(back[2], std::numeric_limits<float>::infinity());
  EXPECT_EQ(file.dataset("x").info().text(), "float16 (3)");
}

TEST(Hdf5, ListsAndDescribes) {
  const ScratchFolder folder;
  auto file = Hdf5File::create(folder / "a.h5");
  file.write<float>("b/c/deep", {2}, ramp(2));
  file.write<std::int32_t>("a", {}, std::vector<std::int32_t>{5}, {Hdf5Type::kU8});
  file.create_group("empty");
  EXPECT_EQ(file.datasets(), (std::vector<std::string>{"/a", "/b/c/deep"}));
  EXPECT_EQ(file.datasets("/b"), (std::vector<std::string>{"/b/c/deep"}));
  EXPECT_TRUE(file.datasets("empty").empty());
  EXPECT_TRUE(file.datasets("none").empty());
  EXPECT_TRUE(file.has("b/c"));
  EXPECT_FALSE(file.has("x/y/z"));
  EXPECT_EQ(file.read<std::int32_t>("a"), std::vector<std::int32_t>{5});
  EXPECT_EQ(file.dataset("a").info().text(), "integer8 ()");
  EXPECT_HOLDS(error_of([&] { file.dataset("b/x"); }), "has no data set b/x; it holds /a, /b/c/deep");
  EXPECT_HOLDS(error_of([&] { file.dataset("b"); }), "b is not a readable data set");
}

TEST(Hdf5, AttributesOfAnyLength) {
  const ScratchFolder folder;
  const std::string text(300000, 'x');  // above 64 KiB only with newer formats
  {
    auto made = Hdf5File::create(folder / "a.h5");
    made.write<float>("w", {2}, ramp(2));
    made.set_attribute("/", "text", text);
    made.set_attribute("/", "empty", std::string());
    made.set_attribute("w", "number", std::int64_t{4294967295});
    made.set_attribute("w", "number", std::int64_t{7});  // replaces
  }
  const auto file = Hdf5File::open(folder / "a.h5");
  EXPECT_EQ(file.text_attribute("/", "text"), text);
  EXPECT_EQ(file.text_attribute("/", "empty"), "");
  EXPECT_EQ(file.integer_attribute("w", "number"), 7);
  EXPECT_EQ(file.text_attribute("w", "number"), std::nullopt);
  EXPECT_EQ(file.integer_attribute("/", "none"), std::nullopt);
  EXPECT_EQ(file.read<float>("w"), ramp(2));
}

TEST(Hdf5, EachWrongFileHasItsSentence) {
  const ScratchFolder folder;
  const auto open = [](const std::string& path) { return error_of([&] { Hdf5File::open(path); }); };
  EXPECT_HOLDS(open(folder / "none.h5"), "none.h5 does not exist");
  EXPECT_HOLDS(open(folder.path()), "is a folder");
  test::write_bytes(folder / "empty.h5", "");
  EXPECT_HOLDS(open(folder / "empty.h5"), "empty.h5 is empty");
  test::write_bytes(folder / "text.h5", std::string(5000, 'a'));
  EXPECT_HOLDS(open(folder / "text.h5"), "is not an HDF5 file");
  {
    auto file = Hdf5File::create(folder / "good.h5");
    file.write<float>("x", {1000}, ramp(1000));
  }
  std::filesystem::create_symlink("loop.h5", folder / "loop.h5");
  EXPECT_HOLDS(open(folder / "loop.h5"), "loop.h5 cannot be read: Too many levels of symbolic links");
  std::filesystem::create_symlink("gone.h5", folder / "link.h5");
  EXPECT_HOLDS(open(folder / "link.h5"), "link.h5 is a link to gone.h5, which does not exist");
  const std::string bytes = test::read_bytes(folder / "good.h5");
  test::write_bytes(folder / "cut.h5", bytes.substr(0, bytes.size() - 1));
  EXPECT_HOLDS(open(folder / "cut.h5"),
               fmt::format("is truncated: it has {} of {} bytes", bytes.size() - 1, bytes.size()));
  EXPECT_HOLDS(error_of([&] { Hdf5File::create(folder / "no/such/folder.h5"); }), "cannot be written: No such file");
}

// A filter that the writing program had and the reading one has not.
TEST(Hdf5, AMissingFilterIsNoDamage) {
  const ScratchFolder folder;
  constexpr H5Z_filter_t kLzf = 32000;
  const auto copy = [](unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*, void**) {
    return bytes;
  };
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, kLzf, 1, 1, "lzf", nullptr, nullptr, +copy};
  H5Zregister(&filter);
  {
    const hid_t file = H5Fcreate((folder / "a.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hsize_t size = 100, chunk = 10;
    const hid_t space = H5Screate_simple(1, &size, nullptr), list = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(list, 1, &chunk);
    H5Pset_filter(list, kLzf, H5Z_FLAG_OPTIONAL, 0, nullptr);
    const hid_t set = H5Dcreate2(file, "x", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, ramp(100).data());
    H5Dclose(set), H5Pclose(list), H5Sclose(space), H5Fclose(file);
  }
  EXPECT_EQ(Hdf5File::open(folder / "a.h5").read<float>("x"), ramp(100));
  H5Zunregister(kLzf);
  EXPECT_HOLDS(error_of([&] { Hdf5File::open(folder / "a.h5").read<float>("x"); }),
               "a.h5: data set x is compressed by the filter lzf (32000), which the HDF5 library here does not have; "
               "convert the file where it can be read (h5repack -f GZIP=4 OLD NEW)");
}

TEST(Hdf5, RowsAndTypesAreChecked) {
  const ScratchFolder folder;
  auto file = Hdf5File::create(folder / "a.h5");
  const auto set = file.create_dataset("x", {4, 2});
  std::vector<float> two(4);
  EXPECT_HOLDS(error_of([&] { set.read<float>(3, 2, two); }), "has 4 rows; rows 3 to 5 were asked for");
  EXPECT_HOLDS(error_of([&] { set.read<float>(-1, 2, two); }), "rows -1 to 1");
  EXPECT_HOLDS(error_of([&] { set.read<float>(0, 1, two); }), "4 values for 2 elements");
  EXPECT_HOLDS(error_of([&] { file.create_dataset("x", {1}); }), "x (1) cannot be made");
}

// Files of the format before HDF5 1.8 are cut in test_hep_data.cpp.
TEST(Hdf5, TruncatedAnywhereIsAnError) {
  const ScratchFolder folder;
  {
    auto file = Hdf5File::create(folder / "whole.h5");
    file.write<float>("g/x", {40, 5}, ramp(200), {Hdf5Type::kF64, {4, 5}, 1});
    file.write<float>("g/y", {40}, ramp(40));
  }
  const std::string bytes = test::read_bytes(folder / "whole.h5");
  ASSERT_GT(bytes.size(), 1000U);
  for (std::size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 29) {
    test::write_bytes(folder / "cut.h5", bytes.substr(0, size));
    EXPECT_THROW(Hdf5File::open(folder / "cut.h5"), Error) << "cut to " << size;
  }
}

TEST(Hdf5, ReadsFromSeveralThreads) {
  const ScratchFolder folder;
  constexpr std::int64_t kRows = 200;
  auto file = Hdf5File::create(folder / "a.h5");
  const auto values = ramp(kRows * 10);
  file.write<float>("plain", {kRows, 10}, values);
  file.write<float>("packed", {kRows, 10}, values, {Hdf5Type::kF64, {7, 10}, 1});
  file.close();
  const auto again = Hdf5File::open(folder / "a.h5");
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::vector<float> row(10);
        const auto set = again.dataset(t % 2 == 0 ? "plain" : "packed");
        for (std::int64_t i = 0; i < kRows; ++i) {
          set.read<float>(i, 1, row);
          if (!std::equal(row.begin(), row.end(), values.begin() + 10 * i)) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

// A limit on the size of files stands for a full disk; in a child, as HDF5 keeps what it could not write until the
// process ends.
TEST(Hdf5DeathTest, FullDiskIsAnErrorAndTheProcessEnds) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const ScratchFolder folder;
  const auto write_too_much = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100000, 100000};
    setrlimit(RLIMIT_FSIZE, &limit);
    try {
      auto file = Hdf5File::create(folder / "a.h5");
      file.write<float>("x", {100000}, ramp(100000));
      file.close();
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::exit(3);
    }
    std::exit(0);
  };
  EXPECT_EXIT(write_too_much(), testing::ExitedWithCode(3), "cannot be written: is the disk full");
}

}  // namespace
}  // namespace petaflow
