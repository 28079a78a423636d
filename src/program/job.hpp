// Everything that a command works with.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/context.hpp"
#include "comm/communicator.hpp"
#include "config/schema.hpp"
#include "nn/conv_tuning.hpp"
#include "program/application.hpp"
#include "train/options.hpp"

namespace petaflow {

/// What the command line says, of all commands together.
struct CommandLine {
  std::string command;                 // "train"
  std::string input;                   // input file, or run folder or checkpoint
  std::vector<std::string> overrides;  // key=value
  std::vector<std::string> files;      // evaluate, predict; report: run folders
  std::string output;                  // predict, report, export
  bool check = false, overwrite = false, resume = false, json = false;
  bool io = false;          // bench: on the training data
  std::int64_t steps = 20;  // bench
};

/// A run's options are bound to its schema, so it stays where it is.
struct Job {
  /// Application and communicator must outlive it.
  Job(Application& application, Communicator& communicator, CommandLine command_line);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// Reads the input file and the overrides, checks them, names the run; on all ranks.
  void load_input();
  /// Takes the keys from a resolved configuration.  Keys that this version does not know are refused.
  void load_text(const std::string& config, const std::string& where);

  /// A log line of rank 0, unless the command's output is for machines.
  template <typename... Args>
  void say(fmt::format_string<Args...> text, Args&&... args) const {
    say_line(fmt::format(text, std::forward<Args>(args)...));
  }
  void say_line(const std::string& line) const;
  bool is_root() const { return comm->rank() == 0; }
  /// The metric of validations that training stops by and keeps the best of.
  std::string stop_metric() const { return options.stop.metric.empty() ? app.metrics().front() : options.stop.metric; }
  std::string run_folder() const { return options.run.folder + "/" + options.run.name; }

  Application& app;
  Communicator* comm;
  CommandLine line;
  Context context;
  CommonOptions options;
  Schema schema;
  std::unique_ptr<MlLog> mllog;        // on rank 0 of a training that is to keep one
  std::unique_ptr<ConvTuning> tuning;  // of kernels.conv = "tune"

 private:
  void watch_hangs();
};

}  // namespace petaflow
