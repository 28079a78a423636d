// Readers fed with damaged files: each gives a result or one of our own errors; nothing crashes, hangs, or asks for
// memory that a file of that size cannot need.  PETAFLOW_FUZZ_INPUTS: inputs per reader (default 1000); the address
// sanitizer sees what a crash does not show.
#include <sys/resource.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.hpp"
#include "config/document.hpp"
#include "cosmo_files.hpp"
#include "data/hep.hpp"
#include "hep_files.hpp"
#include "io/checkpoint.hpp"
#include "io/gzip.hpp"
#include "io/tf_example.hpp"
#include "io/tfrecord.hpp"
#include "program/options.hpp"
#include "read_sample.hpp"
#include "scratch_folder.hpp"

/// HDF5 itself loses memory when it meets damaged metadata: not ours to mend.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }

namespace petaflow {
namespace {

std::int64_t inputs_per_reader() {
  const char* const text = std::getenv("PETAFLOW_FUZZ_INPUTS");
  return text == nullptr ? 1000 : std::atoll(text);
}

/// A damaged copy: a few flipped bits, numbers of the kind that break parsers, parts moved, doubled or cut off.
std::string damaged(std::string bytes, std::uint64_t input) {
  RandomSequence random(random_stream(20, RandomPurpose::kGenerate), input);
  const auto below = [&](std::size_t n) {
    return static_cast<std::size_t>(random.below(static_cast<std::uint32_t>(n)));
  };
  for (std::size_t change = 1 + below(6); change > 0 && !bytes.empty(); --change) {
    const std::size_t at = below(bytes.size()), length = 1 + below(std::min<std::size_t>(64, bytes.size() - at));
    switch (below(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 1:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 2: {
        const std::int64_t numbers[] = {0, 1, -1, 255, 65535, INT32_MAX, INT64_MAX, INT64_MIN, std::ssize(bytes)};
        const std::int64_t number = numbers[below(std::size(numbers))];
        const std::size_t width = std::size_t{1} << below(4);
        for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i) {
          bytes[at + i] = static_cast<char>(number >> (8 * i));
        }
        break;
      }
      case 3:
        bytes.insert(below(bytes.size()), bytes.substr(at, length));
        break;
      case 4:
        bytes.erase(at, length);
        break;
      default:
        if (below(8) == 0) bytes.resize(at);
    }
  }
  return bytes;
}

/// Runs a reader over damaged copies of its seeds.
void fuzz(const std::vector<std::string>& seeds, const std::function<void(const std::string&)>& read) {
  for (const std::string& seed : seeds) ASSERT_NO_THROW(read(seed)) << "an undamaged file is refused";
  std::int64_t refused = 0;
  for (std::int64_t i = 0; i < inputs_per_reader(); ++i) {
    try {
      read(damaged(seeds[static_cast<std::size_t>(i) % seeds.size()], static_cast<std::uint64_t>(i)));
    } catch (const Error&) {
      ++refused;
    } catch (const std::exception& error) {
      FAIL() << "input " << i << ": " << error.what();
    }
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, inputs_per_reader());
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  EXPECT_LT(used.ru_maxrss, 1'000'000) << "kB of memory for files of a few";
}

TEST(Fuzz, Checkpoint) {
  const test::ScratchFolder folder;
  Checkpoint checkpoint;
  checkpoint.model = "a network";
  checkpoint.config = "[train]\nbatch = 8\n";
  checkpoint.training = R"({"step": 7})";
  checkpoint.weights = {{"conv1/weight", {2, 3, 3, 3}, std::vector<float>(54, 0.5F)}, {"conv1/bias", {2}, {1, 2}}};
  checkpoint.training_arrays = {{"optimizer/exp_avg/conv1/bias", {2}, {3, 4}}};
  const std::string path = folder / "checkpoint.h5";
  save_checkpoint(path, checkpoint);
  fuzz({test::read_bytes(path)}, [&](const std::string& bytes) {
    test::write_bytes(path, bytes);
    load_checkpoint(path);
  });
}

TEST(Fuzz, HepData) {
  const test::ScratchFolder folder;
  std::vector<std::string> seeds;
  const std::string path = folder / "events.h5";
  test::write_all_events(path);
  seeds.push_back(test::read_bytes(path));
  test::write_all_events(path, {Hdf5Type::kF16, {4, 2, 3}, 2});
  seeds.push_back(test::read_bytes(path));
  test::write_sc17(path);
  seeds.push_back(test::read_bytes(path));
  fuzz(seeds, [&](const std::string& bytes) {
    test::write_bytes(path, bytes);
    const HepData data = test::open_hep({}, {path});
    const auto [c, d, h, w] = data.sample_dims();
    std::vector<float> pixels(static_cast<std::size_t>(c * d * h * w));
    for (std::int64_t i = 0; i < std::min<std::int64_t>(3, data.size()); ++i) test::read_f32(data, i, pixels);
  });
}

/// Reads samples of a file of cubes.
void read_cubes(const std::string& path) {
  const CosmoData data = test::open_cosmo(test::whole_cubes(4), {path});
  for (std::int64_t i = 0; i < std::min<std::int64_t>(3, data.size()); ++i) test::read_cube(data, i);
}

TEST(Fuzz, CosmoHdf5) {
  const test::ScratchFolder folder;
  const std::string path = folder / "cube.h5";
  std::vector<std::string> seeds;
  for (const Hdf5Storage& storage : {Hdf5Storage{Hdf5Type::kI16}, Hdf5Storage{Hdf5Type::kI16, {3, 5, 8, 1}, 4},
                                     Hdf5Storage{Hdf5Type::kI16, {8, 3, 2, 4}, 6, true}}) {
    test::write_cosmo_hdf5(path, storage, test::cube_of_places());
    seeds.push_back(test::read_bytes(path));
  }
  fuzz(seeds, [&](const std::string& bytes) {
    test::write_bytes(path, bytes);
    read_cubes(path);
  });
}

/// A cube of 4^3 as an Example.
std::string cosmo_example() {
  const std::string x(std::size_t{2} * 4 * 64, '\1');
  return tf_example({{"x", {{x}, {}, {}}}, {"y", {{}, test::kLabels, {}}}});
}

TEST(Fuzz, TfRecords) {
  fuzz({tfrecord("first") + tfrecord("") + tfrecord("third"), tfrecord(cosmo_example())},
       [](const std::string& bytes) { tfrecords_in(bytes, "file"); });
}

// The checksums of a record would hide its message.
TEST(Fuzz, TfExample) {
  const test::ScratchFolder folder;
  const std::string path = folder / "cube.tfrecord";
  fuzz({cosmo_example(), tf_example({{"x", {{}, {}, {-1, 5, 1LL << 40}}}, {"y", {{}, {1, 2, 3, 4}, {}}}})},
       [&](const std::string& message) {
         parse_tf_example(message, "message");
         test::write_bytes(path, tfrecord(message));
         try {
           read_cubes(path);
         } catch (const Error&) {  // another Example is no cube
         }
       });
}

TEST(Fuzz, Gzip) {
  const test::ScratchFolder folder;
  const std::string path = folder / "a.gz";
  const std::string text = test::read_bytes("inputs/reference.toml");
  fuzz({gzipped(text), gzipped(cosmo_example()), gzipped("a") + gzipped(std::string(100'000, 'a'))},
       [&](const std::string& bytes) {
         test::write_bytes(path, bytes);
         read_inflated(path, path);
       });
}

TEST(Fuzz, Npy) {
  const test::ScratchFolder folder;
  const std::string data = folder / "cube_data.npy", labels = folder / "cube_label.npy";
  test::write_npy(data, "<i2", "(4, 4, 4, 4)", std::string(512, '\1'));
  test::write_npy(labels, "<f4", "(4,)", test::bytes_of(test::kLabels));
  const std::string whole_data = test::read_bytes(data), whole_labels = test::read_bytes(labels);
  fuzz({whole_data}, [&](const std::string& bytes) {
    test::write_bytes(data, bytes);
    read_cubes(data);
  });
  test::write_bytes(data, whole_data);
  fuzz({whole_labels}, [&](const std::string& bytes) {
    test::write_bytes(labels, bytes);
    read_cubes(data);
  });
}

TEST(Fuzz, InputFile) {
  std::vector<std::string> seeds;
  for (const char* name : {"inputs/reference.toml", "inputs/hep_quick.toml"}) {
    seeds.push_back(test::read_bytes(name));
    ASSERT_FALSE(seeds.back().empty()) << name;
  }
  fuzz(seeds, [](const std::string& text) {
    for (const Entry& entry : parse_document(text, "input.toml")) to_toml(entry.value);
  });
}

TEST(Fuzz, KeysOfAnInputFile) {
  const std::string seed =
      "[data]\ntrain = [\"a.h5\"]\nshuffle = true\n[train]\nepochs = 3\nbatch = 8\n[optimizer]\nlr = 1e-3\n"
      "[schedule]\nstep_epochs = [3.0, 6]\n";
  const test::ScratchFolder folder;
  const std::string path = folder / "input.toml";
  fuzz({seed}, [&](const std::string& text) {
    test::write_bytes(path, text);
    CommonOptions options;
    Schema schema;
    declare(schema, options);
    schema.load(path);
    check(options);
  });
}

}  // namespace
}  // namespace petaflow
