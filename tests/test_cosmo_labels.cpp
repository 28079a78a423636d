// Labels of cubes: which parameter each one is of, and that they mean what the ranges say.
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hdf5.h>

#include "cosmo_files.hpp"
#include "data/cosmo.hpp"
#include "scratch_folder.hpp"

namespace petaflow {
namespace {

using namespace test;

TEST(CosmoLabels, LabelsOutOfTheirRangeAreNamed) {
  const ScratchFolder folder;
  CosmoDataOptions options = whole_cubes(8);
  options.ranges = {{"Omega_m", "data.omega_m", 0.27, 0.33}, {"sigma_8", "data.sigma_8", 0.72, 0.88}};
  options.parameters = {0, 1};
  write_npy(folder / "n_data.npy", "<i2", "(8, 8, 8, 4)", bytes_of(cube_of_places()));
  const auto read = [&](const std::vector<float>& labels) {
    write_npy(folder / "n_label.npy", "<f4", "(" + std::to_string(labels.size()) + ",)", bytes_of(labels));
    return read_cube(open_cosmo(options, {folder / "n_data.npy"}), 0).targets;
  };
  const auto error = [&](const std::vector<float>& labels) { return error_of([&] { read(labels); }); };
  EXPECT_EQ(read({-1.0001F, 1.0001F}), (std::vector<float>{-1.0001F, 1.0001F}));
  EXPECT_HOLDS(error({0.1F, 1.5F}),
               "n_label.npy: the label of sigma_8 is 1.5; parameters scaled to [-1, 1] were "
               "expected (data.sigma_8 says which values -1 and 1 stand for)");
  EXPECT_HOLDS(error({NAN, 0}), "n_label.npy: the label of Omega_m is nan");
  EXPECT_HOLDS(error({0}), "n_label.npy: 1 labels; that of sigma_8 is asked for");
}

// Omega_m and H_0 of the labels 0.1 and -0.4.
TEST(CosmoLabels, LabelsMustMeanWhatTheRangesSay) {
  const ScratchFolder folder;
  CosmoDataOptions options;
  options.edge = 4;
  options.channels = 2;
  options.parameters = {0, 3};
  options.ranges = {{"Omega_m", "data.omega_m", 0.27, 0.33},
                    {"sigma_8", "data.sigma_8", 0.72, 0.88},
                    {"n_s", "data.n_s", 0.9, 0.9},
                    {"H_0", "data.h_0", 63, 77}};
  const std::string path = folder / "cube.h5";
  const auto write = [&](const std::vector<float>& physical, const std::vector<float>& ranges,
                         const std::string& name = "cube.h5", const std::string& cube = "x",
                         const std::string& labels = "y") {
    write_cosmo_hdf5(folder / name, {Hdf5Type::kI16}, cube_of_places(), cube, labels);
    const hid_t file = H5Fopen((folder / name).c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const auto add = [&](const char* set_name, const std::vector<float>& values) {
      if (values.empty()) return;
      const hsize_t size = values.size();
      const hid_t space = H5Screate_simple(1, &size, nullptr);
      const hid_t set = H5Dcreate2(file, set_name, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
      H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
      H5Dclose(set), H5Sclose(space);
    };
    add("physPar", physical), add("rangePar", ranges);
    H5Fclose(file);
  };
  const std::vector<float> physical = {0.303F, 0.784F, 0.9F, 67.2F};
  const std::vector<float> ranges = {0.27F, 0.33F, 0.72F, 0.88F, 0.9F, 0.9F, 63, 77};
  const auto accepted = [&] { EXPECT_NO_THROW(read_cube(open_cosmo(options, {path}), 0)); };
  const auto error = [&] { return error_of([&] { scan_cosmo(options, {path}); }); };
  write(physical, {}), accepted();
  write({}, ranges), accepted();
  write(physical, ranges), accepted();
  write({0.3031F, 0.5F, 2.0F, 67.2F}, {}), accepted();  // few digits; others are not asked for
  write({0.305F, 0.784F, 0.9F, 67.2F}, {});
  EXPECT_HOLDS(error(), path +
                            ": its label 0.1 of Omega_m stands for 0.305 (physPar), but for 0.303 where "
                            "data.omega_m is [0.27, 0.33]; set data.omega_m to the range");
  write({0.303F, 0.784F, 0.9F, 66.0F}, {});
  EXPECT_HOLDS(error(), "its label -0.4 of H_0 stands for 66 (physPar), but for 67.2 where data.h_0 is [63, 77]");
  write({NAN, 0.784F, 0.9F, 67.2F}, {});
  EXPECT_HOLDS(error(), "its label 0.1 of Omega_m stands for nan (physPar)");
  std::vector<float> wider = ranges;
  wider[0] = 0.25F, wider[1] = 0.35F;
  write(physical, wider);
  EXPECT_HOLDS(error(), path +
                            ": its labels of Omega_m are scaled with [0.25, 0.35] (rangePar), but data.omega_m is "
                            "[0.27, 0.33]; set data.omega_m = [0.25, 0.35]; evaluate and predict use the ranges");
  options.labels_optional = true;  // labels that are there must be right
  EXPECT_HOLDS(error(), "scaled with [0.25, 0.35]");
  options.labels_optional = false;

  // Universes, and files behind the first one.
  write({0.305F, 0.784F, 0.9F, 67.2F}, {}, "universe.h5", "full", "unitPar");
  EXPECT_HOLDS(error_of([&] { scan_cosmo(options, {folder / "universe.h5"}); }), "stands for 0.305 (physPar)");
  write(physical, ranges, "a.h5");
  const CosmoData both = open_cosmo(options, {folder / "a.h5", path});
  EXPECT_NO_THROW(read_cube(both, 7));
  EXPECT_HOLDS(error_of([&] { read_cube(both, 8); }), path + ": its labels of Omega_m are scaled with [0.25, 0.35]");
}

// The parameters of a file stand in the order of its namePar.
TEST(CosmoLabels, NamesOfParametersSayTheirOrder) {
  const ScratchFolder folder;
  CosmoDataOptions options = whole_cubes(8);
  options.ranges = {{"Omega_m", "data.omega_m", 0.27, 0.33},
                    {"sigma_8", "data.sigma_8", 0.72, 0.88},
                    {"n_s", "data.n_s", 0.8, 1.0},
                    {"H_0", "data.h_0", 63, 77}};
  const auto targets = [&](const std::vector<std::string>& names, const std::vector<float>& labels,
                           const std::vector<float>& physical = {}) {
    Hdf5File file = Hdf5File::create(folder / "named.h5");
    file.write<float>("x", {8, 8, 8, 4}, std::vector<float>(2048), {Hdf5Type::kI16});
    file.write<float>("y", {std::ssize(labels)}, labels);
    if (!physical.empty()) file.write<float>("physPar", {std::ssize(physical)}, physical);
    file.write_texts("namePar", names);
    file.close();
    return read_cube(open_cosmo(options, {folder / "named.h5"}), 0).targets;
  };
  EXPECT_EQ(targets({"Omega_m", "sigma_8", "n_s", "H_0"}, kLabels), kLabels);
  const auto notes = [&] { return open_cosmo(options, {folder / "named.h5"}).notes(); };
  EXPECT_EQ(notes().size(), 1U);  // what -1 and 1 stand for
  const std::vector<float> other = {kLabels[3], kLabels[0], kLabels[2], kLabels[1]};
  EXPECT_EQ(targets({"H_0", "Omega_m", "N_spec", "sigma8"}, other), kLabels);
  EXPECT_EQ(targets({"H0", "OmegaM", "ns", "sigma_8"}, other, {67.2F, 0.303F, 0.93F, 0.784F}), kLabels);
  EXPECT_HOLDS(notes().back(), "named.h5 are H0, OmegaM, ns, sigma_8 (namePar): each is taken by its name");
  EXPECT_HOLDS(error_of([&] { targets({"H_0", "Omega_m", "w", "sigma_8"}, other); }),
               "named.h5: none of its parameters H_0, Omega_m, w, sigma_8 (namePar) is n_s");
  EXPECT_HOLDS(error_of([&] { targets({"H_0", "Omega_m", "n_s"}, other); }),
               "named.h5: 3 names of parameters (namePar) for 4 labels");
  options.parameters = {0, 1};
  EXPECT_EQ(targets({"sigma_8", "w", "Omega_m"}, {0.2F, 0.9F, 0.1F}), (std::vector<float>{0.1F, 0.2F}));
}

}  // namespace
}  // namespace petaflow
