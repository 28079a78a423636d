// A program run as a user runs it, in a folder of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

namespace petaflow {
namespace fs = std::filesystem;

struct Outcome {
  int code = -1;
  std::string out, err;
};

inline std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

class Program : public testing::Test {
 protected:
  explicit Program(std::string name = "hep") : name_(std::move(name)) {}

  void SetUp() override {
    program_ = fs::read_symlink("/proc/self/exe").parent_path().parent_path() / name_;
    ASSERT_TRUE(fs::exists(program_)) << program_;
    folder_ = fs::temp_directory_path() / ("petaflow_program_" + std::to_string(getpid()));
    fs::create_directories(folder_);
    write_input("");
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write_input(const std::string& more) {
    std::ofstream(folder_ / "small.toml")
        << "[run]\nname = \"small\"\nfolder = \"runs\"\n[data]\n"
           "train = [\"train.h5\"]\nvalidation = [\"val.h5\"]\ntest = [\"test.h5\"]\n"
           "height = 16\nwidth = 16\n[model]\nfilters = [4, 4, 4]\n[train]\n"
           "epochs = 2\nbatch = 16\n[generate]\ntrain = 96\nvalidation = 32\ntest = 32\n"
        << more;
  }

  Outcome run(const std::string& arguments, int ranks = 1, const std::string& limit = "timeout 120") {
    // A fresh environment: this test program is an MPI process itself.
    const char* path = std::getenv("PATH");
    std::string sanitizers;  // their settings: MPI keeps memory and has locks of its own
    for (const char* name : {"ASAN_OPTIONS", "TSAN_OPTIONS"}) {
      if (const char* options = std::getenv(name)) sanitizers += " " + std::string(name) + "='" + options + "'";
    }
    std::string command = "cd " + folder_.string() + " && env -i PATH=" + (path != nullptr ? path : "/usr/bin") +
                          " HOME=" + folder_.string() + sanitizers +
                          " OMP_NUM_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
                          " OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe"
                          " OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none " +
                          limit + " ";
    if (ranks > 1) command += "mpirun -n " + std::to_string(ranks) + " ";
    command += program_.string() + " " + arguments + " >out.txt 2>err.txt";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(folder_ / "out.txt"), text_of(folder_ / "err.txt")};
  }

  /// Expects that the program, on so many ranks, says one sentence with these words, ends with exit code 1 and leaves
  /// no file behind.
  void expect_refused(const std::string& arguments, const std::string& words,
                      std::initializer_list<int> numbers_of_ranks = {1, 2}) {
    const std::set<fs::path> before = files();
    for (const int ranks : numbers_of_ranks) {
      const Outcome outcome = run(arguments, ranks);
      EXPECT_EQ(outcome.code, 1) << arguments << "\n" << outcome.err;
      EXPECT_EQ(count(outcome.err, name_ + ": "), 1U) << arguments << "\n" << outcome.err;
      EXPECT_NE(outcome.err.find(words), std::string::npos) << arguments << "\n" << outcome.err;
      EXPECT_EQ(files(), before) << arguments;
    }
  }

  /// Expects that of two programs that are started together one is done and one refused; gives what that one said.
  std::string expect_one_is_refused(const std::string& arguments) {
    const std::string start =
        "cd " + folder_.string() + " && { OMP_NUM_THREADS=1 " + program_.string() + " " + arguments;
    std::system((start + " >a.txt 2>&1; echo $? >a; } & " + start + " >b.txt 2>&1; echo $? >b; }; wait").c_str());
    const std::set<std::string> codes = {text_of(folder_ / "a"), text_of(folder_ / "b")};
    EXPECT_EQ(codes, (std::set<std::string>{"0\n", "1\n"})) << text_of(folder_ / "a.txt") << text_of(folder_ / "b.txt");
    return text_of(folder_ / (text_of(folder_ / "a") == "1\n" ? "a.txt" : "b.txt"));
  }

  /// Expects of what a training printed that the lines of validations have 100 characters at most, and that the end of
  /// the run, from the last of them on, fits a screen of 24 x 80.
  static void expect_fits_screen(const std::string& out) {
    std::size_t rows = 0;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      const bool validation = line.starts_with("epoch ") && line.find(" validation: ") != line.npos;
      if (validation) {
        EXPECT_LE(line.size(), 100U) << line;
        rows = line.size() > 80 ? 2 : 1;
      } else if (rows > 0) {
        EXPECT_LE(line.size(), 80U) << line;
        ++rows;
      }
    }
    EXPECT_GT(rows, 0U) << "no validation in\n" << out;
    EXPECT_LE(rows, 24U) << out;
  }

  /// All that lies in the folder, but for what the last program printed.
  std::set<fs::path> files() const {
    std::set<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) files.insert(entry.path());
    files.erase(folder_ / "out.txt");
    files.erase(folder_ / "err.txt");
    return files;
  }

  std::string name_;
  fs::path program_, folder_;
};

}  // namespace petaflow
