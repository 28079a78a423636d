// Data sets opened by several ranks together, against one rank alone.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include <gtest/gtest.h>

#include "comm/agree.hpp"
#include "comm/communicator.hpp"
#include "hep/task.hpp"
#include "hep_files.hpp"
#include "program/open_data.hpp"
#include "program/options.hpp"
#include "read_sample.hpp"
#include "shared_folder.hpp"

namespace petaflow {
namespace {

using namespace test;

/// The application with keys of the small files.
struct Hep {
  explicit Hep(std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"data.height=4", "data.width=6"});
    declare(schema, options);
    task.declare(schema);
    schema.load("", overrides);
  }
  CommonOptions options;
  Schema schema;
  hep::HepTask task;
};

/// Five files of ten events, the third one with the largest values.
void write_files(Communicator& comm, const SharedFolder& folder) {
  const float factors[] = {1, 2, 5, 3, 4};
  for (int i = 0; comm.rank() == 0 && i < 5; ++i) {
    std::vector<float> pixels = pixels_in("nchw", 3);
    for (float& pixel : pixels) pixel *= factors[i];
    auto file = Hdf5File::create(folder / fmt::format("f{}.h5", i));
    file.write<float>("all_events/images", {kEvents, 3, kHeight, kWidth}, pixels,
                      {Hdf5Type::kF32, {3 + i, 3, 4, 6}, 1});
    file.write<float>("all_events/labels", {kEvents}, column_of(kLabel));
    file.write<float>("all_events/weights", {kEvents}, column_of([](auto n) { return 1.0F + static_cast<float>(n); }));
    file.close();
  }
  comm.barrier();
}

TEST(OpenData, GivesTheSamplesAndMaximaOfOneRank) {
  const auto all = make_communicator();
  Communicator alone;
  const SharedFolder folder(*all);
  write_files(*all, folder);
  for (const char* cache : {"data.cache_gb=0", "data.cache_gb=1"}) {
    const std::vector<std::string> keys = {cache, "data.loss_weight=weight", "data.transforms=signed_log"};
    Hep a(keys), b(keys);
    const auto together = open_data(*all, a.task, {folder / "f*.h5"}, "data.train", DataRole::kTrain);
    const auto single = open_data(alone, b.task, {folder / "f*.h5"}, "data.train", DataRole::kTrain);
    EXPECT_EQ(a.schema.resolved(), b.schema.resolved());  // maxima and axis
    EXPECT_NE(a.schema.resolved().find("phi_axis = \"columns\""), std::string::npos);
    ASSERT_EQ(together->size(), 50);
    const auto elements = static_cast<std::size_t>(together->sample_elements());
    std::vector<float> x(elements), y(elements);
    for (std::int64_t i = 0; i < 50; ++i) {
      const auto s = test::read_f32(*together, i, x), t = test::read_f32(*single, i, y);
      EXPECT_EQ(x, y) << cache << " sample " << i;
      EXPECT_EQ(s.label, t.label);
      EXPECT_EQ(s.weight, t.weight);
    }
    EXPECT_EQ(std::ranges::max(channel_maxima(*together, all_of(*together))), 1.0F);
  }
}

TEST(OpenData, OneRankLooksIntoTheFiles) {
  const auto all = make_communicator();
  const SharedFolder folder(*all);
  write_files(*all, folder);
  // The names only lead to the files on rank 0.
  const auto here = std::filesystem::current_path();
  std::filesystem::current_path(all->rank() == 0 ? folder / "." : "/");
  Hep hep({"data.cache_gb=0", "data.normalise=none"});
  const auto data = open_data(*all, hep.task, {"f*.h5"}, "data.train", DataRole::kTrain);
  EXPECT_EQ(data->size(), 50);
  std::vector<float> pixels(static_cast<std::size_t>(data->sample_elements()));
  if (all->rank() == 0) {
    EXPECT_EQ(test::read_f32(*data, 33, pixels).label, 1);
  } else {
    EXPECT_HOLDS(error_of([&] { test::read_f32(*data, 33, pixels); }), "f3.h5 does not exist");
  }
  std::filesystem::current_path(here);
}

/// Message that all ranks throw, which must be the same.
std::string agreed(Communicator& comm, const std::function<void()>& act) {
  std::string message;
  try {
    act();
  } catch (const AgreedError& error) {
    message = error.what();
  }
  EXPECT_EQ(message, broadcast_text(comm, message));
  return message;
}

TEST(OpenData, ABadSampleIsFoundByTheRankWhoseShareItIs) {
  const auto all = make_communicator();
  const SharedFolder folder(*all);
  if (all->rank() == 0) {
    write_sc17(folder / "a.h5");
    auto file = Hdf5File::create(folder / "b.h5");
    std::vector<float> pixels = pixels_in("nchw", 3);
    pixels.back() = std::numeric_limits<float>::quiet_NaN();
    file.write<float>("data", {kEvents, 3, kHeight, kWidth}, pixels);
    for (const char* name : {"label", "weight", "normweight", "psr"}) {
      file.write<float>(name, {kEvents}, column_of(kLabel));
    }
    file.close();
  }
  all->barrier();
  const auto open = [&](const std::vector<std::string>& keys) {
    Hep hep(keys);
    return open_data(*all, hep.task, {folder / "a.h5", folder / "b.h5"}, "data.train", DataRole::kTrain);
  };
  const int last = all->size() - 1;
  const std::string sentence =
      (last > 0 ? fmt::format("rank {}: ", last) : "") + (folder / "b.h5") + ": event 9 has the value nan";
  EXPECT_HOLDS(agreed(*all, [&] { open({"data.cache_gb=1"}); }), sentence);
  EXPECT_HOLDS(agreed(*all, [&] { open({"data.cache_gb=0"}); }), sentence);  // while maxima are taken
  const auto data = open({"data.cache_gb=0", "data.normalise=none"});
  EXPECT_HOLDS(agreed(*all, [&] { check_all(*all, *data, "data.train"); }), sentence);
  EXPECT_HOLDS(agreed(*all,
                      [&] {
                        Hep hep({});
                        open_data(*all, hep.task, {folder / "none.h5"}, "data.train", DataRole::kTrain);
                      }),
               "none.h5 does not exist");
}

/// Counts how often each sample is read.
class Counted final : public Dataset {
 public:
  std::int64_t size() const override { return 11; }
  std::array<std::int64_t, 4> sample_dims() const override { return {1, 1, 1, 1}; }
  std::vector<TargetSpec> targets() const override { return {}; }
  float read(std::int64_t index, const SampleBytes& sample) const override {
    reads[static_cast<std::size_t>(index)] += 1;
    numbers<float>(sample.input)[0] = 0;
    return 1;
  }
  mutable std::vector<double> reads = std::vector<double>(11, 0.0);
};

TEST(OpenData, EverySampleIsCheckedOnce) {
  const auto all = make_communicator();
  const Counted data;
  check_all(*all, data, "data.train");
  all->all_reduce_sum(std::span<double>(data.reads));
  EXPECT_EQ(data.reads, std::vector<double>(11, 1.0));
}

}  // namespace
}  // namespace petaflow
