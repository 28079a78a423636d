// The options of the program and of its application, as the input file and the command line give them.
#pragma once

#include <cstdint>
#include <string>

#include "comm/communicator.hpp"
#include "config/schema.hpp"
#include "program/command_line.hpp"
#include "program/options.hpp"
#include "program/task.hpp"

namespace petaflow {

/// Bound to its schema and to the task's options, so it stays where it is.
struct Configuration {
  explicit Configuration(Task& task);
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;

  /// Reads the input file and the overrides, checks them, names the run; on all ranks.
  void load_input(Communicator& comm, const CommandLine& line);
  /// Defaults but for the overrides, without an input file; on all ranks.
  void load_options(Communicator& comm, const std::vector<std::string>& overrides);
  /// Takes the options from a resolved configuration.  Those that this version does not know are refused.
  void load_text(Communicator& comm, const std::string& config, const std::string& where);

  /// All options and their values, as text: those of load_input() with what the task has kept since (Task::keep), and
  /// the groups that the user asked for.
  std::string resolved();
  /// Other groups of the same workers, whose steps take as many samples each.
  void regroup(std::int64_t groups);

  HangOptions hang_options() const;
  std::string run_folder() const { return options.run.folder + "/" + options.run.name; }

  CommonOptions options;
  Schema schema;

 private:
  std::string program_;
  std::int64_t groups_ = 0;  // that the user asked for; 0: no input was loaded
};

/// train --check on one rank: it checks what a rank of one group would do, whatever the job's ranks are.
bool checks_alone(const CommandLine& line, const Communicator& comm);

}  // namespace petaflow
