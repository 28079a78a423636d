// Statistics that several ranks take together, against those of one rank alone.
#include <gtest/gtest.h>

#include "climate/frame_file.hpp"
#include "climate/statistics.hpp"
#include "climate_frames.hpp"
#include "shared_folder.hpp"

namespace petaflow::climate {
namespace {

TEST(ClimateStatisticsOfRanks, AreThoseOfOneRank) {
  const auto comm = make_communicator();
  const test::SharedFolder folder(*comm);
  std::vector<std::string> files;
  for (std::uint64_t i = 0; i < 5; ++i) {
    files.push_back(folder / fmt::format("{}.h5", i));
    if (comm->rank() == 0) write_frame(files.back(), test::made_frame(4, 6, i));
  }
  comm->barrier();
  Communicator alone;
  const Statistics found = compute_statistics(*comm, files), expected = compute_statistics(alone, files);
  EXPECT_EQ(found.frames, 5);
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    const FieldStatistics &a = found.fields[f], &b = expected.fields[f];
    EXPECT_EQ(a.count, 120);
    EXPECT_EQ(a.min, b.min);
    EXPECT_EQ(a.max, b.max);
    EXPECT_NEAR(a.mean / b.mean, 1, 1e-12);
    EXPECT_NEAR(a.deviation() / b.deviation(), 1, 1e-9);
  }
  comm->barrier();
  if (comm->rank() == 0) std::filesystem::remove(files[4]);
  comm->barrier();
  EXPECT_HOLDS(test::error_of([&] { compute_statistics(*comm, files); }), "4.h5 does not exist");  // on all ranks
}

}  // namespace
}  // namespace petaflow::climate
